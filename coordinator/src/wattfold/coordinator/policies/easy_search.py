"""FCFS and EASY where counting is not exact: cores of nodes, unlike nodes, blocked cores, odd caps.

Jobs start in the order of priority and submission. When the first does not fit, the earliest time
at which it will, by the estimates of the running jobs, is reserved for it (the *shadow* time);
later jobs may start before it if they end by then, or take only what the first leaves over (Lifka
1995; Mu'alem and Feitelson 2001). Fitting is exact, per node and in watts.

A search looks at all nodes and jobs once. Of many like jobs it tries one: what has no place now has
none later in the same round.

Reserved nodes are there until their window begins, for jobs that are expected to end before. Jobs
that name a reservation are a queue of their own, with a first one of its own: one that waits for
its window stands in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import count, groupby

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.amounts import Amounts
from wattfold.coordinator.core.charge import cores_uw
from wattfold.coordinator.core.job import Share, SizeUnit
from wattfold.coordinator.core.job_units import least_uw, size_text, units_within
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.plan import JobView, NodeView
from wattfold.coordinator.core.reservation import Windows
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room, largest_size, takes_whole_nodes
from wattfold.coordinator.policies.requests import yielding
from wattfold.coordinator.policies.scheduler import Decision, NamedJobs, Reason, Site
from wattfold.coordinator.policies.stock import could_hold

_Caps = tuple[int, Levels]
_Right = tuple[int, str, str, str] | None
_Counted = tuple[SizeUnit, int, Spread]
_Filters = tuple[tuple[str, ...], tuple[NodeId, ...]]
_Asked = tuple[_Counted, bool, int, _Caps, Amounts, _Filters, _Right]
Shape = int
"""What the place of a job depends on, as a number: jobs that agree in it fit together or not."""
FIRST = "first in the queue"
BEHIND = "does not fit now without delaying the first job in the queue"
BLOCKED = "its cores are still held by ending jobs or by processes of another journal"

STARTS_MAX = 16
"""So many of a queue are told when they are expected to start."""
REMEMBERED = 4096
"""What is known of shapes is forgotten when there are so many."""
LOOKS_MAX = 64
"""A search for these starts, beyond that of the first, tries so many times."""


def never(asked: str) -> str:
    """Why a job will not start, whatever else ends."""
    return f"requests {asked} at full power, more than the machine or its budget has"


def size_of(view: JobView, site: Site, wish: str, cap_uw: int) -> int:
    """The size a job gets at a level, 0 if it can never have one.

    If ``wish`` is "max", the greatest that the machine has and its budget feeds; else the least.
    """
    most, least = largest_size(view.spec, site.nodes), view.spec.least_size
    size = least if wish == "min" else min(view.greatest_size, most)
    if not least <= size <= most:
        return 0
    while size > least and not _fed(view, site, size, cap_uw):
        size -= 1
    return size


def _fed(view: JobView, site: Site, size: int, cap_uw: int) -> bool:
    """Whether the whole budget would do for this size, on the nodes that take least."""

    def takes_uw(node: NodeView, cores: int) -> int:
        gpus = view.spec.amounts_on(cores).gpus
        return cores_uw(node.spec, cores, cap_uw, view.spec.levels, node.dram_cap_uw, gpus)

    if view.spec.unit is SizeUnit.NODES:
        each = sorted(takes_uw(node, len(node.spec.cpus)) for node in site.nodes)
        return sum(each[:size]) <= site.spendable_uw
    if view.spec.unit is SizeUnit.UNITS:
        nodes = [node for node in site.nodes if could_hold(node, view.spec)]
        holds = [units_within(view.spec, node.spec.capacity) for node in nodes]
        least = least_uw(view.spec, size, holds, lambda at, cores: takes_uw(nodes[at], cores))
        return least is not None and least <= site.spendable_uw
    large = [node for node in site.nodes if len(node.spec.cpus) >= size]
    return min(takes_uw(node, size) for node in large) <= site.spendable_uw


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Settings of the policy, as `easy` has them."""

    size: str
    cap_uw: int | None
    backfill: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """What a running job gives back, and when: as was expected, and now at the earliest."""

    job: int
    view: JobView
    due_ns: int
    ends_ns: int
    shares: tuple[Share, ...]
    power_uw: int
    alone: bool


