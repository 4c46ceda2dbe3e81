"""PBS Professional's job orders with backfilling: baselines of the constraint programming papers.

T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for High-Performance
Computers, with the baselines PBSFifo and PBSWalltime. Jobs are considered in order of submission
(``fifo``) or of requested time, shortest first (``walltime``). The first ``depth`` blocked jobs get
reserved resources, each as early as the running jobs and the earlier reservations permit. Later
jobs start if they do not delay these reservations. "Backfilling over the first N jobs" has two
possible readings:

- ``reserve``: the first N blocked jobs get reserved resources, and all other jobs may be
  backfilled;
- ``look``: no job behind the first N waiting jobs is considered.

Priorities precede either order. Starts are not promised: every round makes new reservations, so a
job may start later than expected. Jobs run at the maximum level, and no job is preempted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.backfill.easy import EasyScheduler, Queue
from wattfold.coordinator.policies.backfill.pbs_search import PbsKnown, PbsSearch
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.fifo.settings import PbsSettings as PbsSettings
from wattfold.coordinator.policies.port import NamedJobs, Scheduled, Scheduler
from wattfold.coordinator.policies.resources.estimates import DEFAULT_TIME_S
from wattfold.coordinator.solvers.lists.orders import FIFO_DEPTH, WALLTIME_DEPTH

DEPTHS = {"fifo": FIFO_DEPTH, "walltime": WALLTIME_DEPTH}
"""Depth of each order in the paper."""


class PbsScheduler(EasyScheduler):
    """A scheduler of this policy; it examines every node in each round."""

    new_cache = PbsKnown

    def __init__(self, policy: Pbs, search: type[PbsSearch] = PbsSearch) -> None:
        settings = policy.settings
        super().__init__(size=policy.size, kills_at_limit=False)
        self._policy, self._searching = policy, search
        # In order of submission, narrow jobs do not overtake a wide job forever.
        self.patience = settings.patience if policy.order == "walltime" else 0.0

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self._policy.name

    def _counted(self, now_ns: int) -> Queue | None:  # noqa: ARG002
        """Return None, because the policy searches node by node."""
        return None

    def _place(self, job: int) -> tuple[float, int, int]:
        place = super()._place(job)
        if self._policy.order == "fifo":
            return place
        view = cast("NamedJobs", self._jobs).view(job)
        priority, submitted_ns, _ = place
        return priority, walltime_ns(view), submitted_ns

    def _round(self, **inputs: Any) -> PbsSearch:
        settings = self._policy.settings
        return self._searching(
            depth=settings.depth or DEPTHS[self._policy.order],
            looks_on=settings.reading == "reserve",
            **inputs,
        )


def walltime_ns(view: JobView) -> int:
    """Return the time that orders a job: a prediction, the user's estimate, or its time limit."""
    spec = view.spec
    known_ns = view.planned_ns or spec.time_ns or spec.limit_ns or round(DEFAULT_TIME_S * NS_PER_S)
    return min(known_ns, spec.limit_ns) if spec.limit_ns else known_ns


@dataclass(frozen=True, slots=True)
class Pbs(Scheduled):
    """The policy. A ``depth`` of 0 selects the depth of the paper (`DEPTHS`)."""

    settings: PbsSettings = PbsSettings()  # noqa: RUF009 - immutable
    order: str = "fifo"

    @property
    def size(self) -> str:
        """The end of the size range that a job gets."""
        return self.settings.size

    @property
    def name(self) -> str:
        """``pbs-fifo`` or ``pbs-walltime``."""
        return f"pbs-{self.order}"

    def fallback(self) -> Policy | None:
        """Return the order of submission, with fewer reservations, for walltime; else `InTurn`."""
        if self.order == "fifo":
            return InTurn()
        return Pbs(replace(self.settings, depth=0))

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return PbsScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs and start jobs that do not delay the reservations of blocked jobs."""
        del deadline_s
        return planned(self, snapshot, now_ns)
