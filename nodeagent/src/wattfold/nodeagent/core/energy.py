"""Energy from a counter that wraps, and mean power from energy."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wattfold.contract.units import NS_PER_S

READINGS_KEPT = 128
"""More than ten seconds of samples at 10 Hz."""


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


@dataclass(frozen=True, slots=True)
class _Reading:
    """A meter at ``time_ns``, or up to ``late_ns`` earlier."""

    time_ns: int
    total_uj: int
    late_ns: int = 0


@dataclass(slots=True)
class PowerHistory:
    """Readings of one meter over the last seconds, for mean power over any of them.

    Kept apart from who asks how often: two readings a moment apart say nothing of power.
    """

    _readings: deque[_Reading] = field(default_factory=lambda: deque(maxlen=READINGS_KEPT))

    def add(self, time_ns: int, total_uj: int, late_ns: int = 0) -> None:
        """Takes a reading; one for the same time as the last counts as the same.

        On a busy node a reader may be kept waiting between the counter and the clock: the counter
        was read up to ``late_ns`` before ``time_ns``.
        """
        if not self._readings or time_ns > self._readings[-1].time_ns:
            self._readings.append(_Reading(time_ns, total_uj, late_ns))

    @property
    def last_ns(self) -> int:
        """The time of the newest reading, 0 without one."""
        return self._readings[-1].time_ns if self._readings else 0

    def mean_uw(self, over_ns: int) -> int:
        """Mean power over about the last ``over_ns``; 0 before there are two readings."""
        if len(self._readings) < 2:
            return 0
        last = self._readings[-1]
        older = [r for r in self._readings if r.time_ns < last.time_ns - over_ns]
        first = self._readings[len(older)]
        if older and last.time_ns - first.time_ns <= over_ns // 2:
            first = older[-1]
        return mean_power_uw(last.total_uj - first.total_uj, last.time_ns - first.time_ns)

    def certain_uw(self, over_ns: int, since_ns: int) -> int | None:
        """The least that the mean power was over the last ``over_ns`` or a little more.

        None where no reading since a time is as old: after a stop of the reader the last two may be
        a moment apart.
        """
        if not self._readings:
            return None
        last = self._readings[-1]
        for first in reversed(self._readings):
            if first.time_ns <= last.time_ns - over_ns:
                begin_ns = first.time_ns - first.late_ns
                if begin_ns < since_ns:
                    return None
                return mean_power_uw(last.total_uj - first.total_uj, last.time_ns - begin_ns)
        return None


@dataclass(slots=True, kw_only=True)
class IdlePower:
    """Power of the idle packages: as configured, else the least seen for a second without jobs.

    Without either it is 0: then all energy counts as used by the jobs.
    """

    known_uw: int = 0
    _least_uw: int = 0
    _quiet_ns: int = 0
    _quiet_uj: int = 0

    @property
    def power_uw(self) -> int:
        """Idle power of all packages."""
        return self.known_uw or self._least_uw

    def observe(self, energy_uj: int, duration_ns: int, *, quiet: bool) -> None:
        """Takes the energy of a time, ``quiet`` when no job was there from its begin to its end."""
        if not quiet:
            self._quiet_ns = self._quiet_uj = 0
            return
        self._quiet_ns += duration_ns
        self._quiet_uj += energy_uj
        if self._quiet_ns >= NS_PER_S:
            mean_uw = mean_power_uw(self._quiet_uj, self._quiet_ns)
            self._least_uw = min(mean_uw, self._least_uw or mean_uw)
            self._quiet_ns = self._quiet_uj = 0


@dataclass(slots=True, kw_only=True)
class PowerSum:
    """Energy of a device without a counter, added up from its power by the trapezoidal rule."""

    total_uj: int = 0
    _last: tuple[int, int] | None = None

    def after(self, power_uw: int, now_ns: int) -> int:
        """The energy since the first reading, microjoules, after one more."""
        if self._last is not None:
            before_ns, before_uw = self._last
            self.total_uj += (before_uw + power_uw) * (now_ns - before_ns) // (2 * NS_PER_S)
        self._last = now_ns, power_uw
        return self.total_uj


def mean_power_uw(energy_uj: int, duration_ns: int) -> int:
    """Mean power of an energy over a time, microwatts; 0 for no time."""
    return 0 if duration_ns <= 0 else energy_uj * NS_PER_S // duration_ns


def shares(energy_uj: int, weights: dict[str, int]) -> dict[str, int]:
    """Splits an energy by weights (CPU time); without any weight nobody is charged."""
    total = sum(weights.values())
    if total <= 0:
        return dict.fromkeys(weights, 0)
    return {name: energy_uj * weight // total for name, weight in weights.items()}
