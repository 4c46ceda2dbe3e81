"""Queues: jobs that a site treats alike, by name. Without any, all jobs are."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.core.job import CoreSharing

DEFAULT_QUEUE = "default"
"""Where jobs go that name none, if there is a queue of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a site says of a queue; in all limits and waits 0 = none.

    ``priority`` multiplies that of its jobs when they are submitted, and the limits are checked
    then. ``sharing`` is of its jobs that do not say themselves. ``weight`` and the waits, expected
    and at most, are for policies to come. ``preempts`` are the queues of which jobs may be put back
    to let one of this start.
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
