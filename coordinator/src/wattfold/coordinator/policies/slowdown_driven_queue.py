"""Slowdown-driven malleable backfill on a count of like nodes that are given whole.

M. D'Amico, J. Corbalan, A. Jokanovic, ICPP 2019, Listing 1. Jobs are looked at in the order of
priority and submission. Each is first tried as EASY would (`backfill`): it starts where it fits and
delays the first that waits by nothing. Then, before the next job is looked at, it is tried beside
mates (`slowdown_driven_choice`), on the nodes these hold: it starts there now, with fewer cores, if
it is predicted to end before it would by the static schedule. The static schedule is that of a map
of reservations, for the jobs before it and itself.

The mates' cores come back when their guest ends. An owner that ends first leaves its nodes to its
guest. A job lends to one guest at a time, and only while it has all cores of all its nodes.

Predictions are users' words stretched by the worst-case model (Eq. 6): a job goes as fast as on the
node where it has least. Times are whole nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wattfold.coordinator.models.amdahl import takes, work
from wattfold.coordinator.policies.backfill import AT_ONCE, EasyQueue, Passes
from wattfold.coordinator.policies.reservations import Profile
from wattfold.coordinator.policies.slowdown_driven_choice import (
    Guest,
    Lender,
    Pick,
    always,
    no_free,
    penalty,
    select,
)
from wattfold.coordinator.policies.slowdown_driven_lenders import Lenders
from wattfold.coordinator.policies.slowdown_driven_rules import (
    Power,
    Sharing,
    SharingRules,
    lent_at_most,
)
from wattfold.coordinator.policies.slowdown_driven_worth import worth_of


@dataclass(slots=True)
class _Run:
    """A running job. Times in nanoseconds of the clock, work in nanoseconds on all its cores."""

    job: int
    nodes: int
    asked: int
    submitted: int
    began: int
    sharing: Sharing
    left: int
    since: int
    cores: int
    """What it has on the node where it has least."""
    own: int
    """Nodes that are its own: whole, or less what its guest has."""
    ends: int
    hosts: dict[int, int] = field(default_factory=dict)
    """Mates that lend to it, and their nodes."""
    guest: int | None = None
    resized: bool = False

    @property
    def waited(self) -> int:
        """How long it waited, and how much longer than asked for it is predicted to run."""
        return self.ends - self.submitted - self.asked

    @property
    def slowdown(self) -> float:
        """By its user's estimate."""
        return (self.ends - self.submitted) / max(self.asked, 1)


