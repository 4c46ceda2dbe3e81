"""Coordinator time: nanoseconds that grow over restarts, and their relation to the calendar.

It is the monotonic clock, continued: a restarted coordinator goes on from the last time in its
journal plus the time it was away by the calendar (never less than nothing). So waiting times and
leases need no calendar, and a step of the calendar while running changes nothing.
"""

from __future__ import annotations

import time


class Clock:
    """Coordinator time. ``origin_s`` is the calendar time (Unix seconds) of its zero."""

    def __init__(self, origin_s: float | None = None, last_ns: int = 0) -> None:
        wall_s = time.time()
        self.origin_s = wall_s if origin_s is None else origin_s
        away_ns = round((wall_s - self.origin_s) * 1e9) - last_ns
        self._start_ns = last_ns + max(away_ns, 0)
        self._monotonic_ns = time.monotonic_ns()

    def now_ns(self) -> int:
        """Coordinator time now."""
        return self._start_ns + time.monotonic_ns() - self._monotonic_ns

    def time_ns(self, wall_s: float) -> int:
        """The coordinator time of a time by the calendar (Unix seconds), not before its zero."""
        return max(round((wall_s - self.origin_s) * 1e9), 0)

    def wall_s(self, time_ns: int) -> float:
        """Unix seconds of a coordinator time, for people; 0 for "not yet" (-1)."""
        return self.origin_s + time_ns / 1e9 if time_ns >= 0 else 0.0
