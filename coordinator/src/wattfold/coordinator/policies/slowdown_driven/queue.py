"""Slowdown-driven malleable backfill on a count of identical whole nodes.

M. D'Amico, J. Corbalan, A. Jokanovic, ICPP 2019, Listing 1. Jobs are considered in order of
priority and submission. Each is first tried as in EASY (`backfill.counts`): it starts if it fits
and does not delay the head of the queue. Then, before the next job, it is tried next to mates
(`slowdown_driven.choice`), on their nodes. It starts there now, with fewer cores, if it is
predicted to end earlier than by the static schedule. The static schedule is a map of reservations
for the jobs ahead and the job itself.

The mates' cores return when their guest ends. An owner that ends first leaves its nodes to its
guest. A job lends to one guest at a time, and only while it has all cores of all its nodes. Times
are whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wattfold.coordinator.policies.backfill.counts import AT_ONCE, Passes
from wattfold.coordinator.policies.backfill.reservations import FreeUnitProfile
from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    MateChoice,
    always,
    no_free,
    penalty,
    select,
)
from wattfold.coordinator.policies.slowdown_driven.counted import CountedRun, CountedRuns
from wattfold.coordinator.policies.slowdown_driven.rules import (
    NodeSharing,
    PowerSharing,
    SharingSettings,
    worth_of,
)


class SlowdownQueue(CountedRuns):
    """EASY and malleable backfill on ``units`` nodes of ``cores`` cores.

    ``shared`` holds the jobs of the last decision that start next to mates. ``allowed``: whether
    jobs may be mates together. ``penalty`` is the maximum penalty of all mates so far: any fixed
    MAX_SLOWDOWN above it would have given the same run.
    """

    __slots__ = (
        "_alike",
        "_allowed",
        "_guests",
        "_limits",
        "_map",
        "_mapped",
        "_new",
        "_sharing",
        "_submitted",
        "penalty",
        "shared",
    )

    def __init__(
        self,
        units: int,
        cores: int,
        sharing: Callable[[int], NodeSharing],
        rules: SharingSettings,
        *,
        kills_at_limit: bool = False,
        allowed: Callable[[tuple[int, ...]], bool] = always,
        passes: Passes = AT_ONCE,
    ) -> None:
        super().__init__(
            units, cores, rules, kills_at_limit=kills_at_limit, allowed=allowed, passes=passes
        )
        self.penalty = 0.0
        self.shared: dict[int, MateChoice] = {}
        self._sharing, self._allowed = sharing, allowed
        self._submitted: dict[int, int] = {}
        self._new: list[CountedRun] = []
        """Jobs that started at the instant of the last decision; they cannot lend nodes yet."""
        self._limits = replace(rules.limits, most_slowdown=0.0) if rules.dynamic else rules.limits
        """Current limits; a dynamic MAX_SLOWDOWN is from the last full pass."""
        self._map: FreeUnitProfile | None = None
        self._mapped = 0
        self._guests: dict[int, Guest | None] = {}
        """Waiting jobs that were considered, as guests."""
        self._alike: set[Guest] = set()
        """Requests of jobs that wait, and would wait at any later place in this decision."""

    # Notifications.

    def enter(self, job: int, size: int, estimate: int, priority: float, submitted: int) -> None:
        """Add a job to the queue."""
        self._submitted[job] = submitted
        self.submit(job, size, estimate, priority)

    def leave(self, job: int) -> None:
        """Remove a job from the queue that no longer waits."""
        at = next(at for at, entry in enumerate(self.queue) if entry[0] == job)
        del self.queue[at]
        self._forget(job)
        self._fresh = False

    def resize(self, by: int) -> None:
        """Change the number of units by ``by``, or report a change of power."""
        super().resize(by)
        self._guests.clear()

    # Queries.

    @property
    def most_slowdown(self) -> float:
        """Current MAX_SLOWDOWN."""
        return self._limits.most_slowdown

    def decide(self, now: int) -> list[int]:
        """Return the jobs that start now, in the order of their choice."""
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
            # Rejected jobs would be rejected again: an arriving job adds no free nodes and no
            # mates.
            return self._pass(now, self.free, self._standing)
        if self.rules.dynamic:
            most = self._slowdowns / len(self._runs) if self._runs else 0.0
            self._limits = replace(self._limits, most_slowdown=most)
        started = self._pass(now, self.free + overdue, 0)
        self._fresh = self._fresh and not overdue
        return started

    def _in_order(self, now: int, free: int) -> list[int]:
        """Start jobs between two passes: those at the head of the queue, while they fit."""
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
        """Consider the jobs from a position on: by the static schedule, then next to mates."""
        queue = self.queue
        started: list[int] = []
        kept = queue[:first]
        waits = first > 0
        last = self.passes.end(len(queue)) if waits else len(queue)
        place = first - 1
        while (place := place + 1) < last:
            if waits and (len(kept) >= self.rules.tested or not self._lenders.now):
                # From here on no job is tried next to mates.
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
        """Return the position of the next job that may start without mates, or ``last``."""
        if free <= 0:
            return last
        room, extra, queue = self._shadow - now, self._extra, self.queue
        for place in range(first, last):
            _, size, estimate = queue[place]
            if size <= free and (estimate <= room or size <= extra):
                return place
        return last

    def _look_ahead(self, now: int, free: int, need: int) -> None:
        """Compute shadow time and extra of the head, as `EasyQueue`, with resized jobs."""
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

    def _begin_beside(self, job: int, size: int, asked: int, pick: MateChoice, now: int) -> None:
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
    ) -> CountedRun:
        run = self._runs[job] = CountedRun(
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

    # Mates.

    def _let_lend(self) -> None:
        """Add jobs that started before this instant to the lenders."""
        for run in self._new:
            if self._runs.get(run.job) is run:
                self._join(run)
        self._new.clear()
        self._fresh = False

    def _malleable(
        self,
        job: int,
        size: int,
        asked: int,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
    ) -> MateChoice | None:
        """Return mates for a job that cannot start without them; None: it waits."""
        lenders, limits = self._lenders, self._limits
        if lenders.none_since(job, limits.most_slowdown):
            return None
        guest, rules = self._guest(job, size, asked), self.rules
        if guest is None or guest in self._alike:
            return None
        if free < 0 and rules.power is not PowerSharing.ANY:
            return None  # Jobs already run at lower caps because power is short.
        if not rules.free_nodes and not lenders.any_for(job, guest, now, limits):
            self._alike.add(guest)
            return None
        end = None
        if rules.benefit or rules.power is PowerSharing.WEIGH:
            end = self._static_end(size, asked, now, before)
        pick = self._mates(guest, now, free, before, end)
        if pick is None and len(before) >= rules.mapped:
            # No further reservation separates this job from later jobs with the same request.
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
    ) -> MateChoice | None:
        """Return mates for a job that could start without them, if the saved energy is worth it."""
        lenders = self._lenders
        if self.rules.power is not PowerSharing.WEIGH or not lenders.now:
            return None
        guest = self._guest(job, size, asked)
        if guest is None or not self._saves(guest):
            return None
        if not self.rules.free_nodes and not lenders.any_for(job, guest, now, self._limits):
            return None
        return self._mates(guest, now, free, before, now + asked)

    def _guest(self, job: int, size: int, asked: int) -> Guest | None:
        """Return a waiting job as a guest, or None if it must not start next to mates."""
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
        """Return whether sharing may save energy; proportional slowdowns save none."""
        return guest.serial_ppm > 0 or self._lenders.curved

    def _mates(
        self,
        guest: Guest,
        now: int,
        free: int,
        before: list[tuple[int, int, int]],
        end: int | None,
    ) -> MateChoice | None:
        """Return mates with which a job ends earlier, or saves enough energy for its slowdown."""
        rules, latest = self.rules, end
        if end is not None and rules.least_gain:
            latest = end = end - int(guest.asked * rules.least_gain)
        weighs = rules.power is PowerSharing.WEIGH
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
            self._lenders.able(guest, now, self._limits),
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
        """Return a function of a run time: free nodes that the head of the queue does not need."""
        free = min(free, self.free)  # Nodes of jobs that end at this instant have no names yet.
        if not before:
            return lambda _: free
        shadow, extra = self._shadow, max(self._extra, 0)
        return lambda takes: free if now + takes <= shadow else min(free, extra)

    def _static_end(
        self, size: int, asked: int, now: int, before: list[tuple[int, int, int]]
    ) -> int | None:
        """Return the end of the job if it waits for its turn; None = never."""
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
