"""Conservative backfilling on a count of like units: every waiting job has a reservation.

A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001. A job is reserved the earliest time at
which it delays none of those before it. When units come free early, the waiting jobs are looked at
again in order: each gives its reservation up and takes the earliest one then possible, so that
nobody's start moves to later ("compression"). Users can be told a start when they submit, which
EASY cannot; the price is less backfilling.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Profile:
    """Units expected to be free over time: a step function that ends with everything free."""

    __slots__ = ("free", "times")

    def __init__(self, units: int, now: int = 0) -> None:
        self.times: list[int] = [now]
        self.free: list[int] = [units]

    def earliest(self, size: int, duration: int, now: int, before: int | None = None) -> int | None:
        """First time from now on at which ``size`` units stay free so long; None = never.

        Times from ``before`` on are not looked at.
        """
        times, free = self.times, self.free
        last = len(times) - 1
        index = max(bisect_right(times, now) - 1, 0)
        while index <= last:
            if free[index] < size:
                index += 1
                continue
            start = max(times[index], now)
            if before is not None and start >= before:
                return None
            end = start + duration
            ahead = index + 1
            while ahead <= last and times[ahead] < end and free[ahead] >= size:
                ahead += 1
            if ahead > last or times[ahead] >= end:
                return start
            index = ahead
        return None

    def holds(self, size: int, start: int, end: int) -> bool:
        """Whether ``size`` units stay free from a time on up to another one."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return min(self.free[first : bisect_left(self.times, end)], default=size) >= size

    def moments(self, after: int, until: int) -> list[int]:
        """When what is free changes, after a time and up to another one."""
        times = self.times
        return times[bisect_right(times, after) : bisect_right(times, until)]

    def add(self, start: int, end: int, units: int) -> None:
        """Changes what is free from ``start`` up to ``end`` (below zero: takes)."""
        if end <= start:
            return
        first, last = self._split(start), self._split(end)
        for index in range(first, last):
            self.free[index] += units

    def _split(self, time: int) -> int:
        index = bisect_left(self.times, time)
        if index == len(self.times) or self.times[index] != time:
            self.times.insert(index, time)
            self.free.insert(index, self.free[index - 1] if index else self.free[0])
        return index


class ConservativeQueue:
    """Conservative backfilling; the same use as `backfill.EasyQueue`."""

    __slots__ = (
        "_changed",
        "_ends",
        "_priorities",
        "_profile",
        "kills_at_limit",
        "queue",
        "reserved",
        "units",
    )

    def __init__(self, units: int, *, kills_at_limit: bool = False) -> None:
        self.units = units
        self.kills_at_limit = kills_at_limit
        self.queue: dict[int, tuple[int, int]] = {}
        """Size and estimate of the waiting jobs, in order of submission."""
        self.reserved: dict[int, int | None] = {}
        """Start promised to each waiting job; None while the pool is too small for it."""
        self._ends: dict[int, tuple[int, int]] = {}
        self._profile = Profile(units)
        self._changed = False
        self._priorities: dict[int, float] = {}

    def submit(self, number: int, size: int, estimate: int, priority: float = 1.0) -> None:
        """A job joins the queue; it is reserved a time at the next decision.

        Promises stand: a higher priority comes before others when reservations are made and moved
        up, and takes nobody's time away.
        """
        self.queue[number] = (size, estimate)
        if priority != 1.0 or self._priorities:
            self._priorities[number] = priority
            ordered = sorted(self.queue, key=lambda n: -self._priorities.get(n, 1.0))
            self.queue = {other: self.queue[other] for other in ordered}

    def adopt(self, number: int, size: int, ends: int) -> None:
        """A job runs already and will end by its estimate at ``ends``."""
        self._ends[number] = (ends, size)
        self._changed = True
        self._renew()

    def end(self, number: int) -> None:
        """A running job has ended, by its estimate or before."""
        self._ends.pop(number)
        self._priorities.pop(number, None)
        self._changed = True

    def resize(self, by: int) -> None:
        """The pool has so many units more (or less). Promises are made anew."""
        self.units += by
        self._changed = True
        self._renew()

    def decide(self, now: int) -> list[int]:
        """The jobs that start now, in order."""
        overdue = not self.kills_at_limit and any(ends <= now for ends, _ in self._ends.values())
        if overdue:
            self._renew()
        if self._changed or overdue:
            self._rebuild_running(now)
            self._compress(now)
            self._changed = False
        for number, (size, estimate) in self.queue.items():
            if number not in self.reserved:
                self._reserve(number, size, estimate, now)
        started = [number for number in self.queue if self.reserved.get(number) == now]
        for number in started:
            size, estimate = self.queue.pop(number)
            del self.reserved[number]
            # The reservation in the profile is now the running job's.
            self._ends[number] = (now + estimate, size)
        return started

    def _renew(self) -> None:
        """Drops all promises: units that were counted on are not there."""
        self.reserved.clear()

    def _rebuild_running(self, now: int) -> None:
        """The profile of what runs and of the promises that stand."""
        profile = Profile(self.units, now)
        for ends, size in self._ends.values():
            if ends > now or not self.kills_at_limit:
                profile.add(now, max(ends, now + 1), -size)
        for number, start in self.reserved.items():
            if start is not None:
                size, estimate = self.queue[number]
                profile.add(start, start + estimate, -size)
        self._profile = profile

    def _compress(self, now: int) -> None:
        """Every promise to the earliest time, in order of submission."""
        profile = self._profile
        for number, (size, estimate) in self.queue.items():
            start = self.reserved.get(number)
            if start is None or start <= now:
                continue
            profile.add(start, start + estimate, size)
            self._reserve(number, size, estimate, now)

    def _reserve(self, number: int, size: int, estimate: int, now: int) -> None:
        start = self._profile.earliest(size, estimate, now)
        self.reserved[number] = start
        if start is not None:
            self._profile.add(start, start + estimate, -size)
