"""One emulated zone: a folder of files like the kernel's, and the state of its hardware.

Every write replaces the file, so that a reader never sees half a number.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import UW_PER_W
from wattfold.nodeagent.core.caps import quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRange:
    """Values that the hardware of one zone accepts. ``shown``: the minimum is in a file."""

    uw_min: int
    uw_max: int
    window_us: int
    energy_range_uj: int
    shown: bool = False


class EmulatedZone:
    """Creates the folder if it is missing. Its contents survive the agent."""

    def __init__(self, folder: Path, name: str, accepts: ZoneRange) -> None:
        self._folder = folder
        self._limit_path = folder / "constraint_0_power_limit_uw"
        self._accepts = accepts
        self._make(name)
        self._limit_uw = accepts.uw_max
        self._energy_uj: float = number(folder / "energy_uj") or 0

    def limit_uw(self) -> int:
        """Return the limit in force, after rounding and clipping the written value."""
        written = number(self._limit_path)
        # An unreadable file is a write in progress or invalid; hardware keeps its limit.
        if written is not None:
            held = min(self._accepts.uw_max, max(self._accepts.uw_min, quantised(written)))
            self._limit_uw = held
            if held != written:
                replace(self._limit_path, held)
        return self._limit_uw

    def advance(self, power_w: float, elapsed_s: float, until_ns: int) -> None:
        """Add the energy of a time to the counter, which wraps.

        ``until_ns`` is the end of that time, on the monotonic clock. The file of the counter
        carries it as its modification time: a busy node writes the file later, and power is energy
        divided by the time between the readings.
        """
        energy = self._energy_uj + power_w * elapsed_s * UW_PER_W
        self._energy_uj = energy % self._accepts.energy_range_uj
        replace(self._folder / "energy_uj", int(self._energy_uj), until_ns)

    def show(self, file: str, value: int | str) -> None:
        """Replace a read-only value."""
        replace(self._folder / file, value)

    def _make(self, name: str) -> None:
        folder, accepts = self._folder, self._accepts
        folder.mkdir(parents=True, exist_ok=True)
        replace(folder / "name", name)
        keep(folder / "enabled", 1)
        replace(folder / "max_energy_range_uj", accepts.energy_range_uj)
        replace(folder / "constraint_0_name", "long_term")
        keep(folder / "constraint_0_power_limit_uw", accepts.uw_max)
        replace(folder / "constraint_0_max_power_uw", accepts.uw_max)
        if accepts.shown:
            replace(folder / "constraint_0_min_power_uw", accepts.uw_min)
        replace(folder / "constraint_0_time_window_us", accepts.window_us)
        keep(folder / "energy_uj", 0)


def number(path: Path) -> int | None:
    """Return the number in a file; None if the file is missing or has no number."""
    try:
        with open(path, "rb", buffering=0) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def keep(path: Path, value: int) -> None:
    """Write a value unless the file has one."""
    if number(path) is None:
        replace(path, value)


def replace(path: Path, value: int | str, time_ns: int | None = None) -> None:
    """Replace a value. Its file carries ``time_ns`` of the monotonic clock (default: now).

    With calendar time, a reading could look hours old after a step of the calendar.
    """
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(f"{value}\n", encoding="ascii")
    stamp_ns = time.monotonic_ns() if time_ns is None else time_ns
    os.utime(temporary, ns=(stamp_ns, stamp_ns))
    temporary.rename(path)
