"""Virtual time with a queue of events. Events of the same time keep the order of their calls."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Happening = Callable[[], None]


class ScheduledEvent:
    """An event that happens once; `cancel` prevents it."""

    __slots__ = ("happening", "time_ns")

    def __init__(self, time_ns: int, happening: Happening) -> None:
        self.time_ns = time_ns
        self.happening: Happening | None = happening

    def cancel(self) -> None:
        """Prevent the event."""
        self.happening = None


class VirtualClock:
    """Clock that moves from one event to the next, in nanoseconds from zero."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, ScheduledEvent]] = []
        self._order = 0

    def at(self, time_ns: int, happening: Happening) -> ScheduledEvent:
        """Schedule an event for a time; a past time counts as now."""
        timer = ScheduledEvent(max(time_ns, self.now_ns), happening)
        self._order += 1
        heapq.heappush(self._queue, (timer.time_ns, self._order, timer))
        return timer

    def later(self, delay_ns: int, happening: Happening) -> ScheduledEvent:
        """Schedule an event after a delay."""
        return self.at(self.now_ns + delay_ns, happening)

    @property
    def next_ns(self) -> int | None:
        """Time of the next event, None without events."""
        while self._queue and self._queue[0][2].happening is None:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def step(self) -> None:
        """Move to the next event and run it. Raises IndexError if there is none."""
        while True:
            time_ns, _, timer = heapq.heappop(self._queue)
            if timer.happening is not None:
                break
        self.now_ns = time_ns
        timer.happening()

    def skip_to(self, time_ns: int) -> None:
        """Move to a later time without events."""
        self.now_ns = max(self.now_ns, time_ns)
