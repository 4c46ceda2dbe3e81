"""Conservative backfilling: every waiting job has a planned start that no later job delays.

Mu'alem and Feitelson, IEEE TPDS 12(6), 2001. Jobs get their size and level as in `easy`. In order
of priority, then of submission, each job gets the earliest start that delays no earlier planned
start. When a job ends early, all starts move up in that order. `promises` defines the tolerance for
inexact clocks, which starts count as late, and which jobs have no planned start.

A planned start is part of the plan and returns with the job (`SizeRequest.promise`). So a new
scheduler uses the starts that users were shown, and decides as its predecessor. A planned start
becomes later if jobs exceed their estimates, if nodes or power are lost, or for a queue that
preempts the queue of the job. For identical whole nodes only counts are reserved (`PromiseQueue`),
otherwise named nodes (`conservative_search`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core.model.jobs.job_units import count_text
from wattfold.coordinator.core.model.jobs.promise import KEPT, Promise
from wattfold.coordinator.core.model.plan import NodeView, Plan, Policy, Snapshot
from wattfold.coordinator.core.power.charge import node_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.conservative_search import (
    PROMISED,
    WAITS,
    ConservativeSearch,
)
from wattfold.coordinator.policies.backfill.easy import NOWHERE, EasyScheduler, Queue
from wattfold.coordinator.policies.backfill.easy_search import never
from wattfold.coordinator.policies.backfill.promises import LAG_NS, PromiseQueue
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.rounds import planned
from wattfold.coordinator.policies.fifo.settings import ConservativeSettings
from wattfold.coordinator.policies.port import (
    Decision,
    Held,
    NamedJobs,
    Reason,
    Scheduled,
    Scheduler,
    Site,
    SizeRequest,
)


class ConservativeScheduler(EasyScheduler):
    """Conservative backfilling with up to ``most`` planned starts, within a tolerance."""

    promises = True

    def __init__(
        self,
        *,
        size: str = "max",
        cap_uw: int | None = None,
        most: int = KEPT,
        lag_ns: int = LAG_NS,
    ) -> None:
        super().__init__(method="conservative", size=size, cap_uw=cap_uw, kills_at_limit=False)
        self._most, self._lag_ns = most, lag_ns
        self._named = NOWHERE
        """The actual site. In `_site`, the resources of ending jobs already count as present."""
        self._promises: dict[int, Promise] = {}
        """Planned starts of the waiting jobs."""
        self._news: dict[int, None] = {}
        """Jobs whose planned start has changed since the last report."""
        self._kept: ConservativeSearch | None = None

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""
        before, self._named = self._named, _with_away(site)
        super().site(_countable(self._named))
        if self._named != before or self._named.nodes != before.nodes:
            self._known = self.new_cache()
        if isinstance(self._queue, PromiseQueue):
            self._queue.leaving = self._leaving()

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or returns to it."""
        self._hear(job)
        super().submit(job, now_ns)

    def change(self, job: int, now_ns: int) -> None:
        """A job has changed, and possibly its planned start."""
        self._hear(job)
        super().change(job, now_ns)
        if isinstance(self._queue, PromiseQueue) and job in self._entered:
            self._queue.tell(job, self._start_of(job))

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or no longer waits."""
        self._promises.pop(job, None)
        super().end(job, now_ns)

    def decide(self, now_ns: int) -> Decision:
        """Return the jobs that start."""
        self._kept = None
        decision = super().decide(now_ns)
        if self._kept is not None:
            self._promises = self._kept.promises
        elif isinstance(self._queue, PromiseQueue):
            before, reserved = self._promises, self._queue.reserved
            after = {job: Promise(start) for job, start in reserved.items() if start is not None}
            for job in before.keys() | after.keys():
                if before.get(job) != after.get(job):
                    self._news[job] = None
            self._promises = after
        return decision

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason or start has changed."""
        if self._kept is not None:
            return self._kept.reasons
        shown = dict.fromkeys((*self._news, *jobs)) if self._told_all else self._entered
        self._told_all = True
        self._news.clear()
        return [self._why(job) for job in shown if job in self._entered]

    def _held(self, job: int) -> Held | None:
        held = super()._held(job)
        if held is None or held.here or not self._named.away:
            return held
        current = cast("NamedJobs", self._jobs).view(job).current
        assert current is not None
        return held._replace(here={s.node_id for s in current.shares} <= {*self._named.names})

    def _why(self, job: int) -> Reason:
        if not self._entered[job][0]:
            return Reason(job, never(count_text(self._asks[job].least, SizeUnit.NODES)), never=True)
        promise = self._promises.get(job)
        if promise is None:
            return Reason(job, WAITS)
        return Reason(job, PROMISED, start_ns=promise.start_ns, promise=promise)

    def _hear(self, job: int) -> None:
        """Store the planned start of a job from the driver."""
        promise = self._jobs.ask(job).promise
        if promise is None:
            self._promises.pop(job, None)
        else:
            self._promises[job] = promise

    def _start_of(self, job: int) -> int | None:
        promise = self._promises.get(job)
        return promise.start_ns if promise is not None else None

    def _round(self, **inputs: Any) -> ConservativeSearch:
        self._kept = ConservativeSearch(
            promised=self._promises,
            most=self._most,
            lag_ns=self._lag_ns,
            **inputs | {"site": self._named},
        )
        return self._kept

    def _empty(self) -> Queue:
        return PromiseQueue(
            self._units, most=self._most, lag_ns=self._lag_ns, leaving=self._leaving()
        )

    def _enter(self, queue: Queue, job: int, ask: SizeRequest) -> None:
        super()._enter(queue, job, ask)
        start_ns = self._start_of(job)
        if isinstance(queue, PromiseQueue) and start_ns is not None and self._entered[job][0]:
            queue.tell(job, start_ns)

    def _leaving(self) -> int:
        """Return the number of counted nodes that are unavailable because of ending jobs."""
        kind, site = self._site.kind, self._named
        if kind is None or site is self._site:
            return 0
        each_uw = max(node_uw(kind, self._level_uw), 1)
        fed = min(site.count, max(site.spendable_uw, 0) // each_uw)
        return max(sum(1 for node in site.nodes if node.leaving), self._units - fed)


def _with_away(site: Site) -> Site:
    """Return the site with its temporarily unreachable nodes, on which nothing is free yet.

    Planned starts on these nodes remain, and no other job moves up meanwhile.
    """
    if not site.away:
        return site
    nodes = site.nodes + site.away
    fixed_uw = sum(node.fixed_uw for node in site.away)
    return replace(
        site,
        count=len(nodes),
        kind=None,
        nodes=nodes,
        names=tuple(node.spec.node_id for node in nodes),
        spendable_uw=site.spendable_uw + site.away_held_uw,
        leaving_uw=site.leaving_uw + site.away_uw - fixed_uw - site.away_held_uw,
        most_uw=site.most_uw - fixed_uw,
    )


def _countable(site: Site) -> Site:
    """Return the site without its ending jobs if its nodes can then be counted."""
    nodes = site.nodes
    if site.kind is not None or site.reservations or not any(node.leaving for node in nodes):
        return site
    like = len({id(node.spec.kind) for node in nodes}) == 1
    if not like or any(queue.preempts for queue in site.queues) or not all(map(_free, nodes)):
        return site
    spendable_uw = site.spendable_uw + site.leaving_uw
    return replace(site, kind=nodes[0].spec.kind, spendable_uw=spendable_uw)


def _free(node: NodeView) -> bool:
    """Return whether only ending jobs block resources of a node."""
    leaving = CpuSet()
    for share in node.leaving:
        leaving = leaving | share.cpus
    return not node.blocked - leaving


@dataclass(frozen=True, slots=True)
class Conservative(Scheduled):
    """The policy with its settings."""

    settings: ConservativeSettings = ConservativeSettings()  # noqa: RUF009 - immutable

    @property
    def size(self) -> str:
        """The end of the size range that a job gets."""
        return self.settings.size

    @property
    def name(self) -> str:
        """``conservative``."""
        return "conservative"

    def fallback(self) -> Policy | None:
        """Start jobs in order; this code is independent of the policy."""
        return InTurn()

    def scheduler(self) -> Scheduler:
        """Return a scheduler with these settings."""
        return ConservativeScheduler(size=self.size, most=self.settings.promises)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keep running jobs and planned starts, and start other jobs that delay none of them."""
        del deadline_s
        return planned(self, snapshot, now_ns)
