"""PBS Professional's order with backfilling, as the baselines of the constraint programming papers.

T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for High-Performance
Computers, whose baselines PBSFifo and PBSWalltime these are. Jobs are looked at in
order: of submission (``fifo``), or the shortest time asked for first (``walltime``). Room is kept
for the first ``depth`` that do not fit, each as early as there is room for it beside those before
it; later ones start where they do not delay that. "Backfilling over the first N jobs" may be read
in two ways:

- ``reserve``: for the first N that do not fit room is kept, and all others may slip in beside it;
- ``look``: nobody is looked at behind the first N that wait.

Priorities go before either order. Nothing is promised: every round keeps room anew, so a job may
start later than it was expected to. Jobs run at the greatest level, and nobody is pre-empted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from wattfold.contract.ids import NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.policies.easy import EasyScheduler, Queue
from wattfold.coordinator.policies.easy_search import Wish
from wattfold.coordinator.policies.estimates import DEFAULT_TIME_S
from wattfold.coordinator.policies.pbs_search import PbsKnown, PbsSearch
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    Decision,
    NamedJobs,
    NamedScheduler,
    Scheduled,
    Site,
)
from wattfold.coordinator.solvers.lists.orders import FIFO_DEPTH, WALLTIME_DEPTH

DEPTHS = {"fifo": FIFO_DEPTH, "walltime": WALLTIME_DEPTH}
"""Of each order, in the paper."""


class PbsScheduler(EasyScheduler):
    """The policy at work: looks at every node in each round."""

    def __init__(self, settings: Pbs, search: type[PbsSearch] = PbsSearch) -> None:
        super().__init__(size=settings.size, kills_at_limit=False)
        self._settings, self._searching = settings, search
        self._kept: PbsSearch | None = None
        self._known = PbsKnown()

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        if site != self._site or site.nodes != self._site.nodes:
            self._known = PbsKnown()
        super().site(site)

    @property
    def name(self) -> str:
        """That of the policy."""
        return self._settings.name

    def nodes(self, job: int) -> Sequence[NodeId]:
        """The nodes that were chosen for a job that starts."""
        return self._kept.among.get(job, ()) if self._kept is not None else ()

    def _counted(self, now_ns: int) -> Queue | None:  # noqa: ARG002
        """None: which nodes are free when is looked up node by node."""
        return None

    def _place(self, job: int) -> tuple[float, int, int]:
        place = super()._place(job)
        if self._settings.order == "fifo":
            return place
        view = cast("NamedJobs", self._jobs).view(job)
        priority, submitted_ns, _ = place
        return priority, walltime_ns(view), submitted_ns

    def _searched(self, now_ns: int) -> Sequence[Decision]:
        settings = self._settings
        waits = [job for job in self._asks if job not in self._running]
        if self._known.full:
            self._known = PbsKnown()
        self._kept = self._search = self._searching(
            depth=settings.depth or DEPTHS[settings.order],
            looks_on=settings.reading == "reserve",
            known=self._known,
            jobs=cast("NamedJobs", self._jobs),
            site=self._site,
            running=sorted(self._running),
            waiting=sorted(waits, key=lambda job: (self._place(job), job)),
            wish=Wish(size=self.size, cap_uw=None, backfill=True),
            now_ns=now_ns,
        )
        decisions = self._kept.decide()
        self._running.update(job for job, _, _ in decisions)
        self._told_all = False
        return decisions


def walltime_ns(view: JobView) -> int:
    """The time a job is ordered by: predicted, its user's estimate, or its limit."""
    known_ns = view.planned_ns or view.spec.time_ns or view.spec.limit_ns
    return known_ns or round(DEFAULT_TIME_S * NS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pbs(Scheduled):
    """Settings; see above. ``depth`` 0: that of the paper."""

    order: str = "fifo"
    reading: str = "reserve"
    depth: int = 0
    size: str = "max"

    @property
    def name(self) -> str:
        """``pbs-fifo`` or ``pbs-walltime``."""
        return f"pbs-{self.order}"

    def fallback(self) -> Policy | None:
        """That by submission, which keeps room for fewer, of that by walltime."""
        return Pbs(reading=self.reading, size=self.size) if self.order == "walltime" else None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return PbsScheduler(self)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs and starts what fits, beside room for the first that do not."""
        del deadline_s
        return planned(self, snapshot, now_ns)
