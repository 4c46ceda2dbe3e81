"""One round of slowdown-driven malleable backfill over nodes with names (`slowdown_driven`).

Jobs that wait are looked at in order. Each is first tried as EASY does: it starts where it fits in
full without delaying the first that waits; then beside mates. What no job of its shape found in
this round is not looked for again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.job import Assignment, Share, SizeUnit
from wattfold.coordinator.core.job_units import counted, size_text
from wattfold.coordinator.core.levels import Levels
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.policies.easy_search import BEHIND, BLOCKED, FIRST, never, size_of
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room
from wattfold.coordinator.policies.requests import yielding
from wattfold.coordinator.policies.reservations import Profile
from wattfold.coordinator.policies.scheduler import NamedJobs, Reason, Site
from wattfold.coordinator.policies.slowdown_driven_choice import Guest
from wattfold.coordinator.policies.slowdown_driven_mates import Mates, Search, Terms
from wattfold.coordinator.policies.slowdown_driven_queue import SharingRules
from wattfold.coordinator.policies.slowdown_driven_runs import Ground, Run

TRIED = 8
"""So many nodes are tried for a job on cores, the best ones first, where the first or power forbid
what mates do not."""

LOOKS_MAX = 20_000
"""Of jobs on cores so many are looked at that no more nodes are, over all of them."""

Shape = tuple[object, ...]
"""What the place of a job depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A job of the queue, at the size and level it will get."""

    job: int
    view: JobView
    size: int
    cap_uw: int
    limit_ns: int
    """What a search for its place goes by (`Room.takes_ns`)."""
    shape: Shape

    def place(self, room: Room) -> tuple[Share, ...] | None:
        """Where it fits in full, None if nowhere."""
        return room.find_fed(self.view.spec, self.size, self.cap_uw, self.limit_ns)


class _Part(NamedTuple):
    """Cores that a job holds, at its levels."""

    shares: tuple[Share, ...]
    cap_uw: int
    levels: Levels
    alone: bool

    def power_uw(self, room: Room) -> int:
        """What they take above the floors there."""
        return room.power_of(self.shares, self.cap_uw, self.levels)

    def take(self, room: Room) -> None:
        """They are not free there."""
        room.take(self.shares, self.power_uw(room), self.alone)


_Before = Sequence[tuple[Run, Assignment, int]]
"""Mates, what they had and when they were to end."""


@dataclass(slots=True, kw_only=True)
class _Head:
    """The first that waits: when it is to start, and what is free then."""

    waiter: Waiter
    shadow_ns: int
    future: Room


class Round:
    """One decision. ``counted``: all jobs take whole nodes and ask for nothing else."""

    def __init__(
        self, rules: SharingRules, jobs: NamedJobs, site: Site, now_ns: int, *, counted: bool
    ) -> None:
        self.reasons: list[Reason] = []
        self.ground = Ground(site, now_ns)
        self._rules, self._jobs, self._site, self._now_ns = rules, jobs, site, now_ns
        self._counted = counted and site.kind is not None
        self._most_uw = max(node.spec.kind.most_uw for node in site.nodes)
        self._kinds = [node.spec.kind for node in site.nodes]
        self._blocked = any(node.blocked for node in site.nodes)
        self._tested_on_nodes = max(LOOKS_MAX // len(site.nodes), 1)
        self._heads: dict[str, _Head] = {}
        self._waiting: list[Waiter] = []
        """Those looked at that wait, in order."""
        self._sizes: dict[Shape, int] = {}
        self._told: dict[Shape, Reason | None] = {}
        self._nowhere: set[Shape] = set()
        self._delaying: set[Shape] = set()
        self._without_mates: set[Shape] = set()
        self._starts_ns: dict[Shape, int] = {}
        self._map: Profile | None = None
        self._mapped = 0
        # What nodes out of reach hold, cores that are blocked and nodes that are reserved will be
        # there again: "never" does not count them as gone.
        self._empty = Room(site.nodes, site.most_uw)
        unblocked = [replace(node, blocked=CpuSet()) for node in site.nodes]
        self._later = Room(unblocked, site.most_uw) if self._blocked else self._empty
        self._mates: Mates

    def decide(
        self, running: Sequence[int], queue: Iterable[int], shape_of: Mapping[int, Shape]
    ) -> None:
        """Keeps what runs, gives cores back, starts what fits or gains beside mates."""
        ground, rules = self.ground, self._rules
        ground.adopt([(job, self._jobs.view(job)) for job in running])
        limits = rules.limits
        if rules.dynamic and ground.runs:
            mean = sum(run.slowdown for run in ground.runs.values()) / len(ground.runs)
            limits = replace(limits, most_slowdown=mean)
        queues = {queue.name: queue for queue in self._site.queues}
        self._mates = Mates(ground, Terms(limits=limits, factor=rules.factor, queues=queues))
        waiters = [self._waiter(job, shape_of[job]) for job in queue]
        waits = {one.view.job_id for one in waiters}
        # Those of a reservation first: its nodes are there for them.
        waiters.sort(key=lambda one: one.view.spec.reservation, reverse=True)
        for one in waiters:
            head = self._heads.get(one.view.spec.reservation)
            if one.view.yields_to in waits:
                self._wait(one, yielding(one.view))
            elif (told := self._turned_away(one)) is not None:
                self.reasons.append(told._replace(job=one.job))
            elif not (self._start(one, head) or self._start_beside(one, head)):
                self._let_wait(one, head)

    def decided(self) -> dict[int, Assignment]:
        """What starts, and running jobs that go on with other cores."""
        return {
            job: run.given
            for job, run in self.ground.runs.items()
            if run.starts or run.given != run.view.current
        }

    # The queue.

    def _waiter(self, job: int, key: Shape) -> Waiter:
        view = self._jobs.view(job)
        cap_uw = view.spec.cap_uw or self._most_uw
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = size_of(view, self._site, "max", cap_uw)
        limit_ns, shape = self.ground.room.takes_ns(view, max(size, 1), cap_uw), key
        if limit_ns:
            spec = view.spec
            shape = (*key, limit_ns, spec.reservation, spec.queue, spec.user)
        return Waiter(job=job, view=view, size=size, cap_uw=cap_uw, limit_ns=limit_ns, shape=shape)

    def _turned_away(self, one: Waiter) -> Reason | None:
        """Why a job cannot start whatever ends, or until what is on its way out has gone."""
        clearing = one.view.job_id in self._site.clearing
        key = (*one.shape, clearing)
        if key not in self._told:
            self._told[key] = self._obstacle(one, clearing)
        return self._told[key]

    def _obstacle(self, one: Waiter, clearing: bool) -> Reason | None:
        if not one.size or not _fits(self._later, one):
            spec = one.view.spec
            return Reason(one.job, never(size_text(spec, spec.least_size)), never=True)
        if self._blocked and not clearing and not _fits(self._empty, one):
            return Reason(one.job, BLOCKED)
        return None

    def _let_wait(self, one: Waiter, head: _Head | None) -> None:
        kept = self.ground.room.kept(one.view.spec, one.size, one.cap_uw, one.limit_ns)
        if kept:
            # It stands in nobody's way while it waits for a reservation.
            self._wait(one, kept)
            return
        if head is None:
            head = self._heads[one.view.spec.reservation] = self._ahead(one)
            self._wait(one, FIRST, start_ns=head.shadow_ns)
        else:
            self._wait(one, BEHIND)
        self._waiting.append(one)

    def _wait(self, one: Waiter, reason: str, *, start_ns: int = 0) -> None:
        self.reasons.append(Reason(one.job, reason, start_ns=start_ns))

    # By its turn.

    def _start(self, one: Waiter, head: _Head | None) -> bool:
        """Starts a job in full where it fits, if the first that waits is not delayed."""
        if one.shape in self._nowhere:
            return False
        shares = one.place(self.ground.room)
        if shares is None:
            self._nowhere.add(one.shape)
            return False
        kinds = self.ground.room.kinds_under(shares)
        takes_ns = duration_ns(one.view, kinds, one.size, one.cap_uw)
        if head is not None and self._now_ns + takes_ns > head.shadow_ns:
            part = _Part(shares, one.cap_uw, one.view.spec.levels, one.view.spec.alone)
            if one.shape in self._delaying or not _fits_beside(head, [part]):
                self._delaying.add(one.shape)
                return False
            part.take(head.future)
        self._begin(one, shares, takes_ns, takes_ns)
        return True

    def _begin(self, one: Waiter, shares: tuple[Share, ...], asked_ns: int, takes_ns: int) -> Run:
        spec, room = one.view.spec, self.ground.room
        whole = spec.unit is SizeUnit.NODES
        given = Assignment(
            job_id=one.view.job_id,
            size=counted(spec, shares),
            cap_uw=room.held_uw(shares, one.cap_uw),
            shares=shares,
            expected_total_s=takes_ns / 1e9,
            levels=spec.levels,
        )
        asked = one.size if spec.unit is SizeUnit.CORES else 0
        fulls = {
            share.node_id: room.specs[share.node_id].kind.cores
            if whole
            else asked or len(share.cpus)
            for share in shares
        }
        run = Run(
            job=one.job,
            view=one.view,
            given=given,
            fulls=fulls,
            asked_ns=asked_ns,
            left_ns=asked_ns,
            ends_ns=self._now_ns + takes_ns,
            starts=True,
        )
        self.ground.start(run)
        self._map = None
        self._without_mates.clear()
        return run

    def _ahead(self, one: Waiter) -> _Head:
        shadow_ns, future = self._by_turn(one)
        return _Head(waiter=one, shadow_ns=shadow_ns, future=future)

    def _by_turn(self, one: Waiter) -> tuple[int, Room]:
        """When a job will fit by what runs, and what is free then; else when all has ended."""
        runs = sorted(self.ground.runs.values(), key=lambda run: run.ends_ns)
        times = sorted({max(run.ends_ns, self._now_ns) for run in runs}) or [self._now_ns]

        def future(time_ns: int) -> Room:
            room = self.ground.room.copy()
            room.at_ns = time_ns
            for run in runs:
                if run.ends_ns > time_ns:
                    break
                room.give_back(run.given.shares, run.power_uw, run.view.spec.alone)
            return room

        def fits(time_ns: int) -> bool:
            return one.place(future(time_ns)) is not None

        if self.ground.room.windows.concern(one.view.spec):
            found = next((time_ns for time_ns in times if fits(time_ns)), times[-1])
        else:
            # What has ended stays so: from some time on it fits.
            at = bisect_left(times, True, hi=len(times) - 1, key=fits)
            found = times[at]
        return found, future(found)

    # Beside mates.

    def _start_beside(self, one: Waiter, head: _Head | None) -> bool:
        """Starts a job on cores that running jobs lend, if it gains by it."""
        spec = one.view.spec
        whole = spec.unit is SizeUnit.NODES
        tested = self._rules.tested if whole else min(self._rules.tested, self._tested_on_nodes)
        if not spec.borrows or len(self._waiting) >= tested or self._mates.none:
            return False
        asked_ns = duration_ns(one.view, self._kinds[:1], one.size, one.cap_uw)
        alike = (one.shape, asked_ns, spec.least_on_node)
        if alike in self._without_mates or not asked_ns:
            return False
        guest = Guest(
            nodes=one.size if whole else 1,
            asked=asked_ns,
            cores=one.size,
            least=spec.least_on_node,
        )
        search = Search(spec=spec, guest=guest, open_to=self._open_to(one.view))
        if whole:
            if self._beside_nodes(one, search, head):
                return True
        elif self._beside_cores(one, search, head):
            return True
        if not self._counted or len(self._waiting) >= self._rules.mapped:
            # No further reservation comes between this job and one that asks for the same.
            self._without_mates.add(alike)
        return False

    def _beside_nodes(self, one: Waiter, search: Search, head: _Head | None) -> bool:
        rules, asked_ns = self._rules, search.guest.asked
        if not rules.free_nodes and self._mates.pick(search) is None:
            self._without_mates.add((one.shape, asked_ns, search.guest.least))
            return False
        search = replace(search, latest_ns=self._latest_ns(one, asked_ns))
        if rules.free_nodes:
            search = replace(search, free=self._spare(one, head))
        if rules.protects and head is not None:
            search = replace(search, allowed=self._keeping(head, asked_ns))
        pick = self._mates.pick(search)
        if pick is None:
            return False
        before = self._as_they_are(pick.mates)
        shares = self._mates.lend(one.view.spec, one.view.job_id, pick)
        return self._share(one, head, shares, (asked_ns, pick.takes), before)

    def _beside_cores(self, one: Waiter, search: Search, head: _Head | None) -> bool:
        asked_ns = search.guest.asked
        search = replace(search, latest_ns=self._latest_ns(one, asked_ns))
        for node_id, pick in self._mates.picks_on_nodes(search)[:TRIED]:
            before = self._as_they_are(job for job, _ in pick.gives)
            shares = self._mates.lend_on_node(one.view.spec, one.view.job_id, node_id, pick)
            if self._share(one, head, shares, (asked_ns, pick.takes), before):
                return True
        return False

    def _as_they_are(self, jobs: Iterable[int]) -> _Before:
        runs = [self.ground.runs[job] for job in jobs]
        return [(run, run.given, run.ends_ns) for run in runs]

    def _share(
        self,
        one: Waiter,
        head: _Head | None,
        shares: tuple[Share, ...],
        times_ns: tuple[int, int],
        before: _Before,
    ) -> bool:
        """Starts a job beside mates that have shrunk; undone where power or the first forbid it."""
        ground, (asked_ns, takes_ns) = self.ground, times_ns
        if ground.room.power_of(shares, one.cap_uw, one.view.spec.levels) <= ground.room.power_uw:
            run = self._begin(one, shares, asked_ns, takes_ns)
            for mate, _, _ in before:
                mate.ends_ns = ground.predicted_ns(mate)
            late = self._late(head, run, before)
            kept = head is None or not self._rules.protects or _fits_beside(head, late)
            if kept and self._mates_may_stay(before):
                for mate, _, _ in before:
                    self._mates.lends_no_more(mate.job)
                if head is not None:
                    self._look_ahead_again(head, late)
                return True
            ground.undo_start(run)
        for mate, given, ends_ns in before:
            ground.restore(mate, given, ends_ns)
        return False

    def _look_ahead_again(self, head: _Head, late: Sequence[_Part]) -> None:
        """What is free when the first starts, now that these are not."""
        if self._rules.protects:
            for part in late:
                part.take(head.future)
            return
        head.shadow_ns, head.future = self._by_turn(head.waiter)
        self._delaying.clear()

    def _late(self, head: _Head | None, run: Run, before: _Before) -> list[_Part]:
        """What a job and its mates hold at the shadow time that would have been free then."""
        if head is None:
            return []
        late = [
            _held(given, mate.view)
            for mate, given, ends_ns in before
            if ends_ns <= head.shadow_ns < mate.ends_ns
        ]
        if run.ends_ns > head.shadow_ns:
            lent = {share.node_id for _, given, _ in before for share in given.shares}
            free = tuple(share for share in run.given.shares if share.node_id not in lent)
            late.append(_held(replace(run.given, shares=free), run.view))
        return late

    def _mates_may_stay(self, before: _Before) -> bool:
        return all(
            self._open_to(mate.view)(share.node_id, mate.ends_ns - self._now_ns)
            for mate, _, _ in before
            for share in mate.given.shares
        )

    def _open_to(self, view: JobView) -> Callable[[NodeId, int], bool]:
        """Whether no reservation keeps a job from a node for so long from now on."""
        windows, now_ns, spec = self.ground.room.windows, self._now_ns, view.spec
        if not windows.concern(spec):
            return lambda node_id, takes_ns: True  # noqa: ARG005
        return lambda node_id, takes_ns: windows.open(
            spec, node_id, now_ns, now_ns + (spec.limit_ns or takes_ns)
        )

    def _keeping(self, head: _Head, longer_ns: int) -> Callable[[tuple[int, ...]], bool]:
        """Whether jobs may be mates: the first has its nodes in time if they end later."""
        runs = self.ground.runs

        def allowed(mates: tuple[int, ...]) -> bool:
            late = [
                _held(runs[mate].given, runs[mate].view)
                for mate in mates
                if runs[mate].ends_ns <= head.shadow_ns < runs[mate].ends_ns + longer_ns
            ]
            return _fits_beside(head, late)

        return allowed

    def _spare(self, one: Waiter, head: _Head | None) -> Callable[[int], int]:
        """Free nodes for a job that takes so long, none that the first that waits will need."""
        room, spec = self.ground.room, one.view.spec
        each_uw = max(
            room.cores_uw(name, node.kind.cores, one.cap_uw, spec.levels)
            for name, node in room.specs.items()
        )
        free = room.empty_count(spec)
        if each_uw:
            free = min(free, max(room.power_uw, 0) // each_uw)
        if head is None:
            return lambda _: free
        extra = 0
        if head.waiter.view.spec.unit is SizeUnit.NODES:
            extra = max(head.future.empty_count(head.waiter.view.spec) - head.waiter.size, 0)
        shadow_ns, now_ns = head.shadow_ns, self._now_ns
        return lambda takes_ns: free if now_ns + takes_ns <= shadow_ns else min(free, extra)

    # Without mates.

    def _latest_ns(self, one: Waiter, asked_ns: int) -> int | None:
        """When a job would end if it waited; None: that is no matter, or it never starts."""
        if not self._rules.benefit:
            return None
        start_ns = self._mapped_start(one, asked_ns) if self._counted else self._free_start(one)
        return None if start_ns is None else start_ns + asked_ns

    def _free_start(self, one: Waiter) -> int:
        """By what runs alone, as if no other waited; the same for all of a shape in this round."""
        if one.shape not in self._starts_ns:
            spec, room = one.view.spec, self.ground.room
            if one.shape not in self._nowhere and one.place(room) is not None:
                start_ns = self._now_ns
            elif spec.unit is SizeUnit.CORES and not self._restricted(one):
                start_ns = self._free_on_a_node(one.size)
            else:
                start_ns = self._by_turn(one)[0]
            self._starts_ns[one.shape] = start_ns
        return self._starts_ns[one.shape]

    def _restricted(self, one: Waiter) -> bool:
        """Whether more than cores may keep a job from a node."""
        spec, room = one.view.spec, self.ground.room
        needed_uw = max(
            room.cores_uw(node_id, one.size, one.cap_uw, spec.levels) for node_id in room.specs
        )
        asks = spec.requests or spec.exclusive or room.windows.concern(spec)
        return bool(asks) or needed_uw > room.power_uw

    def _free_on_a_node(self, size: int) -> int:
        """When a node has so many cores free, by what runs there; else when all has ended."""
        found: list[int] = []
        for node_id, cpus in self.ground.room.free.items():
            free = len(cpus)
            for run in sorted(self.ground.on(node_id), key=lambda run: run.ends_ns):
                free += len(run.given.on(node_id))
                if free >= size:
                    found.append(max(run.ends_ns, self._now_ns))
                    break
        last_ns = max((run.ends_ns for run in self.ground.runs.values()), default=self._now_ns)
        return min(found, default=last_ns)

    def _mapped_start(self, one: Waiter, asked_ns: int) -> int | None:
        """By the reservations of those that wait before it as well; None = never."""
        if self._map is None:
            self._map, self._mapped = self._profile(one), 0
        profile, now_ns = self._map, self._now_ns
        for other in self._waiting[self._mapped : self._rules.mapped]:
            takes_ns = duration_ns(other.view, self._kinds[:1], other.size, other.cap_uw)
            start_ns = profile.earliest(other.size, takes_ns, now_ns)
            if start_ns is not None:
                profile.add(start_ns, start_ns + takes_ns, -other.size)
            self._mapped += 1
        return profile.earliest(one.size, asked_ns, now_ns)

    def _profile(self, one: Waiter) -> Profile:
        """How many nodes will be free when, by the running jobs alone."""
        ends: dict[NodeId, int] = {}
        for run in self.ground.runs.values():
            for share in run.given.shares:
                ends[share.node_id] = max(ends.get(share.node_id, self._now_ns), run.ends_ns)
        profile = Profile(self._spare(one, None)(0), self._now_ns)
        times, free = profile.times, profile.free
        for end_ns in sorted(ends.values()):
            if end_ns == times[-1]:
                free[-1] += 1
            else:
                times.append(end_ns)
                free.append(free[-1] + 1)
        return profile


def _held(given: Assignment, view: JobView) -> _Part:
    return _Part(given.shares, given.cap_uw, given.levels, view.spec.alone)


def _fits_beside(head: _Head, late: Sequence[_Part]) -> bool:
    """Whether the first still has its place at its time if these are not free then."""
    if not any(part.shares for part in late):
        return True
    future = head.future
    for part in late:
        part.take(future)
    fits = head.waiter.place(future) is not None
    for part in late:
        future.give_back(part.shares, part.power_uw(future), part.alone)
    return fits


def _fits(room: Room, one: Waiter) -> bool:
    """Whether a job has a place there, whatever is reserved."""
    spec = replace(one.view.spec, reservation="")
    return room.find_fed(spec, one.size, one.cap_uw) is not None
