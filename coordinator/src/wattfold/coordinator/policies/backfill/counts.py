"""EASY and conservative backfilling on a count of identical units.

The decisions do not depend on nodes and watts, so the same code serves the service's policy
(`fifo_easy`, for identical whole nodes) and the simulator. Both classes are notified of every
change and decide on `decide`. They store only the data that a decision needs.

* **EASY** (Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001). Jobs start in order while
  they fit. For the first blocked job, the *shadow* time is the earliest time at which it fits
  according to the estimates of the running jobs. *Extra* is the number of units that it leaves free
  then. A later job starts if it fits now and either ends by the shadow time or needs at most the
  extra units, which then shrink.
* **Conservative** (same source): every waiting job has a reservation at the earliest time at which
  it delays no job before it. When a job ends early, all reservations are made again, in order.

A site may limit the number of jobs that a pass considers and the frequency of passes (`Passes`), as
the schedulers of real sites do. Decisions then depend on the times of arrivals and ends.

Jobs are ordered by priority, then by submission. With ``kills_at_limit`` the site ends jobs at
their estimate, so a running job that has reached it counts as free at that instant. Otherwise such
a job may end at any moment but keeps its units.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush

Waiting = tuple[int, int, int]
"""Number, size and estimate (ns) of a job in the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Limits of a backfilling pass: the number of considered jobs, and the times of passes.

    ``looked`` counts jobs at the front of the queue; 0 = all. Passes happen at multiples of
    ``every`` on the clock, the first after a change; 0 = immediately. Between passes jobs only
    start in order, until the next job does not fit. (Slurm: ``bf_max_job_test`` and
    ``bf_interval``, and the main scheduler, which processes the queue in strict order at every
    event.)
    """

    looked: int = 0
    every: int = 0

    def due(self, now: int) -> int:
        """Return the time of the next pass, now or later."""
        return -(-now // self.every) * self.every if self.every else now

    def end(self, waiting: int) -> int:
        """Return the number of waiting jobs that a pass considers."""
        return min(waiting, self.looked) if self.looked else waiting


AT_ONCE = Passes()


class EasyQueue:
    """EASY on ``units``. Times are integers of one clock; estimates are at least zero."""

    __slots__ = (
        "_ends",
        "_extra",
        "_fresh",
        "_priorities",
        "_shadow",
        "_standing",
        "backfill",
        "due",
        "free",
        "kills_at_limit",
        "passes",
        "queue",
        "running",
    )

    def __init__(
        self,
        units: int,
        *,
        backfill: bool = True,
        kills_at_limit: bool = False,
        passes: Passes = AT_ONCE,
    ) -> None:
        self.free = units
        self.backfill = backfill
        self.passes = passes
        self.due = 0
        """Time of the pass for changes since the last pass; 0 = no changes."""
        self.kills_at_limit = kills_at_limit
        self.queue: list[Waiting] = []
        self.running: list[tuple[int, int, int]] = []
        """Estimated end, number and size of every running job, in order of estimated end."""
        self._ends: dict[int, tuple[int, int, int]] = {}
        self._shadow = 0
        self._extra = 0
        # Number of entries that the last pass has considered and rejected at this shadow time.
        self._standing = 0
        self._fresh = False
        # Priorities of jobs with a priority other than 1 and of all jobs submitted after the first
        # of them.
        self._priorities: dict[int, float] = {}

    def submit(self, number: int, size: int, estimate: int, priority: float = 1.0) -> None:
        """Append a job to the queue, behind all jobs of equal or higher priority."""
        entry = (number, size, estimate)
        if priority == 1.0 and not self._priorities:
            self.queue.append(entry)
            return
        self._priorities[number] = priority
        position = len(self.queue)
        while position and self._priorities.get(self.queue[position - 1][0], 1.0) < priority:
            position -= 1
        if position < len(self.queue):
            self._fresh = False
        self.queue.insert(position, entry)

    def adopt(self, number: int, size: int, ends: int) -> None:
        """Add a job that already runs and ends at ``ends`` by its estimate, or update it."""
        entry = (ends, number, size)
        known = self._ends.get(number)
        if known == entry:
            return
        if known is not None:
            self.end(number)
        insort(self.running, entry)
        self._ends[number] = entry
        self.free -= size
        self._fresh = False

    def end(self, number: int) -> None:
        """Remove a running job that has ended."""
        if self._priorities:
            self._priorities.pop(number, None)
        entry = self._ends.pop(number)
        del self.running[bisect_left(self.running, entry)]
        self.free += entry[2]
        self._fresh = False

    def resize(self, by: int) -> None:
        """Change the number of units by ``by``. Running jobs stay if it is negative."""
        self.free += by
        self._fresh = False

    def decide(self, now: int) -> list[int]:
        """Return the jobs that start now, in the order of their choice."""
        queue = self.queue
        if not queue:
            return []
        running = self.running
        overdue = 0
        if running and running[0][0] <= now and self.kills_at_limit:
            overdue = sum(size for ends, _, size in running if ends <= now)
        backfills = not self.passes.every or self._backfills(now)
        if backfills and self._fresh and not overdue and now < self._shadow:
            return self._late_arrivals(now)
        started: list[int] = []
        first = 0
        free = self.free + overdue
        for number, size, estimate in queue:
            if size > free:
                break
            self._start(number, size, now + estimate)
            started.append(number)
            free -= size
            first += 1
        if first:
            del queue[:first]
        self._standing = 0
        if queue and backfills:
            self._reserve(now, free)
            self._backfill(now, free, 1, started)
            self._fresh = not overdue
        elif queue:
            self._fresh = False
        return started

    def _backfills(self, now: int) -> bool:
        """Return whether this decision is a pass; if not, set the time of the next pass."""
        due = self.passes.due(now)
        self.due = due if due > now else 0
        return due == now

    def shadow(self) -> int:
        """Return the expected start of the first job in the queue, by the last decision."""
        return self._shadow

    def starts(self, now: int, most: int) -> dict[int, int]:
        """Return the expected starts of the first ``most`` jobs of the queue, by the estimates.

        No job starts before the jobs ahead of it, so backfilling may start a job earlier. No job
        delays the first job beyond its shadow time.
        """
        found: dict[int, int] = {}
        free, time, running, begun = self.free, now, 0, list[tuple[int, int]]()
        for number, size, estimate in self.queue[:most]:
            while free < size and (begun or running < len(self.running)):
                if running < len(self.running) and (
                    not begun or self.running[running][0] <= begun[0][0]
                ):
                    ends, _, freed = self.running[running]
                    running += 1
                else:
                    ends, freed = heappop(begun)
                free, time = free + freed, max(time, ends)
            if free < size:
                break
            found[number] = time
            free -= size
            heappush(begun, (time + estimate, size))
        return found

    def _start(self, number: int, size: int, ends: int) -> None:
        entry = (ends, number, size)
        insort(self.running, entry)
        self._ends[number] = entry
        self.free -= size

    def _late_arrivals(self, now: int) -> list[int]:
        """Run a pass after submissions only: it would reject the same jobs as the last pass.

        Shadow time and extra are unchanged, and ``now + estimate`` only grows.
        """
        started: list[int] = []
        self._backfill(now, self.free, self._standing, started)
        return started

    def _reserve(self, now: int, free: int) -> None:
        """Compute shadow time and extra for the first job, which does not fit in ``free``."""
        need = self.queue[0][1]
        avail = free
        shadow = now
        for ends, _, size in self.running:
            if ends <= now and self.kills_at_limit:
                continue
            if avail >= need and ends > shadow:
                break
            avail += size
            shadow = ends if ends > now else now
        self._shadow = shadow
        self._extra = avail - need

    def _backfill(self, now: int, free: int, first: int, started: list[int]) -> None:
        """Start entries of the queue from position ``first`` on if they delay no job."""
        queue = self.queue
        if not self.backfill or free <= 0:
            self._standing = len(queue)
            return
        room = self._shadow - now
        extra = self._extra
        gone: list[int] = []
        last = self.passes.end(len(queue))
        for position, (number, size, estimate) in enumerate(queue[first:last], first):
            if size > free or (estimate > room and size > extra):
                continue
            if estimate > room:
                extra -= size
            free -= size
            self._start(number, size, now + estimate)
            started.append(number)
            gone.append(position)
            if not free:
                break
        self._extra = extra
        for position in reversed(gone):
            del queue[position]
        self._standing = last - len(gone)
