"""Holds the threads of processes to cores within the mask of their job, by sched_setaffinity."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.core.errors import Broken

_RESCANS_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The cores of a process now, and those it was held to before (none: not by us)."""

    cpus: CpuSet
    before: CpuSet = field(default_factory=CpuSet)
    exact: bool = False
    """Threads that have bound themselves are no exception."""


def hold(what: str, look: Callable[[], Mapping[int, Place]]) -> None:
    """Holds every thread of these processes to its cores, until no new one appears.

    A thread that has bound itself to some of them is left alone. Raises OSError or Refused.
    """
    for _ in range(_RESCANS_MAX):
        if not hold_once(look()):
            return
    raise Broken(f"{what}: threads appear faster than their affinity can be set")


def hold_once(places: Mapping[int, Place]) -> int:
    """Holds the threads there are now; how many had to be moved. Raises OSError."""
    return sum(
        hold_thread(thread, place)
        for pid, place in places.items()
        for thread in procfs.threads_of(pid)
    )


def hold_thread(thread: int, place: Place) -> bool:
    """Holds one thread; whether its affinity had to be changed."""
    with contextlib.suppress(ProcessLookupError):
        own = os.sched_getaffinity(thread)
        wanted = place.cpus.cpus
        bound = own < wanted and own != place.before.cpus and not place.exact
        if own == wanted or bound:
            return False
        os.sched_setaffinity(thread, wanted)
        return True
    return False