class SlowdownQueue(EasyQueue):
    """EASY and malleable backfill on ``units`` nodes of ``cores`` cores.

    ``shared`` holds, of the jobs of the last decision, those that start beside mates. ``changed``
    are running jobs whose cores are others since the last decision, in order. ``allowed`` tells
    whether jobs may be mates together. ``penalty`` is the greatest of all mates so far: under any
    fixed MAX_SLOWDOWN above it the run would have been the same.
    """

    __slots__ = (
        "_alike",
        "_allowed",
        "_guests",
        "_lenders",
        "_limits",
        "_map",
        "_mapped",
        "_new",
        "_runs",
        "_sharing",
        "_slowdowns",
        "_submitted",
        "changed",
        "cores",
        "penalty",
        "rules",
        "shared",
    )

    def __init__(
        self,
        units: int,
        cores: int,
        sharing: Callable[[int], Sharing],
        rules: SharingRules,
        *,
        kills_at_limit: bool = False,
        allowed: Callable[[tuple[int, ...]], bool] = always,
        passes: Passes = AT_ONCE,
    ) -> None:
        super().__init__(units, kills_at_limit=kills_at_limit, passes=passes)
        self.cores, self.rules = cores, rules
        self.penalty = 0.0
        self.shared: dict[int, Pick] = {}
        self.changed: dict[int, None] = {}
        self._sharing, self._allowed = sharing, allowed
        self._runs: dict[int, _Run] = {}
        self._submitted: dict[int, int] = {}
        self._lenders = Lenders(max(int(rules.factor * cores), 1), rules.limits.mates, allowed)
        self._new: list[_Run] = []
        """Jobs that started in the instant of the last decision: they have no nodes yet to lend."""
        self._slowdowns = 0.0
        self._limits = replace(rules.limits, most_slowdown=0.0) if rules.dynamic else rules.limits
        """As they are now, with MAX_SLOWDOWN of the last full pass where it moves."""
        self._map: Profile | None = None
        self._mapped = 0
        self._guests: dict[int, Guest | None] = {}
        """The jobs that wait and were looked at, as guests."""
        self._alike: set[Guest] = set()
        """What jobs ask for that wait, and would wherever they come later in this decision."""

    # What is told.

    def enter(self, job: int, size: int, estimate: int, priority: float, submitted: int) -> None:
        """A job joins the queue."""
        self._submitted[job] = submitted
        self.submit(job, size, estimate, priority)

    def leave(self, job: int) -> None:
        """A job that waits does so no more."""
        at = next(at for at, entry in enumerate(self.queue) if entry[0] == job)
        del self.queue[at]
        self._forget(job)
        self._fresh = False

    def ended(self, job: int, now: int) -> None:
        """A running job has ended. Its nodes are free, or its mates' and its guest's."""
        run = self._runs.pop(job)
        self._slowdowns = self._slowdowns - run.slowdown if self._runs else 0.0
        self._lenders.leave(job)
        self.changed.pop(job, None)
        self._fresh = False
        if run.own:
            self._drop(run)
        if run.guest is not None:
            self._inherit(self._runs[run.guest], run, now)
        else:
            self.free += run.own
        for host in run.hosts:
            mate = self._runs[host]
            mate.guest = None
            self._set_cores(mate, self.cores, now)
            self._join(mate)

    def replan(self, job: int, asked: int, now: int) -> None:
        """A running job is taken to run for another time than before on all its cores."""
        run = self._runs[job]
        self._advance(run, now)
        self._slowdowns -= run.slowdown
        run.left, run.asked = max(run.left + asked - run.asked, 0), asked
        self._slowdowns += run.slowdown
        self._expect(run, now)
        for host in run.hosts:
            mate = self._runs[host]
            self._advance(mate, now)
            self._expect(mate, now)
        if job in self._lenders.now:
            self._lenders.leave(job)
            self._join(run)
        self._fresh = False

    def resize(self, by: int) -> None:
        """The pool has so many units more (or less), or its power is another."""
        super().resize(by)
        self._guests.clear()

    # What is asked.

    @property
    def most_slowdown(self) -> float:
        """MAX_SLOWDOWN as it is now."""
        return self._limits.most_slowdown

    def runs(self, job: int) -> bool:
        """Whether a job runs, rather than waits."""
        return job in self._runs

    def nodes_of(self, job: int) -> int:
        """How many nodes a running job is on."""
        return self._runs[job].nodes

    def guest_of(self, job: int) -> int | None:
        """The job that has cores of a running job's nodes."""
        return self._runs[job].guest

    def hosts_of(self, job: int) -> dict[int, int]:
        """The mates of a running job, and the nodes each of them holds."""
        return self._runs[job].hosts

    def cores_of(self, job: int) -> tuple[int, int]:
        """A running job's cores on each of its own nodes, and on each of its mates'."""
        run = self._runs[job]
        if run.hosts:
            return (self.cores if run.sharing.lends else run.cores), run.cores
        return run.cores, 0

    def ends_of(self, job: int) -> int:
        """When a running job is predicted to end."""
        return self._runs[job].ends

    def decide(self, now: int) -> list[int]:
        """The jobs that start now, in the order in which they were chosen."""
        self.shared.clear()
        queue = self.queue
        if not queue:
            return []
        self._map = None
        self._alike.clear()
        if self._new and self._new[0].began < now:
            self._let_lend()
        overdue = self._overdue(now)
        if not self._backfills(now):
            return self._in_order(now, self.free + overdue)
        if self._fresh and now < self._shadow and not overdue:
            # Those turned down before would be again: a job that comes brings no room and no mates.
            return self._pass(now, self.free, self._standing)
        if self.rules.dynamic:
            most = self._slowdowns / len(self._runs) if self._runs else 0.0
            self._limits = replace(self._limits, most_slowdown=most)
        started = self._pass(now, self.free + overdue, 0)
        self._fresh = self._fresh and not overdue
        return started

    def _overdue(self, now: int) -> int:
        """Nodes of jobs that end in this instant, by their limits."""
        if not self.kills_at_limit or not self.running or self.running[0][0] > now:
            return 0
        runs = self._runs
        ended = (entry for entry in self.running if entry[0] <= now)
        return sum(own for _, job, own in ended if not runs[job].resized)

    def _in_order(self, now: int, free: int) -> list[int]:
        """Between two passes: those at the front of the queue, up to the first without room."""
        started: list[int] = []
        for number, size, estimate in self.queue:
            if size > free:
                break
            self._begin(number, size, estimate, now)
            free -= size
            started.append(number)
        del self.queue[: len(started)]
        self._fresh = False
        return started

    def _pass(self, now: int, free: int, first: int) -> list[int]:
        """Looks at the jobs from a position on, each by the static schedule and then malleable."""
        queue = self.queue
        started: list[int] = []
        kept = queue[:first]
        waits = first > 0
        last = self.passes.end(len(queue)) if waits else len(queue)
        place = first - 1
        while (place := place + 1) < last:
            if waits and (len(kept) >= self.rules.tested or not self._lenders.now):
                # Nobody from here on is tried beside mates.
                to = self._next_that_fits(place, last, now, free)
                kept += queue[place:to]
                if to == last:
                    break
                place = to
            number, size, estimate = queue[place]
            fits = size <= free
            if fits and waits:
                fits = now + estimate <= self._shadow or size <= self._extra
            pick = None
            if fits:
                pick = self._instead(number, size, estimate, now, free, kept)
            elif len(kept) < self.rules.tested and self._lenders.now:
                pick = self._malleable(number, size, estimate, now, free, kept)
            if fits and pick is None:
                self._begin(number, size, estimate, now)
                free -= size
                if waits and now + estimate > self._shadow:
                    self._extra -= size
                started.append(number)
                continue
            if pick is not None:
                self._begin_beside(number, size, estimate, pick, now)
                free -= pick.free
                started.append(number)
                if waits:
                    self._look_ahead(now, free, kept[0][1])
                continue
            if not waits:
                waits = True
                last = place + self.passes.end(len(queue) - place)
                self._look_ahead(now, free, size)
            kept.append((number, size, estimate))
        self._standing = len(kept)
        self._fresh = bool(kept)
        self.queue = kept + queue[last:]
        return started

    def _next_that_fits(self, first: int, last: int, now: int, free: int) -> int:
        """Where in the queue the next job is that may start by itself; the last place if none."""
        if free <= 0:
            return last
        room, extra, queue = self._shadow - now, self._extra, self.queue
        for place in range(first, last):
            _, size, estimate = queue[place]
            if size <= free and (estimate <= room or size <= extra):
                return place
        return last

    def _look_ahead(self, now: int, free: int, need: int) -> None:
        """Shadow time and extra of the first that waits; as `EasyQueue`, with resized jobs."""
        avail, shadow, runs = free, now, self._runs
        for ends, job, own in self.running:
            if ends <= now and self.kills_at_limit and not runs[job].resized:
                continue
            if avail >= need and ends > shadow:
                break
            avail += own
            shadow = max(ends, now)
        self._shadow, self._extra = shadow, avail - need

    # Starts and ends.

    def _begin(self, job: int, size: int, asked: int, now: int) -> None:
        run = self._made(job, size, asked, now, cores=self.cores, own=size, ends=now + asked)
        self.free -= size
        self._put(run)
        self._new.append(run)
        self._map = None
        self._alike.clear()

    def _begin_beside(self, job: int, size: int, asked: int, pick: Pick, now: int) -> None:
        guest, lenders = self._guest(job, size, asked), self._lenders.now
        assert guest is not None
        penalties = (penalty(lenders[mate], guest) for mate in pick.mates)
        self.penalty = max(self.penalty, *penalties)
        run = self._made(
            job, size, asked, now, cores=pick.cores, own=pick.free, ends=now + pick.takes
        )
        run.resized = True
        run.hosts = {mate: self._runs[mate].nodes for mate in pick.mates}
        self.free -= pick.free
        if run.own:
            self._put(run)
        for mate in pick.mates:
            self._lenders.leave(mate)
            host = self._runs[mate]
            host.guest = job
            self._set_cores(host, self.cores - pick.cores, now)
        self.shared[job] = pick
        self._map = None
        self._alike.clear()

    def _made(
        self, job: int, size: int, asked: int, now: int, *, cores: int, own: int, ends: int
    ) -> _Run:
        run = self._runs[job] = _Run(
            job=job,
            nodes=size,
            asked=asked,
            submitted=self._submitted[job],
            began=now,
            sharing=self._sharing(job),
            left=asked,
            since=now,
            cores=cores,
            own=own,
            ends=ends,
        )
        self._slowdowns += run.slowdown
        self._forget(job)
        return run

    def _forget(self, job: int) -> None:
        del self._submitted[job]
        self._guests.pop(job, None)
        self._lenders.forget(job)
        self._priorities.pop(job, None)

    def _inherit(self, guest: _Run, owner: _Run, now: int) -> None:
        """An owner has ended before its guest, which gets its nodes."""
        del guest.hosts[owner.job]
        if guest.own:
            self._drop(guest)
        guest.own += owner.own
        self._put(guest)
        if guest.sharing.lends:
            self.changed[guest.job] = None
            if not guest.hosts:
                self._set_cores(guest, self.cores, now)
                self._join(guest)

    def _set_cores(self, run: _Run, cores: int, now: int) -> None:
        """A running job goes on with so many cores where it has least."""
        self._advance(run, now)
        run.cores, run.resized = cores, True
        self._expect(run, now)
        self.changed[run.job] = None

    def _advance(self, run: _Run, now: int) -> None:
        """What is left of a running job now."""
        run.left = max(run.left - self._does(run, now - run.since), 0)
        run.since = now

    def _expect(self, run: _Run, now: int) -> None:
        """When a running job is predicted to end."""
        self._slowdowns -= run.slowdown
        if run.own:
            self._drop(run)
        run.ends = self._predicted(run, now)
        if run.own:
            self._put(run)
        self._slowdowns += run.slowdown

    def _predicted(self, run: _Run, now: int) -> int:
        """When it ends, if it has its cores until its guest ends, then all of its nodes."""
        shared_until = self._runs[run.guest].ends if run.guest is not None else now
        does = self._does(run, shared_until - now)
        if run.guest is not None and run.left > does:
            return shared_until + run.left - does
        return now + takes(run.left, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _does(self, run: _Run, time: int) -> int:
        """What it does in a time with the cores it has, of its work on all of them."""
        return work(time, self.cores, run.cores, run.sharing.serial_ppm or 0)

    def _put(self, run: _Run) -> None:
        entry = (run.ends, run.job, run.own)
        insort(self.running, entry)
        self._ends[run.job] = entry

    def _drop(self, run: _Run) -> None:
        entry = self._ends.pop(run.job)
        del self.running[bisect_left(self.running, entry)]

    # Mates.

    def _let_lend(self) -> None:
        """Jobs that started before this instant may lend."""
        for run in self._new:
            if self._runs.get(run.job) is run:
                self._join(run)
        self._new.clear()
        self._fresh = False

    def _join(self, run: _Run) -> None:
        """A job that has all its nodes to itself may lend."""
        sharing = run.sharing
        most = lent_at_most(self.rules.factor, self.cores, sharing.serial_ppm)
        lends = min(most, self.cores - sharing.least)
        if not sharing.lends or lends < 1 or run.hosts or run.cores < self.cores:
            return
        self._lenders.join(
            Lender(
                run.job,
                run.own,
                run.waited,
                run.asked,
                run.ends,
                lends,
                sharing.serial_ppm or 0,
                sharing.power_uw,
            )
        )

    def _malleable(
        self,
        job: int,
        size: int,
        asked: int,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
    ) -> Pick | None:
        """Mates for a job that cannot start by itself; None: it waits."""
        lenders, limits = self._lenders, self._limits
        if lenders.none_since(job, limits.most_slowdown):
            return None
        guest, rules = self._guest(job, size, asked), self.rules
        if guest is None or guest in self._alike:
            return None
        if free < 0 and rules.power is not Power.ANY:
            return None  # Jobs run at lower caps already, for want of watts.
        if not rules.free_nodes and not lenders.any_for(job, guest, now, limits):
            self._alike.add(guest)
            return None
        end = None
        if rules.benefit or rules.power is Power.WEIGH:
            end = self._static_end(size, asked, now, before)
        pick = self._mates(guest, now, free, before, end)
        if pick is None and len(before) >= rules.mapped:
            # No further reservation comes between this job and one that asks for the same.
            self._alike.add(guest)
        return pick

    def _instead(
        self,
        job: int,
        size: int,
        asked: int,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
    ) -> Pick | None:
        """Mates for a job that could start by itself, where the energy saved is worth it."""
        lenders = self._lenders
        if self.rules.power is not Power.WEIGH or not lenders.now:
            return None
        guest = self._guest(job, size, asked)
        if guest is None or not self._saves(guest):
            return None
        if not self.rules.free_nodes and not lenders.any_for(job, guest, now, self._limits):
            return None
        return self._mates(guest, now, free, before, now + asked)

    def _guest(self, job: int, size: int, asked: int) -> Guest | None:
        """A job that waits, as one that may start beside mates; None: it may not."""
        try:
            return self._guests[job]
        except KeyError:
            one, guest = self._sharing(job), None
            if one.borrows and asked:
                serial_ppm = one.serial_ppm or 0
                guest = Guest(size, asked, self.cores, one.least, serial_ppm, one.power_uw)
            self._guests[job] = guest
            return guest

    def _saves(self, guest: Guest) -> bool:
        """Whether sharing may save energy: not where all are slowed in proportion to cores."""
        return guest.serial_ppm > 0 or self._lenders.curved

    def _mates(
        self,
        guest: Guest,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
        end: int | None,
    ) -> Pick | None:
        """Mates beside whom a job ends earlier than without, or is slower for less energy."""
        rules, latest = self.rules, end
        if end is not None and rules.least_gain:
            latest = end = end - int(guest.asked * rules.least_gain)
        weighs = rules.power is Power.WEIGH
        if weighs and self._saves(guest):
            latest = None
        if latest is not None and now + self._lenders.least_takes(guest) >= latest:
            return None
        allowed = self._allowed
        if rules.protects and before:

            def allowed(mates: tuple[int, ...]) -> bool:
                return self._keeps_head(mates, guest.asked) and self._allowed(mates)

        pick = select(
            guest,
            self._lenders.able(guest, now),
            now,
            self._limits,
            free=self._spare(now, free, before) if rules.free_nodes else no_free,
            latest=latest,
            allowed=allowed,
        )
        if pick is None or not weighs or end is None:
            return pick
        lenders = [self._lenders.now[mate] for mate in pick.mates]
        sooner = end - now - pick.takes
        gain = worth_of(pick, guest, lenders, sooner, rules.energy_weight)
        return pick if gain > 0 else None

    def _spare(
        self, now: int, free: int, before: list[tuple[int, int, int]]
    ) -> Callable[[int], int]:
        """Free nodes for a job that takes so long, none that the first that waits will need."""
        free = min(free, self.free)  # Nodes of jobs that end in this instant cannot be named yet.
        if not before:
            return lambda _: free
        shadow, extra = self._shadow, max(self._extra, 0)
        return lambda takes: free if now + takes <= shadow else min(free, extra)

    def _keeps_head(self, mates: tuple[int, ...], longer: int) -> bool:
        """Whether the first that waits still has its nodes in time if these end later."""
        late = 0
        for mate in mates:
            run = self._runs[mate]
            if run.ends <= self._shadow < run.ends + longer:
                late += run.own
        return late <= self._extra

    def _static_end(
        self, size: int, asked: int, now: int, before: list[tuple[int, int, int]]
    ) -> int | None:
        """When the job would end if it waited its turn; None = never."""
        if self._map is None:
            self._map, self._mapped = self._profile(now), 0
        profile = self._map
        while self._mapped < min(len(before), self.rules.mapped):
            _, need, estimate = before[self._mapped]
            start = profile.earliest(need, estimate, now)
            if start is not None:
                profile.add(start, start + estimate, -need)
            self._mapped += 1
        start = profile.earliest(size, asked, now)
        return None if start is None else start + asked

    def _profile(self, now: int) -> Profile:
        """What will be free when, by the running jobs alone."""
        profile = Profile(self.free, now)
        times, free = profile.times, profile.free
        for ends, _, own in self.running:
            at = max(ends, now)
            if at == times[-1]:
                free[-1] += own
            else:
                times.append(at)
                free.append(free[-1] + own)
        return profile
