"""Queues: groups of jobs with common limits and rules, by name. A site may have none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing


class Waits(NamedTuple):
    """Expected and maximum wait of the jobs of a queue, in ns; 0 = not configured."""

    expected_ns: int = 0
    max_ns: int = 0


NO_WAITS = Waits()
DEFAULT_QUEUE = "default"
"""Name of the queue for jobs that name no queue, if it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Configuration of a queue; in all limits and waits 0 = none.

    ``priority`` multiplies the priority of its jobs at submission, and the limits are checked then.
    ``sharing`` applies to jobs without a setting of their own. ``weight`` is for future policies.
    Jobs should start within ``wait_expected_ns`` and are late after ``wait_max_ns``; some policies
    and the statistics of simulations use both. Jobs of the queues ``preempts`` may be requeued to
    let a job of this queue start.
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
    price_hold_ns: int = 0
    """Maximum time for which a new job is held back for cheaper energy."""
    preempts: tuple[str, ...] = ()
    nodes: tuple[NodeId, ...] = ()
    """The nodes of its jobs, as in a partition; empty = all."""
    sharing: CoreSharing = CoreSharing.AS_KIND
    sharing_factor: float | None = None
    """Maximum share of its cores that a job lends; None = the policy decides."""
    max_slowdown: float | None = None
    """Predicted slowdown from which on a job lends nothing; 0 = no such bound."""

    @property
    def waits(self) -> Waits:
        """Return both waits; if only one is configured it replaces the other."""
        expected_ns, max_ns = self.wait_expected_ns, self.wait_max_ns
        return Waits(expected_ns or max_ns, max_ns or expected_ns)
