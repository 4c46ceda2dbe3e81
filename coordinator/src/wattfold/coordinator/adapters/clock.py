"""Coordinator time, its relation to the calendar, and steps of the calendar.

Coordinator time is the monotonic clock of this machine in nanoseconds, continued over restarts. It
measures durations: leases, time limits and waiting times. After a restart within one boot it
continues by the monotonic clock, so a step of the calendar during the stop changes no duration.
After a reboot, or on another machine, only the calendar shows how long the coordinator was away.
`Clock.gap_ns` is this time, and the core corrects it by the run times that agents report.

Announced budgets, reservations, due dates and begin times are calendar times. `CalendarWatch`
compares both clocks every second and posts each step as an event. The core then derives these times
again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model import events as ev

FIRST_NS = 10 * 366 * 86_400 * NS_PER_S
"""Coordinator time at the start of a new journal. Times before the journal stay positive, so a
calendar that is set forward by less than ten years moves no due date below zero."""
AHEAD_S = 10 * 366 * 86_400.0
"""A calendar time that is asked for lies at most so far ahead."""
STEP_NS = 100_000_000
"""Smaller differences of the two clocks are no step. They add up until they are one."""
LOOK_S = 1.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_READ_TRIES = 5


@dataclass(frozen=True, slots=True)
class Sources:
    """The clocks of this machine in nanoseconds. The monotonic clock counts within a boot."""

    calendar_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    boot_id: str = ""

    def calendar_ahead_ns(self) -> int:
        """Return calendar minus monotonic clock, from the quickest of several readings."""
        readings = []
        for _ in range(_READ_TRIES):
            before_ns = self.monotonic_ns()
            calendar_ns = self.calendar_ns()
            after_ns = self.monotonic_ns()
            readings.append((after_ns - before_ns, calendar_ns - (before_ns + after_ns) // 2))
        return min(readings)[1]


MACHINE = Sources()


class Clock:
    """Coordinator time. ``origin_s`` is the calendar time (Unix seconds) of its zero.

    ``last_ns`` is the last time in the journal. ``anchor`` is the value of `Clock.anchor` in the
    run that wrote it. ``gap_ns`` is the time away by the calendar alone; -1 = the monotonic clock
    counted it.
    """

    def __init__(
        self,
        origin_s: float | None = None,
        last_ns: int = FIRST_NS,
        anchor: str = "",
        sources: Sources = MACHINE,
    ) -> None:
        self._sources = sources
        monotonic_ns, self.gap_ns = sources.monotonic_ns(), -1
        boot_id, _, ahead = anchor.partition(" ")
        if boot_id and boot_id == sources.boot_id:
            start_ns = max(monotonic_ns + int(ahead), last_ns)
        elif origin_s is None:
            start_ns = last_ns
        else:
            calendar_ns = sources.calendar_ahead_ns() + monotonic_ns
            self.gap_ns = max(calendar_ns - round(origin_s * NS_PER_S) - last_ns, 0)
            start_ns = last_ns + self.gap_ns
        self._ahead_ns = start_ns - monotonic_ns
        if origin_s is None:
            self._origin_ns = sources.calendar_ahead_ns() - self._ahead_ns
        else:
            self._origin_ns = round(origin_s * NS_PER_S)

    @property
    def origin_s(self) -> float:
        """Calendar time of the zero by the current setting of the calendar, in Unix seconds."""
        return self._origin_ns / NS_PER_S

    @property
    def anchor(self) -> str:
        """Boot ID, and coordinator time minus the monotonic clock, for the next start."""
        return f"{self._sources.boot_id} {self._ahead_ns}"

    def now_ns(self) -> int:
        """Return the current coordinator time."""
        return self._ahead_ns + self._sources.monotonic_ns()

    def take_step_ns(self) -> int:
        """Return by how much the calendar was set since the last call (back: below 0); 0 = not."""
        step_ns = self._sources.calendar_ahead_ns() - self._ahead_ns - self._origin_ns
        if abs(step_ns) < STEP_NS:
            return 0
        self._origin_ns += step_ns
        return step_ns

    def time_ns(self, wall_s: float) -> int:
        """Return the coordinator time of a calendar time (Unix seconds), at least zero."""
        return max(round(wall_s * NS_PER_S) - self._origin_ns, 0)

    def wall_s(self, time_ns: int) -> float:
        """Return the Unix seconds of a coordinator time, for people; 0 for "not yet" (-1)."""
        return (self._origin_ns + time_ns) / NS_PER_S if time_ns >= 0 else 0.0


def this_boot() -> Sources:
    """Return the clocks of this machine. Without a boot ID, only the calendar counts time away."""
    try:
        return Sources(boot_id=_BOOT_ID.read_text(encoding="ascii").strip())
    except OSError:
        return MACHINE


class CalendarWatch:
    """Compares the two clocks every second and posts each step of the calendar."""

    def __init__(self, clock: Clock, post: Callable[[ev.Event], None]) -> None:
        self._clock = clock
        self._post = post
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin in the running loop."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """Stop the comparison."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Post a step if there was one."""
        step_ns = self._clock.take_step_ns()
        if step_ns:
            self._post(ev.CalendarStepped(by_ns=step_ns))

    def _look(self) -> None:
        self.look()
        self.start()
