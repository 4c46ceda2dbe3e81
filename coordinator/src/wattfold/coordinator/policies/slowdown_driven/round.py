"""Round of slowdown-driven malleable backfill on named nodes (`slowdown_driven.policy`).

Waiting jobs are considered in order. Each is first tried as in EASY: it starts in full if it does
not delay the head of the queue. Then it is tried next to mates. A search that failed for a shape of
job is not repeated in the same round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.job_units import counted, size_text
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.power.charge import kind_gpus_uw, share_uw
from wattfold.coordinator.models.amdahl import WHOLE_PPM
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.easy_search import BEHIND, BLOCKED, FIRST, never
from wattfold.coordinator.policies.backfill.job_size import size_of
from wattfold.coordinator.policies.port import NamedJobs, Reason, Site
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.coordinator.policies.resources.requests import yielding
from wattfold.coordinator.policies.resources.room import Room
from wattfold.coordinator.policies.resources.serial_part import serial_of_ppm, useful_uw
from wattfold.coordinator.policies.slowdown_driven.choice import Guest, MateChoice, NodePick, always
from wattfold.coordinator.policies.slowdown_driven.levels import common_level_uw, pace_ppm
from wattfold.coordinator.policies.slowdown_driven.mates import MateCriteria, Mates, MateSearch
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources, Run
from wattfold.coordinator.policies.slowdown_driven.unshared_start import (
    CoresAtLevels,
    Head,
    Shape,
    UnsharedStart,
    WaitingJob,
    fits_beside,
    held,
)

TRIED = 8
"""Number of nodes tried for a job on cores, the best first.

