"""Conservative backfilling: every waiting job has a promised start, which later jobs keep to.

Mu'alem and Feitelson, IEEE TPDS 12(6), 2001. Jobs get their size and level as in `easy`. In order
of priority, then of submission, each gets the earliest start that delays nobody who has one; when
something ends early all move up in that order. How promises are kept where clocks are not exact,
what counts as late, and who has none is in `promises`.

A promise is a part of the plan and comes back with the job (`Ask.promise`): a scheduler that is
made anew goes by what people were told, and decides as the one before. It becomes later if jobs
run longer than they were taken to, if nodes or power go, or for a queue that pre-empts its own. Of
whole like nodes only counts are kept (`PromiseQueue`), elsewhere named nodes
(`conservative_search`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.charge import node_uw
from wattfold.coordinator.core.job_units import count_text
from wattfold.coordinator.core.plan import NodeView, Plan, Policy, Snapshot
from wattfold.coordinator.core.promise import KEPT, Promise
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.conservative_search import PROMISED, WAITS, ConservativeSearch
from wattfold.coordinator.policies.easy import NOWHERE, EasyScheduler, Queue
from wattfold.coordinator.policies.easy_search import Wish, never
from wattfold.coordinator.policies.promises import LAG_NS, PromiseQueue
from wattfold.coordinator.policies.rounds import planned
from wattfold.coordinator.policies.scheduler import (
    Ask,
    Decision,
    Held,
    NamedJobs,
    NamedScheduler,
    Reason,
    Scheduled,
    Site,
)


class ConservativeScheduler(EasyScheduler):
    """Conservative backfilling that keeps ``promises`` starts, give or take a lag."""

    def __init__(
        self,
        *,
        size: str = "max",
        cap_uw: int | None = None,
        promises: int = KEPT,
        lag_ns: int = LAG_NS,
    ) -> None:
        super().__init__(method="conservative", size=size, cap_uw=cap_uw, kills_at_limit=False)
        self._most, self._lag_ns = promises, lag_ns
        self._named = NOWHERE
        """The site as it is; `_site` has what jobs on their way out hold as there."""
        self._promises: dict[int, Promise] = {}
        """Of the jobs that wait."""
        self._news: dict[int, None] = {}
        """Jobs whose promise is another since they were told of."""
        self._kept: ConservativeSearch | None = None

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""
        self._named = site = _with_away(site)
        super().site(_countable(site))
        if isinstance(self._queue, PromiseQueue):
            self._queue.leaving = self._leaving()

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or comes back to it."""
        self._hear(job)
        super().submit(job, now_ns)

    def change(self, job: int, now_ns: int) -> None:
        """A job is other than it was; what it was promised may be."""
        self._hear(job)
        super().change(job, now_ns)
        if isinstance(self._queue, PromiseQueue) and job in self._entered:
            self._queue.tell(job, self._start_of(job))

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or waits no more."""
        self._promises.pop(job, None)
        super().end(job, now_ns)

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """The jobs that start."""
        self._kept = None
        decisions = super().decide(now_ns)
        if self._kept is not None:
            self._promises = self._kept.promises
        elif isinstance(self._queue, PromiseQueue):
            before, reserved = self._promises, self._queue.reserved
            after = {job: Promise(start) for job, start in reserved.items() if start is not None}
            for job in before.keys() | after.keys():
                if before.get(job) != after.get(job):
                    self._news[job] = None
            self._promises = after
        return decisions

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason or start is another since the last call."""
        if self._kept is not None:
            return self._kept.reasons
        shown = dict.fromkeys((*self._news, *jobs)) if self._told_all else self._entered
        self._told_all = True
        self._news.clear()
        return [self._why(job) for job in shown if job in self._entered]

    def nodes(self, job: int) -> Sequence[NodeId]:
        """The nodes that were kept for a job that starts; counted ones are not named."""
        return self._kept.among.get(job, ()) if self._kept is not None else ()

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
        """What the driver says that a job was promised."""
        promise = self._jobs.ask(job).promise
        if promise is None:
            self._promises.pop(job, None)
        else:
            self._promises[job] = promise

    def _start_of(self, job: int) -> int | None:
        promise = self._promises.get(job)
        return promise.start_ns if promise is not None else None

    def _searched(self, now_ns: int) -> Sequence[Decision]:
        """Decides by looking at every node."""
        waits = [job for job in self._asks if job not in self._running]
        self._kept = ConservativeSearch(
            promised=self._promises,
            most=self._most,
            lag_ns=self._lag_ns,
            jobs=cast("NamedJobs", self._jobs),
            site=self._named,
            running=sorted(self._running),
            waiting=sorted(waits, key=self._place),
            wish=Wish(size=self.size, cap_uw=self.cap_uw, backfill=True),
            now_ns=now_ns,
        )
        self._search = self._kept
        decisions = self._kept.decide()
        self._running.update(job for job, _, _ in decisions)
        self._told_all = False
        return decisions

    def _empty(self) -> Queue:
        return PromiseQueue(
            self._units, most=self._most, lag_ns=self._lag_ns, leaving=self._leaving()
        )

    def _enter(self, queue: Queue, job: int, ask: Ask) -> None:
        super()._enter(queue, job, ask)
        start_ns = self._start_of(job)
        if isinstance(queue, PromiseQueue) and start_ns is not None and self._entered[job][0]:
            queue.tell(job, start_ns)

    def _leaving(self) -> int:
        """Nodes that cannot be had now, though they count: for jobs on their way out."""
        kind, site = self._site.kind, self._named
        if kind is None or site is self._site:
            return 0
        each_uw = max(node_uw(kind, self._level_uw), 1)
        fed = min(site.count, max(site.spendable_uw, 0) // each_uw)
        return max(sum(1 for node in site.nodes if node.leaving), self._units - fed)


def _with_away(site: Site) -> Site:
    """A site whose nodes that do not answer for a moment are there, with nothing free yet.

    What was promised on them stays promised, and nobody else moves up meanwhile.
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
    """A site whose nodes count but for jobs on their way out, as it is without these."""
    nodes = site.nodes
    if site.kind is not None or site.reservations or not any(node.leaving for node in nodes):
        return site
    like = len({id(node.spec.kind) for node in nodes}) == 1
    if not like or any(queue.preempts for queue in site.queues) or not all(map(_free, nodes)):
        return site
    spendable_uw = site.spendable_uw + site.leaving_uw
    return replace(site, kind=nodes[0].spec.kind, spendable_uw=spendable_uw)


def _free(node: NodeView) -> bool:
    """Whether nothing of a node is blocked but by jobs on their way out."""
    leaving = CpuSet()
    for share in node.leaving:
        leaving = leaving | share.cpus
    return not node.blocked - leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservative(Scheduled):
    """Settings. ``size``: "max" or "min" of the range a job gives; ``promises``: see `Keeper`."""

    size: str = "max"
    promises: int = KEPT

    @property
    def name(self) -> str:
        """``conservative``."""
        return "conservative"

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def scheduler(self) -> NamedScheduler:
        """A scheduler with these settings."""
        return ConservativeScheduler(size=self.size, promises=self.promises)

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs and what was promised, starts what fits beside that."""
        del deadline_s
        return planned(self, snapshot, now_ns)
