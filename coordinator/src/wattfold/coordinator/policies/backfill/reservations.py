"""Conservative backfilling on a count of identical units: every waiting job has a reservation.

A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001. A job reserves the earliest time at which
it delays no earlier job. When units become free early, the waiting jobs are processed again in
order. Each releases its reservation and takes the earliest possible one, so no start moves to a
later time ("compression"). In contrast to EASY, users can get a start time at submission. The price
is less backfilling.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class FreeUnitProfile:
    """Expected free units over time: a step function that ends with all units free."""

    __slots__ = ("free", "times")

    def __init__(self, units: int, now: int = 0) -> None:
        self.times: list[int] = [now]
        self.free: list[int] = [units]

    def earliest(self, size: int, duration: int, now: int, before: int | None = None) -> int | None:
        """Return the first time from ``now`` on with ``size`` units free for ``duration``, or None.

        Only times before ``before`` count.
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
        """Return whether ``size`` units stay free from a start to an end."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return min(self.free[first : bisect_left(self.times, end)], default=size) >= size

    def moments(self, after: int, until: int) -> list[int]:
        """Return the times of changes after one time and up to another."""
        times = self.times
        return times[bisect_right(times, after) : bisect_right(times, until)]

    def add(self, start: int, end: int, units: int) -> None:
        """Change the free units from ``start`` to ``end``; negative ``units`` are taken."""
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
    """Conservative backfilling with the interface of `counts.EasyQueue`."""

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
        """Size and estimate of the waiting jobs, in order of priority and submission."""
        self.reserved: dict[int, int | None] = {}
        """Planned start of each waiting job; None while the pool is too small for it."""
        self._ends: dict[int, tuple[int, int]] = {}
        self._profile = FreeUnitProfile(units)
        self._changed = False
        self._priorities: dict[int, float] = {}

    def submit(self, number: int, size: int, estimate: int, priority: float = 1.0) -> None:
        """Add a job to the queue; the next decision makes its reservation.

        Existing reservations remain. A higher priority takes precedence when reservations are made
        and moved up, but delays no other start.
        """
        self.queue[number] = (size, estimate)
        if priority != 1.0 or self._priorities:
            self._priorities[number] = priority
            ordered = sorted(self.queue, key=lambda n: -self._priorities.get(n, 1.0))
            self.queue = {other: self.queue[other] for other in ordered}

    def adopt(self, number: int, size: int, ends: int) -> None:
        """Add a job that already runs and ends at ``ends`` by its estimate."""
        self._ends[number] = (ends, size)
        self._changed = True
        self._renew()

    def end(self, number: int) -> None:
        """Remove a running job that has ended, at its estimate or before."""
        self._ends.pop(number)
        self._priorities.pop(number, None)
        self._changed = True

    def resize(self, by: int) -> None:
        """Change the number of units by ``by``. All reservations are made again."""
        self.units += by
        self._changed = True
        self._renew()

    def decide(self, now: int) -> list[int]:
        """Return the jobs that start now, in order."""
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
            # The reservation in the profile now belongs to the running job.
            self._ends[number] = (now + estimate, size)
        return started

    def _renew(self) -> None:
        """Drop all reservations, because expected units are not available."""
        self.reserved.clear()

    def _rebuild_running(self, now: int) -> None:
        """Build the profile of running jobs and remaining reservations."""
        profile = FreeUnitProfile(self.units, now)
        for ends, size in self._ends.values():
            if ends > now or not self.kills_at_limit:
                profile.add(now, max(ends, now + 1), -size)
        for number, start in self.reserved.items():
            if start is not None:
                size, estimate = self.queue[number]
                profile.add(start, start + estimate, -size)
        self._profile = profile

    def _compress(self, now: int) -> None:
        """Move every reservation to its earliest time, in order of submission."""
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
