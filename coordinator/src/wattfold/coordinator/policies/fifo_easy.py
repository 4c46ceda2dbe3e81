"""FIFO with EASY backfill, unaware of power: the baseline (Lifka 1995; Mu'alem and Feitelson 2001).

Every job gets the size it asked for and its cores run at the greatest cap, as on a machine without
power management; what does not fit the budget at that cap waits. Jobs start in the order of
priority and submission. When the first does not fit, the earliest time at which it will, by the
estimates of the running jobs, is reserved for it (the *shadow* time); later jobs may start before
it if they end by then, or take only what the first leaves over.

Fitting is exact, per node and in watts, not a count of processors; only where all jobs take whole
nodes and all nodes are alike, counting is exact too, and `backfill` decides. ``size`` chooses which
end of a range counts as asked for: users of rigid systems ask for the greatest they know to work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core.charge import node_uw, share_uw
from wattfold.coordinator.core.job import Assignment, Share, SizeUnit
from wattfold.coordinator.core.node import like
from wattfold.coordinator.core.plan import JobView, Plan, Policy, Snapshot, Waiting
from wattfold.coordinator.policies.backfill import EasyQueue
from wattfold.coordinator.policies.estimates import run_time_s
from wattfold.coordinator.policies.placement import (
    Room,
    largest_size,
    nothing_in_reach,
    takes_whole_nodes,
)
from wattfold.coordinator.policies.requests import with_missing

BEHIND = "does not fit now without delaying the first in the queue"
BLOCKED = "waits for cores that are held by processes on their way out or not of this journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What a running job gives back, and when."""

    ends_ns: int
    shares: tuple[Share, ...]
    power_uw: int
    alone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoEasy(Policy):
    """The baseline. ``size``: "max" or "min" of the range a job gives."""

    size: str = "max"
    backfill: bool = True

    @property
    def name(self) -> str:
        """``fifo-easy``, or ``fifo`` without backfill."""
        return "fifo-easy" if self.backfill else "fifo"

    def fallback(self) -> Policy | None:
        """None: it has no solver that could fail."""
        return None

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Keeps what runs, starts what fits in order, backfills."""
        del deadline_s
        if not snapshot.nodes:
            return nothing_in_reach(snapshot)
        return with_missing(_Round(self, snapshot, now_ns).plan(), snapshot)

    def size_of(self, view: JobView, snapshot: Snapshot) -> int:
        """The size the job gets, 0 if it can never have one.

        The greatest that the machine has and its budget feeds at full power, if "max" counts.
        """
        most = largest_size(view.spec, snapshot.nodes)
        least = view.spec.least_size
        asked = least if self.size == "min" else min(view.greatest_size, most)
        if not least <= asked <= most:
            return 0
        while asked > least and not self._fed(view, asked, snapshot):
            asked -= 1
        return asked

    def cap_uw(self, view: JobView, snapshot: Snapshot) -> int:
        """The level of the job: its own, or the greatest there is."""
        return view.spec.cap_uw or max(n.spec.package_max_uw for n in snapshot.nodes)

    def _fed(self, view: JobView, size: int, snapshot: Snapshot) -> bool:
        """Whether the whole budget would do for this size, on the nodes that take least."""
        cap_uw, kinds = self.cap_uw(view, snapshot), [node.spec.kind for node in snapshot.nodes]
        if view.spec.unit is SizeUnit.NODES:
            each = sorted(node_uw(kind, cap_uw) for kind in kinds)
            return sum(each[:size]) <= snapshot.spendable_uw
        large = [kind for kind in kinds if kind.cores >= size]
        return min(share_uw(kind, size, cap_uw) for kind in large) <= snapshot.spendable_uw


class _Round:
    """One planning round: the room left and the assignments so far."""

    def __init__(self, policy: FifoEasy, snapshot: Snapshot, now_ns: int) -> None:
        self._policy = policy
        self._snapshot = snapshot
        self._now_ns = now_ns
        self._room = Room(snapshot.nodes, snapshot.spendable_uw)
        # What nodes out of reach hold will be there again: "never" does not count it as gone.
        self._empty = self._room.copy()
        self._empty.power_uw += snapshot.reserved_uw
        self._running: list[_Running] = []
        self._assignments: list[Assignment] = []
        self._waiting: list[Waiting] = []

    def plan(self) -> Plan:
        for view in self._snapshot.jobs:
            if view.current is not None:
                self._keep(view, view.current)
        queue = self._startable()
        if self._countable(queue):
            self._decide_by_count(queue)
            return self._planned()
        while queue and self._start(queue[0], self._room):
            queue.pop(0)
        if queue:
            self._reserve_and_backfill(queue)
        return self._planned()

    def _planned(self) -> Plan:
        return Plan(
            assignments=tuple(self._assignments),
            waiting=tuple(self._waiting),
            solver="none",
            outcome="optimal",
        )

    def _countable(self, queue: list[JobView]) -> bool:
        """Whether every job takes whole nodes, every node is like the others, every cap the same.

        Nodes with blocked cores are left to the exact search.
        """
        first = self._snapshot.nodes[0]
        alike = all(
            like(node.spec, first.spec) and not node.blocked for node in self._snapshot.nodes
        )
        jobs = self._snapshot.jobs
        if not alike or any(v.spec.unit is not SizeUnit.NODES or v.spec.requests for v in jobs):
            return False
        caps = {self._cap_uw(view) for view in queue}
        for view in self._snapshot.jobs:
            if view.current is not None:
                caps.add(view.current.cap_uw)
                known = (share.node_id in self._room.specs for share in view.current.shares)
                if not all(known):
                    return False
        return len(caps) == 1

    def _decide_by_count(self, queue: list[JobView]) -> None:
        nodes = self._snapshot.nodes
        each_uw = node_uw(nodes[0].spec.kind, self._cap_uw(queue[0])) if queue else 0
        fed = max(self._snapshot.spendable_uw, 0) // each_uw if each_uw else len(nodes)
        counted = EasyQueue(min(len(nodes), fed), backfill=self._policy.backfill)
        for number, entry in enumerate(self._running):
            counted.adopt(-1 - number, len(entry.shares), entry.ends_ns)
        for number, view in enumerate(queue):
            size = self._policy.size_of(view, self._snapshot)
            counted.submit(number, size, self._duration_ns(view, ()))
        started = set(counted.decide(self._now_ns))
        waits = [view for number, view in enumerate(queue) if number not in started]
        for number in sorted(started):
            assert self._start(queue[number], self._room) is not None
        if waits:
            self._wait_first(waits[0], counted.shadow())
        for view in waits[1:]:
            self._wait(view, BEHIND)

    def _keep(self, view: JobView, current: Assignment) -> None:
        started_ns = view.started_ns if view.started_ns >= 0 else self._now_ns
        self._assignments.append(current)
        self._book(view, current.shares, current.cap_uw, started_ns)

    def _book(
        self,
        view: JobView,
        shares: tuple[Share, ...],
        cap_uw: int,
        started_ns: int,
    ) -> _Running:
        power_uw = self._room.power_of(shares, cap_uw)
        entry = _Running(
            ends_ns=max(started_ns + self._duration_ns(view, shares), self._now_ns + 1),
            shares=shares,
            power_uw=power_uw,
            alone=takes_whole_nodes(view.spec),
        )
        self._room.take(shares, power_uw, entry.alone)
        self._running.append(entry)
        return entry

    def _startable(self) -> list[JobView]:
        queue: list[JobView] = []
        waiting = [view for view in self._snapshot.jobs if view.current is None]
        for view in sorted(waiting, key=lambda v: (-v.spec.priority, v.submitted_ns)):
            size = self._policy.size_of(view, self._snapshot)
            if size and self._place(view, size, self._empty) is not None:
                queue.append(view)
            elif size and self._fits_unblocked(view, size):
                self._wait(view, BLOCKED)
            else:
                asked = f"{view.spec.size_min} {view.spec.unit.value} at full power"
                reason = f"asks for {asked}, more than the machine or its budget has"
                self._waiting.append(Waiting(job_id=view.job_id, reason=reason, never=True))
        return queue

    def _fits_unblocked(self, view: JobView, size: int) -> bool:
        if not any(node.blocked for node in self._snapshot.nodes):
            return False
        nodes = [replace(node, blocked=CpuSet()) for node in self._snapshot.nodes]
        return self._place(view, size, Room(nodes, self._empty.power_uw)) is not None

    def _cap_uw(self, view: JobView) -> int:
        return self._policy.cap_uw(view, self._snapshot)

    def _place(self, view: JobView, size: int, room: Room) -> tuple[Share, ...] | None:
        return room.find_fed(view.spec, size, self._cap_uw(view))

    def _start(self, view: JobView, room: Room) -> _Running | None:
        size = self._policy.size_of(view, self._snapshot)
        shares = self._place(view, size, room)
        if shares is None:
            return None
        cap_uw = room.held_uw(shares, self._cap_uw(view))
        entry = self._book(view, shares, cap_uw, self._now_ns)
        self._assignments.append(
            Assignment(
                job_id=view.job_id,
                size=size,
                cap_uw=cap_uw,
                shares=shares,
                expected_total_s=self._duration_ns(view, shares) / 1e9,
            ),
        )
        return entry

    def _duration_ns(self, view: JobView, shares: Iterable[Share]) -> int:
        if view.spec.time_ns:
            return view.spec.time_ns
        kinds = self._room.kinds_under(shares) or (self._snapshot.nodes[0].spec.kind,)
        size = self._policy.size_of(view, self._snapshot) or view.spec.size_min
        return round(run_time_s(view, kinds, size, self._cap_uw(view)) * 1e9)

    def _reserve_and_backfill(self, queue: list[JobView]) -> None:
        head, later = queue[0], queue[1:]
        shadow_ns, future = self._shadow(head)
        self._wait_first(head, shadow_ns)
        for view in later:
            if self._policy.backfill and self._backfill(view, head, shadow_ns, future):
                continue
            self._wait(view, BEHIND)

    def _shadow(self, head: JobView) -> tuple[int, Room]:
        """When the first job will fit, and all that is free then."""
        size = self._policy.size_of(head, self._snapshot)
        future = self._room.copy()
        ordered = sorted(self._running, key=lambda e: e.ends_ns)
        for ends_ns, entries in groupby(ordered, key=lambda e: e.ends_ns):
            for entry in entries:
                future.give_back(entry.shares, entry.power_uw, entry.alone)
            if self._place(head, size, future) is not None:
                return ends_ns, future
        return self._now_ns, future

    def _backfill(self, view: JobView, head: JobView, shadow_ns: int, future: Room) -> bool:
        """Starts a later job if it ends before the first one starts, or leaves it its place."""
        size = self._policy.size_of(view, self._snapshot)
        shares = self._place(view, size, self._room)
        if shares is None:
            return False
        if self._now_ns + self._duration_ns(view, shares) <= shadow_ns:
            return self._start(view, self._room) is not None
        power_uw = future.power_of(shares, self._cap_uw(view))
        beside = future.copy()
        beside.take(shares, power_uw, takes_whole_nodes(view.spec))
        if self._place(head, self._policy.size_of(head, self._snapshot), beside) is None:
            return False
        future.take(shares, power_uw, takes_whole_nodes(view.spec))
        return self._start(view, self._room) is not None

    def _wait_first(self, view: JobView, shadow_ns: int) -> None:
        expected = _in(shadow_ns, self._now_ns)
        self._wait(view, f"first in the queue; expected to start in {expected}")

    def _wait(self, view: JobView, reason: str) -> None:
        self._waiting.append(Waiting(job_id=view.job_id, reason=reason))


def _in(time_ns: int, now_ns: int) -> str:
    return f"{max(time_ns - now_ns, 0) / 1e9:.0f} s"
