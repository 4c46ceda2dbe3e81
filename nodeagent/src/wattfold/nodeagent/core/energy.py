"""Energy from a counter that wraps, and mean power from energy."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.contract.plausible import energy_uj_max
from wattfold.contract.units import NS_PER_S

READINGS_KEPT = 128
"""More than ten seconds of samples at 10 Hz."""


class EnergyMeter(NamedTuple):
    """Energy since the first reading of a counter that wraps after ``range_uj``.

    It is correct if the counter is read at least once per wrap (minutes on real packages). A step
    above ``power_uw_max`` times the elapsed time is a reset, not a wrap, and counts as nothing.
    """

    range_uj: int
    power_uw_max: int
    last_raw_uj: int | None = None
    last_ns: int = 0
    total_uj: int = 0
    reset: bool = False
    """Whether the newest reading could not follow from the previous reading."""

    def after(self, raw_uj: int, time_ns: int, late_ns: int = 0) -> EnergyMeter:
        """Return the meter after a reading, taken at ``time_ns`` or up to ``late_ns`` earlier."""
        step_uj = raw_uj - (raw_uj if self.last_raw_uj is None else self.last_raw_uj)
        if step_uj < 0:
            step_uj += self.range_uj
        reset = not 0 <= step_uj <= energy_uj_max(self.power_uw_max, time_ns - self.last_ns)
        total_uj = self.total_uj + (0 if reset else step_uj)
        # By position: by name takes twice as long, and the meters are read ten times a second.
        return EnergyMeter(
            self.range_uj, self.power_uw_max, raw_uj, time_ns - late_ns, total_uj, reset
        )


class _Reading(NamedTuple):
    """A meter at ``time_ns``, or up to ``late_ns`` earlier."""

    time_ns: int
    total_uj: int
    late_ns: int


def _time_ns(reading: _Reading) -> int:
    return reading.time_ns


@dataclass(slots=True)
class PowerHistory:
    """Readings of one meter over the last seconds, for mean power over any part of them.

    It does not depend on the callers' intervals: two readings shortly after each other give no
    reliable power.
    """

    _readings: deque[_Reading] = field(default_factory=lambda: deque(maxlen=READINGS_KEPT))

    def add(self, time_ns: int, total_uj: int, late_ns: int = 0) -> None:
        """Add a reading. A reading for the same time as the last is ignored.

        On a busy node a reader may be delayed between the counter and the clock: the counter was
        read up to ``late_ns`` before ``time_ns``.
        """
        if not self._readings or time_ns > self._readings[-1].time_ns:
            self._readings.append(_Reading(time_ns, total_uj, late_ns))

    @property
    def last_ns(self) -> int:
        """The time of the newest reading, 0 without readings."""
        return self._readings[-1].time_ns if self._readings else 0

    def mean_uw(self, over_ns: int) -> int:
        """Return the mean power over about the last ``over_ns``; 0 before the second reading."""
        if len(self._readings) < 2:
            return 0
        last = self._readings[-1]
        older = bisect_left(self._readings, last.time_ns - over_ns, key=_time_ns)
        first = self._readings[older]
        if older and last.time_ns - first.time_ns <= over_ns // 2:
            first = self._readings[older - 1]
        return mean_power_uw(last.total_uj - first.total_uj, last.time_ns - first.time_ns)

    def certain_uw(self, over_ns: int, since_ns: int) -> int | None:
        """Return a lower bound of the mean power over the last ``over_ns`` or a little more.

        Returns None if no reading since ``since_ns`` is old enough: after a pause of the reader,
        the last two readings may be close together.
        """
        if not self._readings:
            return None
        last = self._readings[-1]
        older = bisect_right(self._readings, last.time_ns - over_ns, key=_time_ns)
        if not older:
            return None
        first = self._readings[older - 1]
        begin_ns = first.time_ns - first.late_ns
        if begin_ns < since_ns:
            return None
        return mean_power_uw(last.total_uj - first.total_uj, last.time_ns - begin_ns)


@dataclass(slots=True, kw_only=True)
class IdlePower:
    """Power of the idle packages: as configured, or else the minimum over a second without jobs.

    Without both it is 0, and all energy counts as used by the jobs.
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
        """Add the energy of a time. ``quiet``: no job was on the node during all of this time."""
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
    """Energy of a device without a counter, integrated from its power by the trapezoidal rule."""

    total_uj: int = 0
    _last: tuple[int, int] | None = None

    def after(self, power_uw: int, now_ns: int) -> int:
        """Add a reading. Returns the energy since the first reading, microjoules."""
        if self._last is not None:
            before_ns, before_uw = self._last
            self.total_uj += (before_uw + power_uw) * (now_ns - before_ns) // (2 * NS_PER_S)
        self._last = now_ns, power_uw
        return self.total_uj


def mean_power_uw(energy_uj: int, duration_ns: int) -> int:
    """Return the mean power of an energy over a time, microwatts; 0 for no time."""
    return 0 if duration_ns <= 0 else energy_uj * NS_PER_S // duration_ns


def shares(energy_uj: int, weights: dict[str, int]) -> dict[str, int]:
    """Split an energy by weights (CPU time). Without any weight, all shares are 0."""
    total = sum(weights.values())
    if total <= 0:
        return dict.fromkeys(weights, 0)
    return {name: energy_uj * weight // total for name, weight in weights.items()}
