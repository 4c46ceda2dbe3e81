"""Clocks of a machine that tests set: the calendar apart from the monotonic clock."""

from __future__ import annotations

from wattfold.coordinator.adapters.clock import Sources

S = 1_000_000_000
STEPS_S = (-36_000, -1, 1, 3600, 36_000)


class Machine:
    """``unix_s`` is the true time at its boot, and what its calendar shows until it is set."""

    def __init__(self, unix_s: float = 1_792_890_000.0) -> None:
        self.calendar_ns = round(unix_s * S)
        self.monotonic_ns = 50 * S
        self.boot_id = "boot-1"

    @property
    def sources(self) -> Sources:
        return Sources(
            calendar_ns=lambda: self.calendar_ns,
            monotonic_ns=lambda: self.monotonic_ns,
            boot_id=self.boot_id,
        )

    @property
    def calendar_s(self) -> float:
        return self.calendar_ns / S

    def passes(self, seconds: float) -> None:
        """True time passes on both clocks."""
        self.calendar_ns += round(seconds * S)
        self.monotonic_ns += round(seconds * S)

    def set_calendar(self, by_s: float) -> None:
        self.calendar_ns += round(by_s * S)

    def reboot(self, off_s: float) -> None:
        self.passes(off_s)
        self.monotonic_ns, self.boot_id = 7 * S, "boot-2"
