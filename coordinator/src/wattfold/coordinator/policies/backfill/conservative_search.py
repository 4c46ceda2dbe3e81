"""Conservative backfilling on named nodes, for cases in which counting is not exact.

The rules are those of `promises`, applied to the `timeline` of all nodes. The considered jobs,
their sizes and the reasons of infeasible jobs are as in `easy_search`. The same holds for jobs in
future reservations and for preemption for the head of the queue. A preempting queue takes
precedence over the planned starts of the queues that it preempts, but over no other planned start.
Jobs are preempted only if this delays no other planned start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Share
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.model.reservation import ENDLESS_NS
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.candidates import Candidate, Shape
from wattfold.coordinator.policies.backfill.easy_search import EasySearch
from wattfold.coordinator.policies.backfill.promises import Keeper, TimedRequest, expected_end_ns
from wattfold.coordinator.policies.backfill.timeline import Ints, Need, NodesHold, Timeline
from wattfold.coordinator.policies.port import Change, Decision, Reason
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.room import Room, takes_whole_nodes
from wattfold.coordinator.policies.resources.stock import could_hold

PROMISED = "has a planned start that no later job delays"
WAITS = "does not fit now without delaying a planned start"


class ConservativeSearch(EasySearch):
    """The search of one round. ``promised`` holds the planned starts of the queue."""

    def __init__(
        self, *, promised: Mapping[int, Promise], most: int, lag_ns: int, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self.promises: dict[int, Promise] = {}
        """Planned starts of the jobs that wait after this round."""
        self._promised, self._most, self._lag_ns = promised, most, lag_ns
        self._there = [without_leaving(node) for node in self._site.nodes]
        self._unlike = list({id(kind): kind for kind in self._kinds}.values())
        self._needs: dict[Shape, Need] = {}
        self._reserved: dict[Shape, str] = {}

    @cached_property
    def _empty(self) -> Room:
        """The empty site, where ending jobs have ended, so jobs that need their nodes may wait."""
        return Room(self._there, self._site.most_uw)

    def decide(self) -> Decision:
        """Return the starting jobs, in order, and the running jobs to preempt."""
        queue = [one for one in self._waiting if self._may_start(one)]
        # Jobs of a reservation go first: its nodes are reserved for them.
        queue.sort(key=lambda candidate: not candidate.view.spec.reservation)
        requests = {one.job: self._request(one) for one in queue}
        keeper = self._kept(list(requests.values()), None, ())
        head = self._would_pre_empt(queue, keeper)
        if head is not None and (cleared := self._made_way(head, queue, requests)):
            keeper, queue = cleared, [one for one in queue if one is not head]
        for one in queue:
            hold = keeper.held.get(one.job)
            if hold is not None and hold.start_ns == self._now_ns:
                self._begin(one, hold)
        for one in queue:
            hold = keeper.held.get(one.job)
            if hold is None or hold.start_ns > self._now_ns:
                self._tell(one, hold)
        return Decision(self._changes, self.preemptions)

    def _kept(
        self, requests: Sequence[TimedRequest[Need]], first: NodesHold | None, gone: Sequence[int]
    ) -> Keeper[Need, NodesHold]:
        """Return the starts of all jobs.

        ``first`` is reserved before all others. Jobs in ``gone`` count as ended.
        """
        timeline = self._timeline(requests, gone)
        if first is not None:
            timeline.take(first)
        keeper = Keeper(timeline, now_ns=self._now_ns, lag_ns=self._lag_ns, most=self._most)
        keeper.settle(requests)
        return keeper

    def _timeline(self, requests: Sequence[TimedRequest[Need]], gone: Sequence[int]) -> Timeline:
        """Return the timeline of running jobs and of the remaining resources of ending jobs."""
        now_ns, soon_ns = self._now_ns, self._now_ns + 1
        ends = [
            soon_ns if one.job in gone else expected_end_ns(one.due_ns, now_ns, self._lag_ns)
            for one in self._running
        ]
        times = [soon_ns, *ends]
        for window in self._windows.reservations:
            times += [window.start_ns, window.end_ns]
        for one in requests:
            if one.promise is not None:
                start_ns = max(one.promise.start_ns, now_ns)
                times += [start_ns, start_ns + one.takes_ns + self._lag_ns]
        amounts = any(one.memory_bytes or one.gpus for one in self._needs.values())
        power_uw = self._site.spendable_uw + self._site.leaving_uw
        timeline = Timeline(self._there, power_uw, now_ns, times, amounts=amounts)
        leaving = [share for node in self._site.nodes for share in node.leaving]
        left = self._hold(timeline, leaving, soon_ns, self._site.leaving_uw, alone=False)
        timeline.take(left)
        for end_ns, run in zip(ends, self._running, strict=True):
            timeline.take(self._hold(timeline, run.shares, end_ns, run.power_uw, alone=run.alone))
        return timeline

    def _hold(
        self,
        timeline: Timeline,
        shares: Sequence[Share],
        end_ns: int,
        power_uw: int,
        *,
        alone: bool,
        start_ns: int = -1,
    ) -> NodesHold:
        """Return shares as held until an end; shares on unreachable nodes are omitted."""
        there = [share for share in shares if share.node_id in timeline.columns]
        start_ns = start_ns if start_ns >= 0 else self._now_ns
        specs = self._room.specs
        return NodesHold(
            start_ns=start_ns,
            end_ns=end_ns,
            promised_ns=start_ns,
            columns=_ints([timeline.columns[share.node_id] for share in there]),
            cores=_ints([len(specs[s.node_id].cpus if alone else s.cpus) for s in there]),
            power_uw=power_uw,
            memory_bytes=_ints([share.memory_bytes for share in there]),
            gpus=_ints([len(share.gpus) for share in there]),
        )

    def _request(self, candidate: Candidate) -> TimedRequest[Need]:
        shape = candidate.shape
        if shape not in self._needs:
            self._needs[shape] = self._need(candidate)
        takes_ns = duration_ns(candidate.view, self._unlike, candidate.size, candidate.cap_uw)
        return TimedRequest(
            candidate.job, self._needs[shape], takes_ns, self._promised.get(candidate.job)
        )

    def _need(self, candidate: Candidate) -> Need:
        spec, nodes = candidate.view.spec, self._site.nodes
        whole = spec.unit is SizeUnit.NODES
        count, cores = (candidate.size, 0) if whole else (1, candidate.size)
        units = candidate.size if spec.unit is SizeUnit.UNITS else 0
        if units:
            count, cores = units, spec.unit_cores
        room = self._room
        drawn = [
            room.part_uw(name, spec, cores or node.kind.cores, candidate.cap_uw)
            for name, node in room.specs.items()
        ]
        able = np.array([could_hold(node, spec) for node in nodes]) if spec.requests else None
        names, own = self._room.specs, self._windows.own(spec)
        return Need(
            count=count,
            cores=cores,
            alone=whole or takes_whole_nodes(spec),
            power_uw=_ints(drawn),
            # Several units on a node may draw a microwatt less than the sum of single units.
            least_uw=max(min(drawn) - 1, 0) * count if units else min(drawn) * count,
            able=able,
            memory_bytes=spec.memory_bytes,
            gpus=spec.gpus,
            closed=self._windows.closed(spec, candidate.takes_ns, names)
            if candidate.takes_ns
            else (),
            until_ns=own.end_ns if own is not None else ENDLESS_NS,
            units=units,
            spread=spec.spread,
            takes_uw=partial(_units_uw, room, tuple(names), spec, candidate.cap_uw),
        )

    def _begin(self, candidate: Candidate, hold: NodesHold) -> None:
        """Start a job on the nodes that are reserved for it from now on."""
        spec, names = candidate.view.spec, list(self._room.specs)
        among = hold.names(names)
        shares = self._room.find_fed(
            spec, candidate.size, candidate.cap_uw, candidate.takes_ns, among
        )
        assert shares is not None, f"job {candidate.view.job_id} does not fit on {among}"
        cap_uw = self._room.held_uw(shares, candidate.cap_uw)
        self._book(candidate.job, candidate.view, shares, candidate.size, cap_uw, self._now_ns)
        self._changes.append(Change(candidate.job, candidate.size, candidate.cap_uw, among=among))

    def _tell(self, candidate: Candidate, hold: NodesHold | None) -> None:
        text = self._kept_from(candidate)
        if hold is None:
            self._wait(candidate, text or WAITS)
            return
        names = list(self._room.specs)
        nodes = hold.names(names)
        self._promise(candidate, text or PROMISED, Promise(hold.promised_ns, nodes))

    def _promise(self, candidate: Candidate, text: str, promise: Promise) -> None:
        self.promises[candidate.job] = promise
        self.reasons.append(Reason(candidate.job, text, start_ns=promise.start_ns, promise=promise))

    def _kept_from(self, candidate: Candidate) -> str:
        """Return why only a reservation withholds nodes from a job now; empty if none does."""
        if not candidate.takes_ns:
            return ""
        if candidate.shape not in self._reserved:
            self._reserved[candidate.shape] = candidate.kept(self._room)
        return self._reserved[candidate.shape]

    # Preemption.

    def _would_pre_empt(
        self, queue: Sequence[Candidate], keeper: Keeper[Need, NodesHold]
    ) -> Candidate | None:
        """Return the job for which jobs are ending, or the first blocked job if it may preempt."""
        for one in queue:
            if one.view.job_id in self._site.clearing:
                return one
        waits = (
            one
            for one in queue
            if one.job not in keeper.held or keeper.held[one.job].start_ns > self._now_ns
        )
        first = next(waits, None)
        able = first is not None and self._preempted.get(first.view.spec.queue)
        return first if able else None

    def _made_way(
        self,
        head: Candidate,
        queue: Sequence[Candidate],
        requests: Mapping[int, TimedRequest[Need]],
    ) -> Keeper[Need, NodesHold] | None:
        """Return all starts behind a preempting job, or None if no jobs are preempted for it."""
        told = len(self.reasons)
        room = self._cleared(head)
        if room is None:
            del self.reasons[told:]
            return None
        shares = head.place(room)
        assert shares is not None
        request = requests[head.job]
        start_ns = self._now_ns + 1
        others = [one for job, one in requests.items() if job != head.job]
        gone = [job for job, _ in self.preemptions]
        first = self._hold(
            self._timeline((), ()),
            shares,
            start_ns + request.takes_ns + self._lag_ns,
            room.power_of(shares, head.cap_uw, head.view.spec.levels),
            alone=takes_whole_nodes(head.view.spec),
            start_ns=start_ns,
        )
        keeper = self._kept(others, first, gone)
        if head.view.job_id not in self._site.clearing and self._delays(head, queue, keeper):
            self.preemptions.clear()
            del self.reasons[told:]
            return None
        text = self.reasons[told].text
        del self.reasons[told:]
        before = self._promised.get(head.job)
        start_ns = min(before.start_ns, self._now_ns) if before else self._now_ns
        spec = head.view.spec
        nodes = tuple(
            share.node_id for share in shares for _ in range(spec.units_on(len(share.cpus)))
        )
        self._promise(head, text, Promise(start_ns, nodes))
        return keeper

    def _delays(
        self, head: Candidate, queue: Sequence[Candidate], keeper: Keeper[Need, NodesHold]
    ) -> bool:
        """Return whether this delays a planned start in a queue that the job does not preempt."""
        preempted = self._preempted[head.view.spec.queue]
        for one in queue:
            before = self._promised.get(one.job)
            if one is head or before is None or one.view.spec.queue in preempted:
                continue
            hold = keeper.held.get(one.job)
            latest_ns = max(before.start_ns, self._now_ns)
            if hold is None or hold.promised_ns > latest_ns:
                return True
        return False


def _units_uw(
    room: Room, names: Sequence[NodeId], spec: JobSpec, cap_uw: int, column: int, units: int
) -> int:
    """Return the power of units of a job on a node; a function, since simulations are stored."""
    return room.part_uw(names[column], spec, units * spec.unit_cores, cap_uw)


def without_leaving(node: NodeView) -> NodeView:
    """Return a node without the blocks of ending jobs."""
    if not node.leaving:
        return node
    blocked = node.blocked
    for share in node.leaving:
        blocked = blocked - share.cpus
    gone = {gpu for share in node.leaving for gpu in share.gpus}
    return replace(
        node,
        blocked=blocked,
        blocked_bytes=max(node.blocked_bytes - sum(s.memory_bytes for s in node.leaving), 0),
        blocked_gpus=tuple(gpu for gpu in node.blocked_gpus if gpu not in gone),
    )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
