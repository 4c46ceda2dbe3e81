"""One round of slowdown-driven malleable backfill over nodes with names (`slowdown_driven`).

Jobs that wait are looked at in order. Each is first tried as EASY does: it starts where it fits in
full without delaying the first that waits; then beside mates. What no job of its shape found in
this round is not looked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.charge import kind_gpus_uw, share_uw
from wattfold.coordinator.core.job import Assignment, Share, SizeUnit
from wattfold.coordinator.core.job_units import counted, size_text
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.models.amdahl import WHOLE_PPM
from wattfold.coordinator.policies.easy_search import BEHIND, BLOCKED, FIRST, never, size_of
from wattfold.coordinator.policies.estimates import duration_ns
from wattfold.coordinator.policies.placement import Room
from wattfold.coordinator.policies.requests import yielding
from wattfold.coordinator.policies.scheduler import NamedJobs, Reason, Site
from wattfold.coordinator.policies.slowdown_driven_alone import Alone
from wattfold.coordinator.policies.slowdown_driven_choice import Guest, NodePick, Pick, always
from wattfold.coordinator.policies.slowdown_driven_head import (
    Head,
    Part,
    Shape,
    Waiter,
    fits_beside,
    held,
)
from wattfold.coordinator.policies.slowdown_driven_levels import common_level_uw, pace_ppm
from wattfold.coordinator.policies.slowdown_driven_mates import Mates, Search, Terms
from wattfold.coordinator.policies.slowdown_driven_rules import Power, SharingRules
from wattfold.coordinator.policies.slowdown_driven_runs import Ground, Run
from wattfold.coordinator.policies.slowdown_driven_speed import serial_of_ppm, useful_uw

TRIED = 8
"""So many nodes are tried for a job on cores, the best ones first, where the first or power forbid
what mates do not."""

LOOKS_MAX = 20_000
"""Of jobs on cores so many are looked at that so many nodes are, over all of them: one at least."""

_Before = Sequence[tuple[Run, Assignment, int]]
"""Mates, what they had and when they were to end."""


class Round:
    """One decision. ``counted``: all jobs take whole nodes and ask for nothing else."""

    def __init__(
        self, rules: SharingRules, jobs: NamedJobs, site: Site, now_ns: int, *, counted: bool
    ) -> None:
        self.reasons: list[Reason] = []
        self.ground = Ground(site, now_ns, rules.guests)
        self._rules, self._jobs, self._site, self._now_ns = rules, jobs, site, now_ns
        self._most_uw = max(node.spec.kind.most_uw for node in site.nodes)
        self._kinds = [node.spec.kind for node in site.nodes]
        self._blocked = any(node.blocked for node in site.nodes)
        self._tested_on_nodes = -(-LOOKS_MAX // len(site.nodes))
        self._heads: dict[str, Head] = {}
        self._waiting: list[Waiter] = []
        """Those looked at that wait, in order."""
        self._sizes: dict[Shape, int] = {}
        self._told: dict[Shape, Reason | None] = {}
        self._nowhere: set[Shape] = set()
        self._delaying: set[Shape] = set()
        self._without_mates: set[Shape] = set()
        self._alone = Alone(
            rules=rules,
            ground=self.ground,
            now_ns=now_ns,
            kinds=self._kinds,
            counted=counted and site.kind is not None,
            waiting=self._waiting,
            nowhere=self._nowhere,
        )
        self._numbers: dict[NodeId, int] = {}
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
        terms = Terms(limits=limits, factor=rules.factor, queues=queues, guests=rules.guests)
        self._mates = Mates(ground, terms)
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

    def _let_wait(self, one: Waiter, head: Head | None) -> None:
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

    def _start(self, one: Waiter, head: Head | None) -> bool:
        """Starts a job in full where it fits, if the first that waits is not delayed."""
        if one.shape in self._nowhere:
            return False
        shares = one.place(self.ground.room)
        if shares is None:
            self._nowhere.add(one.shape)
            return False
        kinds = self.ground.room.kinds_under(shares)
        takes_ns = duration_ns(one.view, kinds, one.size, one.cap_uw)
        late: list[Part] = []
        if head is not None and self._now_ns + takes_ns > head.shadow_ns:
            late = [Part(shares, one.cap_uw, one.view.spec.levels, one.view.spec.alone)]
            if one.shape in self._delaying or not fits_beside(head, late):
                self._delaying.add(one.shape)
                return False
        if self._start_instead(one, head, self._now_ns + takes_ns):
            return True
        for part in late:
            assert head is not None
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
            serial_ppm=serial_of_ppm(one.view, one.size),
            starts=True,
        )
        self.ground.start(run)
        self._alone.started()
        self._without_mates.clear()
        return run

    def _ahead(self, one: Waiter) -> Head:
        shadow_ns, future = self._alone.by_turn(one)
        return Head(waiter=one, shadow_ns=shadow_ns, future=future)

    # Beside mates.

    def _start_beside(self, one: Waiter, head: Head | None) -> bool:
        """Starts a job on cores that running jobs lend, if it gains by it."""
        spec = one.view.spec
        whole = spec.unit is SizeUnit.NODES
        tested = self._rules.tested if whole else min(self._rules.tested, self._tested_on_nodes)
        if not spec.borrows or len(self._waiting) >= tested or self._mates.none:
            return False
        asked_ns = duration_ns(one.view, self._kinds[:1], one.size, one.cap_uw)
        guest = self._guest(one, asked_ns)
        if self._alike(one, guest) in self._without_mates or not asked_ns:
            return False
        search = Search(spec=spec, guest=guest, open_to=self._open_to(one.view))
        if whole:
            if self._beside_nodes(one, search, head):
                return True
        elif self._beside_cores(one, search, head):
            return True
        if not self._alone.counted or len(self._waiting) >= self._rules.mapped:
            # No further reservation comes between this job and one that asks for the same.
            self._without_mates.add(self._alike(one, guest))
        return False

    def _start_instead(self, one: Waiter, head: Head | None, ends_ns: int) -> bool:
        """Starts a job beside mates that could start by itself, where that is worth the energy."""
        spec = one.view.spec
        if self._rules.power is not Power.WEIGH or not spec.borrows or self._mates.none:
            return False
        guest = self._guest(one, ends_ns - self._now_ns)
        if not guest.asked or not (guest.serial_ppm or self._mates.curved):
            return False
        search = Search(spec=spec, guest=guest, open_to=self._open_to(one.view))
        if spec.unit is SizeUnit.NODES:
            return self._beside_nodes(one, search, head, ends_ns)
        return self._beside_cores(one, search, head, ends_ns)

    def _guest(self, one: Waiter, asked_ns: int) -> Guest:
        spec, kind = one.view.spec, self._kinds[0]
        whole = spec.unit is SizeUnit.NODES
        cores = kind.cores if whole else one.size
        return Guest(
            nodes=one.size if whole else 1,
            asked=asked_ns,
            cores=one.size,
            least=spec.least_on_node,
            serial_ppm=serial_of_ppm(one.view, one.size) or 0,
            power_uw=share_uw(kind, cores, useful_uw(one.view, one.cap_uw))
            + kind_gpus_uw(kind, spec.amounts_on(cores).gpus, spec.levels.gpu_uw),
        )

    def _alike(self, one: Waiter, guest: Guest) -> Shape:
        """What mates of a job depend on."""
        return one.shape, guest.asked, guest.least, guest.serial_ppm, guest.power_uw

    def _beside_nodes(
        self, one: Waiter, search: Search, head: Head | None, ends_ns: int | None = None
    ) -> bool:
        """Beside mates on whole nodes; by itself it would end at ``ends_ns``, if that is known."""
        rules, asked_ns = self._rules, search.guest.asked
        if not rules.free_nodes and self._mates.pick(search) is None:
            self._without_mates.add(self._alike(one, search.guest))
            return False
        ends_ns = self._less_gain(ends_ns or self._alone.ends_ns(one, asked_ns), asked_ns)
        search = self._bounded(search, ends_ns)
        if rules.free_nodes:
            search = replace(search, free=self._alone.spare(one, head))
        search = replace(search, allowed=self._allowed(head, asked_ns))
        pick = self._mates.pick(search)
        if pick is None or not self._is_worth(self._mates.worth(search, pick), pick, ends_ns):
            return False
        before = self._as_they_are(pick.mates)
        shares = self._mates.lend(one.view.spec, one.view.job_id, pick)
        return self._share(one, head, shares, (asked_ns, pick.takes, search.latest_ns), before)

    def _beside_cores(
        self, one: Waiter, search: Search, head: Head | None, ends_ns: int | None = None
    ) -> bool:
        asked_ns = search.guest.asked
        ends_ns = self._less_gain(ends_ns or self._alone.ends_ns(one, asked_ns), asked_ns)
        search = self._bounded(search, ends_ns)
        for node_id, pick in self._mates.picks_on_nodes(search)[:TRIED]:
            if not self._is_worth(self._mates.worth_on(search, node_id, pick), pick, ends_ns):
                continue
            before = self._as_they_are(job for job, _ in pick.gives)
            shares = self._mates.lend_on_node(one.view.spec, one.view.job_id, node_id, pick)
            if self._share(one, head, shares, (asked_ns, pick.takes, search.latest_ns), before):
                return True
        return False

    def _less_gain(self, ends_ns: int | None, asked_ns: int) -> int | None:
        """When it must have ended, so that its slowdown falls by what it must."""
        least = self._rules.least_gain
        return ends_ns - int(asked_ns * least) if ends_ns is not None and least else ends_ns

    def _allowed(self, head: Head | None, longer_ns: int) -> Callable[[tuple[int, ...]], bool]:
        """Whether jobs may be mates together."""
        rules = self._rules
        keeps = self._keeping(head, longer_ns) if rules.protects and head is not None else always
        if not rules.contiguous:
            return keeps
        return lambda mates: self._in_a_row(mates) and keeps(mates)

    def _in_a_row(self, mates: tuple[int, ...]) -> bool:
        """Whether their nodes are neighbours in the order of the site, of those in reach."""
        if not self._numbers:
            self._numbers = {name: number for number, name in enumerate(self.ground.room.specs)}
        runs, numbers = self.ground.runs, self._numbers
        at = [numbers[share.node_id] for mate in mates for share in runs[mate].given.shares]
        return max(at) - min(at) == len(at) - 1

    def _bounded(self, search: Search, ends_ns: int | None) -> Search:
        """With when it must have ended: before it would by itself.

        Not where energy saved may be worth a later end, nor where nobody asks.
        """
        rules = self._rules
        if rules.power is Power.WEIGH:
            saves = search.guest.serial_ppm or self._mates.curved
            return search if saves else replace(search, latest_ns=ends_ns)
        return replace(search, latest_ns=ends_ns if rules.benefit else None)

    def _is_worth(
        self, worth: Callable[[int, float], float], pick: Pick | NodePick, ends_ns: int | None
    ) -> bool:
        """Whether what is weighed, if anything is, speaks for these mates."""
        if self._rules.power is not Power.WEIGH or ends_ns is None:
            return True
        sooner_ns = ends_ns - self._now_ns - pick.takes
        return worth(sooner_ns, self._rules.energy_weight) > 0

    def _as_they_are(self, jobs: Iterable[int]) -> _Before:
        runs = [self.ground.runs[job] for job in jobs]
        return [(run, run.given, run.ends_ns) for run in runs]

    def _share(
        self,
        one: Waiter,
        head: Head | None,
        shares: tuple[Share, ...],
        times_ns: tuple[int, int, int | None],
        before: _Before,
    ) -> bool:
        """Starts a job beside mates that have shrunk; undone where power or the first forbid it.

        ``times_ns``: what it asked for, takes as it shares, and when it must have ended.
        """
        ground, (asked_ns, takes_ns, latest_ns) = self.ground, times_ns
        cap_uw = self._fed_uw(one, shares, [mate for mate, _, _ in before])
        if cap_uw is not None and cap_uw < one.cap_uw:
            kinds, caps_uw = ground.room.kinds_under(shares), (cap_uw, one.cap_uw)
            takes_ns = takes_ns * pace_ppm(one.view, kinds, one.size, caps_uw) // WHOLE_PPM
            one = replace(one, cap_uw=cap_uw)
        in_time = latest_ns is None or self._now_ns + takes_ns < latest_ns
        if cap_uw is not None and in_time:
            run = self._begin(one, shares, asked_ns, takes_ns)
            for mate, _, _ in before:
                mate.ends_ns = ground.predicted_ns(mate)
            late = self._late(head, run, before)
            kept = head is None or not self._rules.protects or fits_beside(head, late)
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

    def _fed_uw(self, one: Waiter, shares: tuple[Share, ...], mates: Sequence[Run]) -> int | None:
        """The level for which there is power, with ``any`` as low as it takes; None: for none.

        Mates go down with it.
        """
        room, spec = self.ground.room, one.view.spec
        if room.power_of(shares, one.cap_uw, spec.levels) <= room.power_uw:
            return one.cap_uw
        if self._rules.power is not Power.ANY:
            return None
        guest = Assignment(
            job_id=one.view.job_id,
            size=one.size,
            cap_uw=room.held_uw(shares, one.cap_uw),
            shares=shares,
            levels=spec.levels,
        )
        given = [(mate.given, not mate.view.spec.cap_uw) for mate in mates]
        power_uw = room.power_uw + sum(mate.power_uw for mate in mates)
        level_uw = common_level_uw(room, [(guest, not spec.cap_uw), *given], power_uw)
        if level_uw is None:
            return None
        for mate in mates:
            if not mate.view.spec.cap_uw and level_uw < mate.given.cap_uw:
                self.ground.set_cap(mate, level_uw)
        return one.cap_uw if spec.cap_uw else min(one.cap_uw, level_uw)

    def _look_ahead_again(self, head: Head, late: Sequence[Part]) -> None:
        """What is free when the first starts, now that these are not."""
        if self._rules.protects:
            for part in late:
                part.take(head.future)
            return
        head.shadow_ns, head.future = self._alone.by_turn(head.waiter)
        self._delaying.clear()

    def _late(self, head: Head | None, run: Run, before: _Before) -> list[Part]:
        """What a job and its mates hold at the shadow time that would have been free then."""
        if head is None:
            return []
        late = [
            held(given, mate.view)
            for mate, given, ends_ns in before
            if ends_ns <= head.shadow_ns < mate.ends_ns
        ]
        if run.ends_ns > head.shadow_ns:
            lent = {share.node_id for _, given, _ in before for share in given.shares}
            free = tuple(share for share in run.given.shares if share.node_id not in lent)
            late.append(held(replace(run.given, shares=free), run.view))
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

    def _keeping(self, head: Head, longer_ns: int) -> Callable[[tuple[int, ...]], bool]:
        """Whether jobs may be mates: the first has its nodes in time if they end later."""
        runs = self.ground.runs

        def allowed(mates: tuple[int, ...]) -> bool:
            late = [
                held(runs[mate].given, runs[mate].view)
                for mate in mates
                if runs[mate].ends_ns <= head.shadow_ns < runs[mate].ends_ns + longer_ns
            ]
            return fits_beside(head, late)

        return allowed


def _fits(room: Room, one: Waiter) -> bool:
    """Whether a job has a place there, whatever is reserved."""
    spec = replace(one.view.spec, reservation="")
    return room.find_fed(spec, one.size, one.cap_uw) is not None