A node may be rejected because of the head of the queue or of power, although mates are available.
"""

LOOKS_MAX = 20_000
"""Maximum number of examined nodes over all jobs on cores; at least one job is examined."""

_Before = Sequence[tuple[Run, Assignment, int]]
"""Mates with their previous resources and previous ends."""


class Round:
    """One decision. ``counted``: all jobs take whole nodes and request nothing else."""

    def __init__(
        self, rules: SharingSettings, jobs: NamedJobs, site: Site, now_ns: int, *, counted: bool
    ) -> None:
        self.reasons: list[Reason] = []
        self.resources = FreeResources(site, now_ns, rules.guests)
        self._rules, self._jobs, self._site, self._now_ns = rules, jobs, site, now_ns
        self._most_uw = max(node.spec.kind.most_uw for node in site.nodes)
        self._kinds = [node.spec.kind for node in site.nodes]
        self._blocked = any(node.blocked for node in site.nodes)
        self._tested_on_nodes = -(-LOOKS_MAX // len(site.nodes))
        self._heads: dict[str, Head] = {}
        self._waiting: list[WaitingJob] = []
        """Considered jobs that wait, in order."""
        self._sizes: dict[Shape, int] = {}
        self._told: dict[Shape, Reason | None] = {}
        self._nowhere: set[Shape] = set()
        self._delaying: set[Shape] = set()
        self._without_mates: set[Shape] = set()
        self._alone = UnsharedStart(
            rules=rules,
            resources=self.resources,
            now_ns=now_ns,
            kinds=self._kinds,
            counted=counted and site.kind is not None,
            waiting=self._waiting,
            nowhere=self._nowhere,
        )
        self._numbers: dict[NodeId, int] = {}
        # Unreachable, blocked and reserved resources will return, so they are no reason for
        # "never".
        self._empty = Room(site.nodes, site.most_uw)
        unblocked = [replace(node, blocked=CpuSet()) for node in site.nodes]
        self._later = Room(unblocked, site.most_uw) if self._blocked else self._empty
        self._mates: Mates

    def decide(
        self, running: Sequence[int], queue: Iterable[int], shape_of: Mapping[int, Shape]
    ) -> None:
        """Keep running jobs, return lent cores, and start jobs in full or next to mates."""
        ground, rules = self.resources, self._rules
        ground.adopt([(job, self._jobs.view(job)) for job in running])
        limits = rules.limits
        if rules.dynamic and ground.runs:
            mean = sum(run.slowdown for run in ground.runs.values()) / len(ground.runs)
            limits = replace(limits, most_slowdown=mean)
        queues = {queue.name: queue for queue in self._site.queues}
        terms = MateCriteria(limits=limits, rules=rules, queues=queues)
        self._mates = Mates(ground, terms)
        waiters = [self._waiter(job, shape_of[job]) for job in queue]
        waits = {one.view.job_id for one in waiters}
        # Jobs of a reservation go first: its nodes are reserved for them.
        waiters.sort(key=lambda waiting_job: waiting_job.view.spec.reservation, reverse=True)
        for one in waiters:
            head = self._heads.get(one.view.spec.reservation)
            if one.view.yields_to in waits:
                self._wait(one, yielding(one.view))
            elif (told := self._turned_away(one)) is not None:
                self.reasons.append(told._replace(job=one.job))
            elif not (self._start(one, head) or self._start_beside(one, head)):
                self._let_wait(one, head)

    def decided(self) -> dict[int, Assignment]:
        """Return starts, and running jobs with new cores."""
        return {
            job: run.given
            for job, run in self.resources.runs.items()
            if run.starts or run.given != run.view.current
        }

    # The queue.

    def _waiter(self, job: int, key: Shape) -> WaitingJob:
        view = self._jobs.view(job)
        cap_uw = view.spec.cap_uw or self._most_uw
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = size_of(view, self._site, "max", cap_uw)
        limit_ns, shape = self.resources.room.takes_ns(view, max(size, 1), cap_uw), key
        if limit_ns:
            spec = view.spec
            shape = (*key, limit_ns, spec.reservation, spec.queue, spec.user)
        return WaitingJob(
            job=job, view=view, size=size, cap_uw=cap_uw, limit_ns=limit_ns, shape=shape
        )

    def _turned_away(self, waiting_job: WaitingJob) -> Reason | None:
        """Return why a job can never start, or not before ending jobs have ended; else None."""
        clearing = waiting_job.view.job_id in self._site.clearing
        key = (*waiting_job.shape, clearing)
        if key not in self._told:
            self._told[key] = self._obstacle(waiting_job, clearing)
        return self._told[key]

    def _obstacle(self, waiting_job: WaitingJob, clearing: bool) -> Reason | None:
        if not waiting_job.size or not _fits(self._later, waiting_job):
            spec = waiting_job.view.spec
            return Reason(waiting_job.job, never(size_text(spec, spec.min_size)), never=True)
        if self._blocked and not clearing and not _fits(self._empty, waiting_job):
            return Reason(waiting_job.job, BLOCKED)
        return None

    def _let_wait(self, waiting_job: WaitingJob, head: Head | None) -> None:
        kept = self.resources.room.kept(
            waiting_job.view.spec, waiting_job.size, waiting_job.cap_uw, waiting_job.limit_ns
        )
        if kept:
            # It blocks no other job while it waits for a reservation.
            self._wait(waiting_job, kept)
            return
        if head is None:
            head = self._heads[waiting_job.view.spec.reservation] = self._ahead(waiting_job)
            self._wait(waiting_job, FIRST, start_ns=head.shadow_ns)
        else:
            self._wait(waiting_job, BEHIND)
        self._waiting.append(waiting_job)

    def _wait(self, waiting_job: WaitingJob, reason: str, *, start_ns: int = 0) -> None:
        self.reasons.append(Reason(waiting_job.job, reason, start_ns=start_ns))

    # Starts without mates.

    def _start(self, waiting_job: WaitingJob, head: Head | None) -> bool:
        """Start a job in full if it fits and does not delay the head of the queue."""
        if waiting_job.shape in self._nowhere:
            return False
        shares = waiting_job.place(self.resources.room)
        if shares is None:
            self._nowhere.add(waiting_job.shape)
            return False
        kinds = self.resources.room.kinds_under(shares)
        takes_ns = duration_ns(waiting_job.view, kinds, waiting_job.size, waiting_job.cap_uw)
        late: list[CoresAtLevels] = []
        if head is not None and self._now_ns + takes_ns > head.shadow_ns:
            late = [
                CoresAtLevels(
                    shares,
                    waiting_job.cap_uw,
                    waiting_job.view.spec.levels,
                    waiting_job.view.spec.alone,
                )
            ]
            if waiting_job.shape in self._delaying or not fits_beside(head, late):
                self._delaying.add(waiting_job.shape)
                return False
        if self._start_instead(waiting_job, head, self._now_ns + takes_ns):
            return True
        for part in late:
            assert head is not None
            part.take(head.future)
        self._begin(waiting_job, shares, takes_ns, takes_ns)
        return True

    def _begin(
        self, waiting_job: WaitingJob, shares: tuple[Share, ...], asked_ns: int, takes_ns: int
    ) -> Run:
        spec, room = waiting_job.view.spec, self.resources.room
        whole = spec.unit is SizeUnit.NODES
        given = Assignment(
            job_id=waiting_job.view.job_id,
            size=counted(spec, shares),
            cap_uw=room.held_uw(shares, waiting_job.cap_uw),
            shares=shares,
            expected_total_s=takes_ns / 1e9,
            levels=spec.levels,
        )
        asked = waiting_job.size if spec.unit is SizeUnit.CORES else 0
        fulls = {
            share.node_id: room.specs[share.node_id].kind.cores
            if whole
            else asked or len(share.cpus)
            for share in shares
        }
        run = Run(
            job=waiting_job.job,
            view=waiting_job.view,
            given=given,
            fulls=fulls,
            asked_ns=asked_ns,
            left_ns=asked_ns,
            ends_ns=self._now_ns + takes_ns,
            serial_ppm=serial_of_ppm(waiting_job.view, waiting_job.size),
            starts=True,
        )
        self.resources.start(run)
        self._alone.started()
        self._without_mates.clear()
        return run

    def _ahead(self, waiting_job: WaitingJob) -> Head:
        shadow_ns, future = self._alone.by_turn(waiting_job)
        return Head(waiter=waiting_job, shadow_ns=shadow_ns, future=future)

    # Starts next to mates.

    def _start_beside(self, waiting_job: WaitingJob, head: Head | None) -> bool:
        """Start a job on cores borrowed from running jobs, if this helps it."""
        spec = waiting_job.view.spec
        whole = spec.unit is SizeUnit.NODES
        tested = self._rules.tested if whole else min(self._rules.tested, self._tested_on_nodes)
        if not spec.borrows or len(self._waiting) >= tested or self._mates.none:
            return False
        asked_ns = duration_ns(
            waiting_job.view, self._kinds[:1], waiting_job.size, waiting_job.cap_uw
        )
        guest = self._guest(waiting_job, asked_ns)
        if self._alike(waiting_job, guest) in self._without_mates or not asked_ns:
            return False
        search = MateSearch(spec=spec, guest=guest, open_to=self._open_to(waiting_job.view))
        if whole:
            if self._beside_nodes(waiting_job, search, head):
                return True
        elif self._beside_cores(waiting_job, search, head):
            return True
        if not self._alone.counted or len(self._waiting) >= self._rules.mapped:
            # No further reservation separates this job from later jobs with the same request.
            self._without_mates.add(self._alike(waiting_job, guest))
        return False

    def _start_instead(self, waiting_job: WaitingJob, head: Head | None, ends_ns: int) -> bool:
        """Start a job next to mates that could start without them, if it is worth the energy."""
        spec = waiting_job.view.spec
        if self._rules.power is not PowerSharing.WEIGH or not spec.borrows or self._mates.none:
            return False
        guest = self._guest(waiting_job, ends_ns - self._now_ns)
        if not guest.asked or not (guest.serial_ppm or self._mates.curved):
            return False
        search = MateSearch(spec=spec, guest=guest, open_to=self._open_to(waiting_job.view))
        if spec.unit is SizeUnit.NODES:
            return self._beside_nodes(waiting_job, search, head, ends_ns)
        return self._beside_cores(waiting_job, search, head, ends_ns)

    def _guest(self, waiting_job: WaitingJob, asked_ns: int) -> Guest:
        spec, kind = waiting_job.view.spec, self._kinds[0]
        whole = spec.unit is SizeUnit.NODES
        cores = kind.cores if whole else waiting_job.size
        return Guest(
            nodes=waiting_job.size if whole else 1,
            asked=asked_ns,
            cores=waiting_job.size,
            least=spec.least_on_node,
            serial_ppm=serial_of_ppm(waiting_job.view, waiting_job.size) or 0,
            power_uw=share_uw(kind, cores, useful_uw(waiting_job.view, waiting_job.cap_uw))
            + kind_gpus_uw(kind, spec.amounts_on(cores).gpus, spec.levels.gpu_uw),
        )

    def _alike(self, waiting_job: WaitingJob, guest: Guest) -> Shape:
        """Return all properties that determine the mates of a job."""
        return waiting_job.shape, guest.asked, guest.least, guest.serial_ppm, guest.power_uw

    def _beside_nodes(
        self,
        waiting_job: WaitingJob,
        search: MateSearch,
        head: Head | None,
        ends_ns: int | None = None,
    ) -> bool:
        """Start next to mates on whole nodes; ``ends_ns`` is its end without mates, if known."""
        rules, asked_ns = self._rules, search.guest.asked
        if not rules.free_nodes and self._mates.pick(search) is None:
            self._without_mates.add(self._alike(waiting_job, search.guest))
            return False
        ends_ns = self._less_gain(ends_ns or self._alone.ends_ns(waiting_job, asked_ns), asked_ns)
        search = self._bounded(search, ends_ns)
        if rules.free_nodes:
            search = replace(search, free=self._alone.spare(waiting_job, head))
        search = replace(search, allowed=self._allowed(head, asked_ns))
        pick = self._mates.pick(search)
        if pick is None or not self._is_worth(self._mates.worth(search, pick), pick, ends_ns):
            return False
        before = self._as_they_are(pick.mates)
        shares = self._mates.lend(waiting_job.view.spec, waiting_job.view.job_id, pick)
        return self._share(
            waiting_job, head, shares, (asked_ns, pick.takes, search.latest_ns), before
        )

    def _beside_cores(
        self,
        waiting_job: WaitingJob,
        search: MateSearch,
        head: Head | None,
        ends_ns: int | None = None,
    ) -> bool:
        asked_ns = search.guest.asked
        ends_ns = self._less_gain(ends_ns or self._alone.ends_ns(waiting_job, asked_ns), asked_ns)
        search = self._bounded(search, ends_ns)
        for node_id, pick in self._mates.picks_on_nodes(search)[:TRIED]:
            if not self._is_worth(self._mates.worth_on(search, node_id, pick), pick, ends_ns):
                continue
            before = self._as_they_are(job for job, _ in pick.gives)
            shares = self._mates.lend_on_node(
                waiting_job.view.spec, waiting_job.view.job_id, node_id, pick
            )
            if self._share(
                waiting_job, head, shares, (asked_ns, pick.takes, search.latest_ns), before
            ):
                return True
        return False

    def _less_gain(self, ends_ns: int | None, asked_ns: int) -> int | None:
        """Return the latest end at which its slowdown falls by the required gain."""
        least = self._rules.least_gain
        return ends_ns - int(asked_ns * least) if ends_ns is not None and least else ends_ns

    def _allowed(self, head: Head | None, longer_ns: int) -> Callable[[tuple[int, ...]], bool]:
        """Return a function: whether jobs may be mates together."""
        rules = self._rules
        keeps = self._keeping(head, longer_ns) if rules.protects and head is not None else always
        if not rules.contiguous:
            return keeps
        return lambda mates: self._in_a_row(mates) and keeps(mates)

    def _in_a_row(self, mates: tuple[int, ...]) -> bool:
        """Return whether their nodes are neighbours in the order of the reachable nodes."""
        if not self._numbers:
            self._numbers = {name: number for number, name in enumerate(self.resources.room.specs)}
        runs, numbers = self.resources.runs, self._numbers
        at = [numbers[share.node_id] for mate in mates for share in runs[mate].given.shares]
        return max(at) - min(at) == len(at) - 1

    def _bounded(self, search: MateSearch, ends_ns: int | None) -> MateSearch:
        """Return the search with the end of the job without mates as upper bound.

        There is no bound if saved energy may outweigh a later end, or if ``benefit`` is off.
        """
        rules = self._rules
        if rules.power is PowerSharing.WEIGH:
            saves = search.guest.serial_ppm or self._mates.curved
            return search if saves else replace(search, latest_ns=ends_ns)
        return replace(search, latest_ns=ends_ns if rules.benefit else None)

    def _is_worth(
        self, worth: Callable[[int, float], float], pick: MateChoice | NodePick, ends_ns: int | None
    ) -> bool:
        """Return whether the weighed value, if any, favours these mates."""
        if self._rules.power is not PowerSharing.WEIGH or ends_ns is None:
            return True
        sooner_ns = ends_ns - self._now_ns - pick.takes
        return worth(sooner_ns, self._rules.energy_weight) > 0

    def _as_they_are(self, jobs: Iterable[int]) -> _Before:
        runs = [self.resources.runs[job] for job in jobs]
        return [(run, run.given, run.ends_ns) for run in runs]

    def _share(
        self,
        waiting_job: WaitingJob,
        head: Head | None,
        shares: tuple[Share, ...],
        times_ns: tuple[int, int, int | None],
        before: _Before,
    ) -> bool:
        """Start a job next to shrunk mates; undo it if power or the head of the queue forbids it.

        ``times_ns``: its requested time, its time with sharing, and its latest end.
        """
        ground, (asked_ns, takes_ns, latest_ns) = self.resources, times_ns
        cap_uw = self._fed_uw(waiting_job, shares, [mate for mate, _, _ in before])
        if cap_uw is not None and cap_uw < waiting_job.cap_uw:
            kinds, caps_uw = ground.room.kinds_under(shares), (cap_uw, waiting_job.cap_uw)
            takes_ns = (
                takes_ns * pace_ppm(waiting_job.view, kinds, waiting_job.size, caps_uw) // WHOLE_PPM
            )
            waiting_job = replace(waiting_job, cap_uw=cap_uw)
        in_time = latest_ns is None or self._now_ns + takes_ns < latest_ns
        if cap_uw is not None and in_time:
            run = self._begin(waiting_job, shares, asked_ns, takes_ns)
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

    def _fed_uw(
        self, waiting_job: WaitingJob, shares: tuple[Share, ...], mates: Sequence[Run]
    ) -> int | None:
        """Return a level within the power; with ``any`` as low as needed; None if there is none.

        The caps of mates are lowered to the same level.
        """
        room, spec = self.resources.room, waiting_job.view.spec
        if room.power_of(shares, waiting_job.cap_uw, spec.levels) <= room.power_uw:
            return waiting_job.cap_uw
        if self._rules.power is not PowerSharing.ANY:
            return None
        guest = Assignment(
            job_id=waiting_job.view.job_id,
            size=waiting_job.size,
            cap_uw=room.held_uw(shares, waiting_job.cap_uw),
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
                self.resources.set_cap(mate, level_uw)
        return waiting_job.cap_uw if spec.cap_uw else min(waiting_job.cap_uw, level_uw)

    def _look_ahead_again(self, head: Head, late: Sequence[CoresAtLevels]) -> None:
        """Update the free resources at the start of the head, without these parts."""
        if self._rules.protects:
            for part in late:
                part.take(head.future)
            return
        head.shadow_ns, head.future = self._alone.by_turn(head.waiter)
        self._delaying.clear()

    def _late(self, head: Head | None, run: Run, before: _Before) -> list[CoresAtLevels]:
        """Return the resources of a job and its mates that the head expected to be free."""
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
        """Return a function: whether no reservation withholds a node for a given time."""
        windows, now_ns, spec = self.resources.room.windows, self._now_ns, view.spec
        if not windows.concern(spec):
            return lambda node_id, takes_ns: True  # noqa: ARG005
        return lambda node_id, takes_ns: windows.open(
            spec, node_id, now_ns, now_ns + (spec.limit_ns or takes_ns)
        )

    def _keeping(self, head: Head, longer_ns: int) -> Callable[[tuple[int, ...]], bool]:
        """Return a function: whether the head has its nodes in time if these mates end later."""
        runs = self.resources.runs

        def allowed(mates: tuple[int, ...]) -> bool:
            late = [
                held(runs[mate].given, runs[mate].view)
                for mate in mates
                if runs[mate].ends_ns <= head.shadow_ns < runs[mate].ends_ns + longer_ns
            ]
            return fits_beside(head, late)

        return allowed


def _fits(room: Room, waiting_job: WaitingJob) -> bool:
    """Return whether a job fits, ignoring reservations."""
    spec = replace(waiting_job.view.spec, reservation="")
    return room.find_fed(spec, waiting_job.size, waiting_job.cap_uw) is not None
