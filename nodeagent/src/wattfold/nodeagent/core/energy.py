"""Energy from a counter that wraps, and mean power from energy."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S

POWER_WINDOW_NS = NS_PER_S
POWER_NS_MIN = NS_PER_S // 2
"""A mean over less says more about when the counter ticks than about power: counters advance in
steps, of a millisecond in hardware and of tens of milliseconds in emulated zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyMeter:
    """Energy since the first reading of a counter that wraps after ``range_uj``.

    Right as long as the counter is read at least once a wrap (minutes on real packages).
    """

    range_uj: int
    last_raw_uj: int | None = None
    total_uj: int = 0

    def after(self, raw_uj: int) -> EnergyMeter:
        """The meter after one more reading of the counter."""
        if self.last_raw_uj is None:
            step_uj = 0
        elif raw_uj >= self.last_raw_uj:
            step_uj = raw_uj - self.last_raw_uj
        else:
            step_uj = raw_uj - self.last_raw_uj + self.range_uj
        # A counter that was set back by more than its range has no sense: count nothing.
        step_uj = max(0, step_uj)
        return EnergyMeter(
            range_uj=self.range_uj, last_raw_uj=raw_uj, total_uj=self.total_uj + step_uj
        )


@dataclass(slots=True)
class PowerWindow:
    """Mean power over the last second, from readings of an energy that only grows."""

    _readings: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, at_ns: int, total_uj: int) -> None:
        """Takes one reading; the oldest one kept is the last that is a whole window old."""
        readings = self._readings
        readings.append((at_ns, total_uj))
        while len(readings) > 2 and at_ns - readings[1][0] >= POWER_WINDOW_NS:
            readings.popleft()

    def power_uw(self) -> int:
        """Mean power, microwatts; 0 until half a second has been seen."""
        if not self._readings:
            return 0
        (first_ns, first_uj), (last_ns, last_uj) = self._readings[0], self._readings[-1]
        elapsed_ns = last_ns - first_ns
        return mean_power_uw(last_uj - first_uj, elapsed_ns) if elapsed_ns >= POWER_NS_MIN else 0


def mean_power_uw(energy_uj: int, duration_ns: int) -> int:
    """Mean power of an energy over a time, microwatts; 0 for no time."""
    return 0 if duration_ns <= 0 else energy_uj * NS_PER_S // duration_ns


def shares(energy_uj: int, weights: dict[str, int]) -> dict[str, int]:
    """Splits an energy by weights (CPU time); without any weight nobody is charged."""
    total = sum(weights.values())
    if total <= 0:
        return dict.fromkeys(weights, 0)
    return {name: energy_uj * weight // total for name, weight in weights.items()}
