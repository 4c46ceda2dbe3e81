"""Queues: jobs that a site treats alike, by name. Without any, all jobs are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wattfold.coordinator.core.job import CoreSharing


class Waits(NamedTuple):
    """How long jobs of a queue are expected to wait, and at most, ns; 0 = nothing is said."""

    expected_ns: int = 0
    max_ns: int = 0


NO_WAITS = Waits()
DEFAULT_QUEUE = "default"
"""Where jobs go that name none, if there is a queue of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a site says of a queue; in all limits and waits 0 = none.

    ``priority`` multiplies that of its jobs when they are submitted, and the limits are checked
    then. ``sharing`` is of its jobs that do not say themselves. ``weight`` is for policies to come.
    Its jobs are expected to start within ``wait_expected_ns``, and late after ``wait_max_ns``: for
    policies that go by it, and for what simulations measure. ``preempts`` are the queues of which
    jobs may be put back to let one of this start.
    """

    name: str
    priority: float = 1.0
    weight: float = 1.0
    time_limit_ns: int = 0
    time_limit_max_ns: int = 0
    cores_max: int = 0
    nodes_max: int = 0
    wait_expected_ns: int = 0
    wait_max_ns: int = 0
    preempts: tuple[str, ...] = ()
    sharing: CoreSharing = CoreSharing.AS_KIND
    sharing_factor: float | None = None
    """Share of its cores that a job lends at most; None = as the policy says."""
    max_slowdown: float | None = None
    """The predicted slowdown at which a job lends nothing; 0 = there is none."""

    @property
    def waits(self) -> Waits:
        """What its jobs are told of their start; where one of the two is not said, the other."""
        expected_ns, max_ns = self.wait_expected_ns, self.wait_max_ns
        return Waits(expected_ns or max_ns, max_ns or expected_ns)
