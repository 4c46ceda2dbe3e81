"""First come, first served with backfilling on a count of like units: EASY and conservative.

The decision itself, free of nodes and watts, so that one piece of code serves the service's policy
(`fifo_easy`, where whole like nodes are asked for) and the simulator. Both classes are told of
every change and asked `decide`; they keep only what a decision needs.

* **EASY** (Lifka 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001). Jobs start in order while
  they fit. For the first that does not, the *shadow* time is the earliest at which it will, by
  the estimates of the running jobs, and *extra* what it leaves free then. A later job starts if it
  fits now and either ends by the shadow time or takes no more than the extra, which then shrinks.
* **Conservative** (same source): every waiting job has a reservation, at the earliest time at which
  it delays none before it. When a job ends early the reservations are made anew, in order.

A site may limit how much of the queue a pass looks at and how often there is one (`Passes`), as the
schedulers of real sites do; both then depend on when jobs come and go.

The order is that of priority, then of submission. ``kills_at_limit``: the site ends jobs at their
estimate, so a running job that has reached it counts as free in that instant; otherwise it counts
as one that may end at any moment, but holds what it has.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from heapq import heappop, heappush

Waiting = tuple[int, int, int]
"""Number, size and estimate (ns) of a job in the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How much a pass of backfilling looks at, and when there is one.

    ``looked``: jobs at the front of the queue; 0 = all. ``every``: passes are at multiples of it on
    the clock, the first after something has changed; 0 = at once. Between them jobs only start in
    their order, up to the first that does not fit. (Slurm: ``bf_max_job_test`` and ``bf_interval``,
    and the main scheduler, which looks at the queue in strict order at every event.)
    """

    looked: int = 0
    every: int = 0

    def due(self, now: int) -> int:
        """When the next pass may be, now or later."""
        return -(-now // self.every) * self.every if self.every else now

    def end(self, waiting: int) -> int:
        """So many of the jobs that wait are looked at."""
        return min(waiting, self.looked) if self.looked else waiting


AT_ONCE = Passes()


class EasyQueue:
    """EASY on ``units``. Times are integers of one clock, estimates of at least zero."""

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
        """When there is to be a pass for what has changed since the last; 0 = nothing has."""
        self.kills_at_limit = kills_at_limit
        self.queue: list[Waiting] = []
        self.running: list[tuple[int, int, int]] = []
        """Requested end, number and size of every running job, by requested end."""
        self._ends: dict[int, tuple[int, int, int]] = {}
        self._shadow = 0
        self._extra = 0
        # Entries of the queue that the last pass has seen and turned down at this shadow time.
        self._standing = 0
        self._fresh = False
        # Of jobs whose priority is another than 1, and all after the first of them.
        self._priorities: dict[int, float] = {}

    def submit(self, number: int, size: int, estimate: int, priority: float = 1.0) -> None:
        """A job joins the end of the queue, or of those with its priority or a higher one."""
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
        """A job runs already and will end by its estimate at ``ends``, or does so after all."""
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
        """A running job has ended."""
        if self._priorities:
            self._priorities.pop(number, None)
        entry = self._ends.pop(number)
        del self.running[bisect_left(self.running, entry)]
        self.free += entry[2]
        self._fresh = False

    def resize(self, by: int) -> None:
        """The pool has so many units more (or less, below zero: what runs stays)."""
        self.free += by
        self._fresh = False

    def decide(self, now: int) -> list[int]:
        """The jobs that start now, in the order in which they were chosen."""
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
        """Whether this decision is a pass; if not, says when the next one is to be."""
        due = self.passes.due(now)
        self.due = due if due > now else 0
        return due == now

    def shadow(self) -> int:
        """Time at which the first of the queue is expected to start, by the last decision."""
        return self._shadow

    def starts(self, now: int, most: int) -> dict[int, int]:
        """When the first of the queue start, by their turn and the estimates; so many at most.

        None before those before it, so backfilling may have one start earlier; the first, at its
        shadow time, is delayed by nobody.
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
        """A pass after submissions alone: those turned down before would be again.

        The shadow time and the extra stand, and ``now + estimate`` only grows.
        """
        started: list[int] = []
        self._backfill(now, self.free, self._standing, started)
        return started

    def _reserve(self, now: int, free: int) -> None:
        """Shadow time and extra of the first in the queue, which does not fit in ``free``."""
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
        """Lets entries of the queue from a position on start where they delay nobody."""
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