_Moment = tuple[int, int, _Running | None]
"""When something ends, a number that orders equal times, and what a job gives back then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job of the queue, at the size and level it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    takes_ns: int
    """What a search for its place goes by (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Where it fits, None if nowhere."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.takes_ns)

    def kept(self, room: Room) -> str:
        """Which reservation keeps it from a place, empty if none does."""
        return room.kept(self.view.spec, self.size, self.cap_uw, self.takes_ns)


@dataclass(frozen=True, slots=True)
class Known:
    """What is worked out for jobs and shapes of jobs, and holds as long as the site is the same."""

    sizes: dict[tuple[object, ...], int] = field(default_factory=dict)
    shapes: dict[_Asked, Shape] = field(default_factory=dict)
    startable: dict[Shape, bool] = field(default_factory=dict)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    """Those of the last round."""

    @property
    def full(self) -> bool:
        """Whether it is time to begin anew."""
        return len(self.shapes) >= REMEMBERED


class Search:
    """One round: the room left, the decisions and the reasons so far.

    ``running`` and ``waiting`` are in order, that of the queue for the latter.
    """

    def __init__(
        self,
        *,
        jobs: NamedJobs,
        site: Site,
        running: Sequence[int],
        waiting: Sequence[int],
        wish: Wish,
        now_ns: int,
        known: Known | None = None,
    ) -> None:
        """``known`` is of rounds before on the same site, and is added to."""
        self.reasons: list[Reason] = []
        self._site, self._wish, self._now_ns = site, wish, now_ns
        self._cap_uw = wish.cap_uw or max(node.spec.kind.most_uw for node in site.nodes)
        self._kinds = [node.spec.kind for node in site.nodes]
        self.preemptions: list[tuple[int, int]] = []
        """Running jobs that are to make way, and the one for which."""
        self._preempted = {queue.name: queue.preempts for queue in site.queues}
        self._windows = Windows(site.reservations)
        self._room = Room(site.nodes, site.spendable_uw, self._windows, now_ns)
        self._running: list[_Running] = []
        self._decisions: list[Decision] = []
        self._known = known if known is not None else Known()
        self._nowhere: set[Shape] = set()
        for job in running:
            view = jobs.view(job)
            assert view.current is not None
            began_ns = view.started_ns if view.started_ns >= 0 else now_ns
            current = view.current
            self._book(job, view, current.shares, current.size, current.cap_uw, began_ns)
        self._waiting = [self._candidate(job, jobs.view(job)) for job in waiting]
        self._known.candidates.clear()
        self._known.candidates.update((one.job, one) for one in self._waiting)
        self._waits = {one.view.job_id for one in self._waiting}

    @cached_property
    def _empty(self) -> Room:
        """All there will ever be.

        What nodes out of reach hold will be there again: "never" does not count it as gone. So will
        those that are reserved.
        """
        return Room(self._site.nodes, self._site.most_uw)

    def decide(self) -> Sequence[Decision]:
        """The jobs that start, in order."""
        queues: dict[str, list[Candidate]] = {}
        for one in self._waiting:
            if self._may_start(one):
                queues.setdefault(one.view.spec.reservation, []).append(one)
        # Those of a reservation first: its nodes are there for them.
        for name in sorted(queues, reverse=True):
            queue = queues[name]
            while queue and self._start(queue[0]):
                queue.pop(0)
            if queue:
                self._reserve_and_backfill(queue[0], queue[1:])
        return self._decisions

    def _candidate(self, job: int, view: JobView) -> Candidate:
        """A job of the queue; the one of the last round if nothing of it has changed."""
        before = self._known.candidates.get(job)
        return before if before is not None and before.view is view else self._sized(job, view)

    def _sized(self, job: int, view: JobView) -> Candidate:
        cap_uw, spec = self._level_uw(view), view.spec
        asked = spec.unit_amounts, spec.node_filters, spec.levels, spec.unit_cores, spec.spread
        key = spec.unit, spec.least_size, view.greatest_size, cap_uw, *asked
        sizes, shapes = self._known.sizes, self._known.shapes
        if key not in sizes:
            sizes[key] = size_of(view, self._site, self._wish.size, cap_uw)
        size = sizes[key]
        takes_ns = self._room.takes_ns(view, max(size, 1), cap_uw)
        right = (takes_ns, spec.reservation, spec.queue, spec.user) if takes_ns else None
        counted = spec.unit, spec.unit_cores, spec.spread
        caps, amounts = (cap_uw, spec.levels), spec.unit_amounts
        place = counted, spec.exclusive, size, caps, amounts, spec.node_filters, right
        return Candidate(
            job=job,
            view=view,
            size=size,
            cap_uw=cap_uw,
            takes_ns=takes_ns,
            shape=shapes.setdefault(place, len(shapes)),
        )

    def _level_uw(self, view: JobView) -> int:
        """The level a job is to have."""
        return view.spec.cap_uw or self._cap_uw

    def _may_start(self, one: Candidate) -> bool:
        """Whether it could start on an empty machine; says why not."""
        if one.view.yields_to in self._waits:
            self._wait(one, yielding(one.view))
            return False
        if one.view.job_id in self._site.clearing and one.size and self._fits_unblocked(one):
            return True  # What is blocked is so for its sake.
        if one.view.spec.reservation:
            return self._may_start_inside(one)
        startable = self._known.startable
        if one.shape not in startable:
            startable[one.shape] = one.size > 0 and one.place(self._empty) is not None
        if startable[one.shape]:
            return True
        spec = one.view.spec
        blocked = any(node.blocked for node in self._site.nodes)
        if one.size and blocked and self._fits_unblocked(one):
            self._wait(one, BLOCKED)
        else:
            reason = never(size_text(spec, spec.size_min))
            self.reasons.append(Reason(one.job, reason, never=True))
        return False

    def _may_start_inside(self, one: Candidate) -> bool:
        """The same of a job that names a reservation, which must have begun."""
        own = self._windows.own(one.view.spec)
        if own is None or one.size == 0:
            told = self._windows.why(one.view.spec, (), self._now_ns, self._now_ns)
            asked = size_text(one.view.spec, one.view.spec.size_min)
            self.reasons.append(Reason(one.job, told or never(asked), never=True))
            return False
        if told := self._windows.why(one.view.spec, (), self._now_ns, self._now_ns + one.takes_ns):
            self._wait(one, told, own.start_ns if own.start_ns > self._now_ns else 0)
            return False
        return True

    def _fits_unblocked(self, one: Candidate) -> bool:
        nodes = [replace(node, blocked=CpuSet()) for node in self._site.nodes]
        return one.place(Room(nodes, self._empty.power_uw)) is not None

    def _book(
        self,
        job: int,
        view: JobView,
        shares: tuple[Share, ...],
        size: int,
        cap_uw: int,
        began_ns: int,
    ) -> None:
        """Takes what a job holds, and notes when it gives it back."""
        levels = view.current.levels if view.current else view.spec.levels
        power_uw = self._room.power_of(shares, cap_uw, levels)
        alone = takes_whole_nodes(view.spec)
        self._room.take(shares, power_uw, alone)
        due_ns = began_ns + self._duration_ns(view, shares, size, cap_uw)
        self._running.append(
            _Running(
                job=job,
                view=view,
                due_ns=due_ns,
                ends_ns=max(due_ns, self._now_ns),
                shares=shares,
                power_uw=power_uw,
                alone=alone,
            )
        )

    def _duration_ns(self, view: JobView, shares: Iterable[Share], size: int, cap_uw: int) -> int:
        kinds = self._room.kinds_under(shares) or self._kinds[:1]
        return duration_ns(view, kinds, size, cap_uw)

    def _start(self, one: Candidate) -> bool:
        shares = one.place(self._room)
        if shares is None:
            return False
        cap_uw = self._room.held_uw(shares, one.cap_uw)
        self._book(one.job, one.view, shares, one.size, cap_uw, self._now_ns)
        self._decisions.append((one.job, one.size, one.cap_uw))
        return True

    def _reserve_and_backfill(self, head: Candidate, later: Sequence[Candidate]) -> None:
        cleared = self._cleared(head)
        shadow_ns, future = (self._now_ns, cleared) if cleared else self._shadow(head)
        if cleared is None:
            self._wait(head, head.kept(self._room) or FIRST, shadow_ns)
        left = [
            one
            for one in later
            if not (self._wish.backfill and self._backfill(one, head, shadow_ns, future))
        ]
        starts = {} if cleared else self._starts(head, shadow_ns, left)
        for one in left:
            self._wait(one, one.kept(self._room) or BEHIND, starts.get(one.job, 0))

    def _cleared(self, head: Candidate) -> Room | None:
        """What is free once all have left that make way for the first, so that it fits; else None.

        Says why it waits then. While some are on their way out no others are asked to.
        """
        if head.view.job_id in self._site.clearing:
            victims: list[_Running] = []
            room = self._unblocked()
            told = "starts when the jobs preempted for it have ended"
        else:
            victims = self._victims(head)
            if not victims:
                return None
            room = self._room.copy()
            for entry in victims:
                room.give_back(entry.shares, entry.power_uw, entry.alone)
            names = ", ".join(entry.view.job_id for entry in victims)
            told = f"starts when these jobs, preempted for it, have ended: {names}"
        if head.place(room) is None:
            return None
        self.preemptions += [(entry.job, head.job) for entry in victims]
        self._wait(head, told)
        return room

    def _victims(self, head: Candidate) -> list[_Running]:
        """Running jobs without which the first would start now, the youngest that will do."""
        queues = self._preempted.get(head.view.spec.queue, ())
        doomed = {job for job, _ in self.preemptions}
        able = [
            entry
            for entry in self._running
            if entry.view.preemptable and entry.view.spec.queue in queues
            if entry.job not in doomed
        ]
        able.sort(key=lambda e: (e.view.started_ns < 0, e.view.started_ns, e.job), reverse=True)
        room, chosen = self._room.copy(), list[_Running]()
        for entry in able:
            room.give_back(entry.shares, entry.power_uw, entry.alone)
            chosen.append(entry)
            if head.place(room) is not None:
                break
        else:
            return []
        for entry in reversed(chosen[:-1]):
            room.take(entry.shares, entry.power_uw, entry.alone)
            if head.place(room) is None:
                room.give_back(entry.shares, entry.power_uw, entry.alone)
            else:
                chosen.remove(entry)
        return chosen

    def _unblocked(self) -> Room:
        """What is free once nothing is on its way out any more."""
        nodes = [
            replace(node, blocked=CpuSet(), blocked_bytes=0, blocked_gpus=())
            for node in self._site.nodes
        ]
        room = Room(nodes, self._site.most_uw, self._windows, self._now_ns)
        for entry in self._running:
            room.take(entry.shares, entry.power_uw, entry.alone)
        return room

    def _shadow(self, head: Candidate) -> tuple[int, Room]:
        """When the first job will fit, and all that is free then; 0 = by no end that is known."""
        future = self._room.copy()
        ordered = sorted(self._running, key=lambda e: e.ends_ns)
        ends = {ns: list(entries) for ns, entries in groupby(ordered, key=lambda e: e.ends_ns)}
        overs = {one.end_ns for one in self._windows.reservations if one.end_ns > self._now_ns}
        for time_ns in sorted(overs.union(ends)):
            for entry in ends.get(time_ns, ()):
                future.give_back(entry.shares, entry.power_uw, entry.alone)
            future.at_ns = time_ns
            if head.place(future) is not None:
                return time_ns, future
        future.at_ns = self._now_ns
        return 0, future

    def _starts(self, head: Candidate, shadow_ns: int, left: Sequence[Candidate]) -> dict[int, int]:
        """When those behind the first start, by their turn and the estimates, where that is cheap.

        None before those before it, so backfilling may have one start earlier.
        """
        found: dict[int, int] = {}
        if not shadow_ns or not left:
            return found
        future, numbers, looks = self._room.copy(), count(), 0
        ends = [(entry.ends_ns, next(numbers), entry) for entry in self._running]
        overs = [one.end_ns for one in self._windows.reservations if one.end_ns > self._now_ns]
        moments: list[_Moment] = [*ends, *((time_ns, next(numbers), None) for time_ns in overs)]
        heapify(moments)
        _pass(moments, shadow_ns, future)
        for one in (head, *left[: STARTS_MAX - 1]):
            while (shares := one.place(future)) is None:
                looks += 1
                if looks > LOOKS_MAX or not moments:
                    return found
                _pass(moments, moments[0][0], future)
            found[one.job] = future.at_ns
            takes_ns = self._duration_ns(one.view, shares, one.size, one.cap_uw)
            power_uw = future.power_of(shares, one.cap_uw, one.view.spec.levels)
            alone = takes_whole_nodes(one.view.spec)
            future.take(shares, power_uw, alone)
            begun = _Running(
                job=one.job,
                view=one.view,
                due_ns=future.at_ns + takes_ns,
                ends_ns=future.at_ns + takes_ns,
                shares=shares,
                power_uw=power_uw,
                alone=alone,
            )
            heappush(moments, (begun.ends_ns, next(numbers), begun))
        return found

    def _backfill(self, one: Candidate, head: Candidate, shadow_ns: int, future: Room) -> bool:
        """Starts a later job if it ends before the first one starts, or leaves it its place."""
        shares = None if one.shape in self._nowhere else one.place(self._room)
        if shares is None:
            self._nowhere.add(one.shape)
            return False
        takes_ns = self._duration_ns(one.view, shares, one.size, one.cap_uw)
        if self._now_ns + takes_ns <= shadow_ns:
            return self._start(one)
        power_uw = future.power_of(shares, one.cap_uw, one.view.spec.levels)
        alone = takes_whole_nodes(one.view.spec)
        beside = future.copy()
        beside.take(shares, power_uw, alone)
        if head.place(beside) is None:
            return False
        future.take(shares, power_uw, alone)
        return self._start(one)

    def _wait(self, one: Candidate, reason: str, start_ns: int = 0) -> None:
        self.reasons.append(Reason(one.job, reason, start_ns=start_ns))


def _pass(moments: list[_Moment], time_ns: int, future: Room) -> None:
    """Takes a room on to a time: what has ended by then is free."""
    while moments and moments[0][0] <= time_ns:
        entry = heappop(moments)[2]
        if entry is not None:
            future.give_back(entry.shares, entry.power_uw, entry.alone)
    future.at_ns = max(future.at_ns, time_ns)
