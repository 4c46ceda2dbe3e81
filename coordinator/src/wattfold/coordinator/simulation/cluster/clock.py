"""Virtual time: a queue of what is to happen when. Equal times keep the order they were set in."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Happening = Callable[[], None]


class Timer:
    """Something set to happen once; `cancel` keeps it from happening."""

    __slots__ = ("happening", "time_ns")

    def __init__(self, time_ns: int, happening: Happening) -> None:
        self.time_ns = time_ns
        self.happening: Happening | None = happening

    def cancel(self) -> None:
        """It will not happen."""
        self.happening = None


class VirtualClock:
    """Time that moves from one happening to the next, in nanoseconds from zero."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Timer]] = []
        self._order = 0

    def at(self, time_ns: int, happening: Happening) -> Timer:
        """Sets something to happen at a time; one that has passed counts as now."""
        timer = Timer(max(time_ns, self.now_ns), happening)
        self._order += 1
        heapq.heappush(self._queue, (timer.time_ns, self._order, timer))
        return timer

    def later(self, delay_ns: int, happening: Happening) -> Timer:
        """Sets something to happen after a delay."""
        return self.at(self.now_ns + delay_ns, happening)

    @property
    def next_ns(self) -> int | None:
        """When something happens next, None if nothing does."""
        while self._queue and self._queue[0][2].happening is None:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Moves to the next happening and lets it happen. IndexError if there is none."""
        while True:
            time_ns, _, timer = heapq.heappop(self._queue)
            if timer.happening is not None:
                break
        self.now_ns = time_ns
        timer.happening()

    def skip_to(self, time_ns: int) -> None:
        """Lets time pass in which nothing happens."""
        self.now_ns = max(self.now_ns, time_ns)
