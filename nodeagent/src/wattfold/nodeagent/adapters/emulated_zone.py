"""One emulated zone: a folder of files as the kernel shows them, and what its hardware keeps.

Every write replaces the file, so that a reader never sees half a number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import UW_PER_W
from wattfold.nodeagent.core.caps import quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneRange:
    """What the hardware of one zone accepts and shows. ``shown``: the minimum is in a file."""

    uw_min: int
    uw_max: int
    window_us: int
    energy_range_uj: int
    shown: bool = False


class EmulatedZone:
    """Makes the folder where it is not there; what is in it survives the agent."""

    def __init__(self, folder: Path, name: str, accepts: ZoneRange) -> None:
        self._folder = folder
        self._accepts = accepts
        self._make(name)
        self._limit_uw = accepts.uw_max
        self._energy_uj: float = number(folder / "energy_uj") or 0

    def limit_uw(self) -> int:
        """The limit in force, after rounding and clipping what was written."""
        path = self._folder / "constraint_0_power_limit_uw"
        written = number(path)
        # An unreadable file is a write in progress or nonsense: hardware keeps what it had.
        if written is not None:
            held = min(self._accepts.uw_max, max(self._accepts.uw_min, quantised(written)))
            self._limit_uw = held
            if held != written:
                replace(path, held)
        return self._limit_uw

    def advance(self, power_w: float, elapsed_s: float, until_ns: int) -> None:
        """Adds the energy of a time to the counter, which wraps.

        ``until_ns``: when that time ended, by the clock of files. The counter's file carries it: on
        a busy node it is written later, and power is energy by the time it took.
        """
        energy = self._energy_uj + power_w * elapsed_s * UW_PER_W
        self._energy_uj = energy % self._accepts.energy_range_uj
        replace(self._folder / "energy_uj", int(self._energy_uj), until_ns)

    def show(self, file: str, value: int | str) -> None:
        """Replaces a value that is only read."""
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
    """What a file says; None where it is none, or says no number."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def keep(path: Path, value: int) -> None:
    """Writes a value unless there is one."""
    if number(path) is None:
        replace(path, value)


def replace(path: Path, value: int | str, time_ns: int | None = None) -> None:
    """Writes a value in the place of the one before; its file is of that time, else of now."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(f"{value}\n", encoding="ascii")
    if time_ns is not None:
        os.utime(temporary, ns=(time_ns, time_ns))
    temporary.rename(path)
