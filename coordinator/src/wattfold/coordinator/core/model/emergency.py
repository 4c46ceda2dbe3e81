"""An emergency: a limit on power that is below the budget and is never refused.

A budget is a promise that the nodes can keep, so a budget below their floors is refused. A failed
feed does not ask. An emergency lowers all caps as far as necessary. If the floors alone exceed the
limit, jobs stop as well.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.spec import JobSpec


class JobStep(enum.Enum):
    """Treatment of unprotected jobs if the floors alone exceed the limit."""

    SUSPEND = "suspend"
    """Running jobs are suspended."""
    END = "end"
    """Jobs that can resume from a snapshot are ended and requeued, others are suspended.

    Their nodes are then without processes, so that an operator can switch them off.
    """
    NOTHING = "nothing"
    """Jobs continue at the floors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencyOrder:
    """The order of a site: protected jobs, and what happens to the others.

    Jobs are protected by their queue, their account, or a priority of at least ``priority``
    (0 = no job is protected by its priority).
    """

    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    priority: float = 0.0
    jobs: JobStep = JobStep.SUSPEND

    def protects(self, spec: JobSpec) -> bool:
        """Whether a job is protected: it is slowed last, and never stopped."""
        by_priority = 0 < self.priority <= spec.priority
        return by_priority or spec.user in self.users or spec.queue in self.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Emergency:
    """The emergency in force. Times are coordinator time."""

    limit_uw: int
    begun_ns: int
    order: EmergencyOrder = EmergencyOrder()
    short_uw: int = 0
    """Power that the nodes need at their floors above the limit, as of the last event."""
    stopped: tuple[JobId, ...] = ()
    """The jobs that it suspended, in this order."""
    slept: tuple[NodeId, ...] = ()
    """The nodes that it ordered to sleep, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencyBegun:
    """An operator, or the monitoring of the site, limited the power at once. Replaces the last."""

    limit_uw: int
    order: EmergencyOrder = EmergencyOrder()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmergencyEnded:
    """The limit of the emergency no longer applies."""
