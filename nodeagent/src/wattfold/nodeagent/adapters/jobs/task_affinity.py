"""Confinement of the threads of processes to cores within the mask of their job, by affinity."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.core.errors import Broken

_RESCANS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The current cores of a process, and its previous cores (empty: not set by the agent)."""

    cpus: CpuSet
    before: CpuSet = field(default_factory=CpuSet)
    exact: bool = False
    """Also moves threads that have bound themselves."""


def hold(what: str, look: Callable[[], Mapping[int, Place]]) -> None:
    """Confine every thread of these processes to its cores, until no new thread appears.

    A thread that has bound itself to some of these cores is left alone. Raises OSError or Refused.
    """
    for _ in range(_RESCANS_MAX):
        if not hold_once(look()):
            return
    raise Broken(f"{what}: threads appear faster than their affinity can be set")


def hold_once(places: Mapping[int, Place]) -> int:
    """Confine the current threads. Returns the number of moved threads. Raises OSError."""
    return sum(
        hold_thread(thread, place)
        for pid, place in places.items()
        for thread in procfs.threads_of(pid)
    )


def hold_thread(thread: int, place: Place) -> bool:
    """Confine one thread. Returns whether its affinity changed."""
    with contextlib.suppress(ProcessLookupError):
        own = os.sched_getaffinity(thread)
        wanted = place.cpus.cpus
        bound = own < wanted and own != place.before.cpus and not place.exact
        if own == wanted or bound:
            return False
        os.sched_setaffinity(thread, wanted)
        return True
    return False
