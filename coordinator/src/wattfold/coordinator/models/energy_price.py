"""What a kilowatt-hour costs and when: one price, a table of the day, or a day-ahead series.

Times are seconds of a calendar that counts from 1970 in UTC. Prices are steps, may be below zero,
and hold from their time on: the first of a series before it too, the last of it after it. Tables
of the day are in UTC, as summer time would move what is only told by the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAY_S = 86_400.0
MWH = 1000.0
"""kWh in one: exchanges quote EUR/MWh."""


class PriceError(ValueError):
    """A table or series of prices that cannot be read; the message says where and why."""


@dataclass(frozen=True)
class EnergyPrice:
    """Steps: ``eur_per_kwh[i]`` from ``times_s[i]`` on, times growing; ``daily``: of every day."""

    times_s: tuple[float, ...] = (0.0,)
    eur_per_kwh: tuple[float, ...] = (0.0,)
    daily: bool = False

    def __post_init__(self) -> None:
        times, prices = self.times_s, self.eur_per_kwh
        if not times or len(times) != len(prices):
            raise PriceError(f"{len(times)} times and {len(prices)} prices")
        if any(later <= one for one, later in pairwise(times)):
            raise PriceError("times of prices must grow")
        if not all(map(math.isfinite, (*times, *prices))):
            raise PriceError("times and prices must be finite numbers")
        if self.daily and not (times[0] >= 0 and times[-1] < DAY_S):
            raise PriceError("times of a day are within 00:00..23:59")

    @classmethod
    def constant(cls, eur_per_kwh: float) -> EnergyPrice:
        """One price at all times."""
        return cls((0.0,), (eur_per_kwh,))

    @property
    def changes(self) -> bool:
        """Whether it is not the same at all times."""
        return len(set(self.eur_per_kwh)) > 1

    def plus(self, eur_per_kwh: float) -> EnergyPrice:
        """With what a site pays beside it for every kWh: grid, taxes."""
        more = tuple(price + eur_per_kwh for price in self.eur_per_kwh)
        return EnergyPrice(self.times_s, more, daily=self.daily)

    def at(self, time_s: float) -> float:
        """EUR/kWh at a time."""
        when = time_s % DAY_S if self.daily else time_s
        return float(self._prices[np.searchsorted(self._edges, when, side="right")])

    def mean(self, begin_s: float, end_s: float | Floats) -> Floats:
        """The mean from a time to one or several later ones, EUR/kWh."""
        end = np.asarray(end_s, dtype=np.float64)
        span = np.maximum(end - begin_s, 1e-9)
        return np.asarray(self.integral(begin_s, begin_s + span) / span)

    def integral(self, begin_s: float, end_s: float | Floats) -> Floats:
        """The price integrated from a time to one or several others, EUR s / kWh.

        A constant draw of P kW then costs P/3600 of it.
        """
        end = np.asarray(end_s, dtype=np.float64)
        return np.asarray(self._until(end) - self._until(np.float64(begin_s)))

    def _until(self, time_s: Floats | np.float64) -> Floats:
        """The integral from some zero."""
        if not self.daily:
            return self._steps(np.asarray(time_s))
        days, rest = np.divmod(np.asarray(time_s), DAY_S)
        whole = float(self._steps(np.asarray(DAY_S)) - self._steps(np.asarray(0.0)))
        return np.asarray(days * whole + self._steps(rest) - self._steps(np.asarray(0.0)))

    def _steps(self, time_s: Floats) -> Floats:
        at = np.searchsorted(self._edges, time_s, side="right")
        return np.asarray(self._sums[at] + self._prices[at] * (time_s - self._from[at]))

    @cached_property
    def _edges(self) -> Floats:
        """Times at which it changes; before the first of a day the last one holds."""
        return np.array(self.times_s if self.daily else self.times_s[1:], dtype=np.float64)

    @cached_property
    def _prices(self) -> Floats:
        """One more than edges: before, between and after them."""
        prices = self.eur_per_kwh
        return np.array((prices[-1], *prices) if self.daily else prices, dtype=np.float64)

    @cached_property
    def _from(self) -> Floats:
        """Where each piece begins; the first one at the first edge, as it has no beginning."""
        edges = self._edges
        return np.concatenate((edges[:1] if len(edges) else np.zeros(1), edges))

    @cached_property
    def _sums(self) -> Floats:
        """The integral up to there."""
        spans = np.diff(self._from)
        return np.concatenate(([0.0], np.cumsum(self._prices[: len(spans)] * spans)))


def parse_table(text: str) -> EnergyPrice:
    """A table of the day such as ``0:00 0.12, 7:00 0.24, 22:00 0.12``, EUR/kWh, UTC.

    Raises PriceError.
    """
    times, prices = [], []
    for entry in (part.strip() for part in text.split(",")):
        clock, _, price = entry.partition(" ")
        times.append(_clock_s(clock, entry))
        prices.append(_number(price, entry))
    return EnergyPrice(tuple(times), tuple(prices), daily=True)


def parse_series(text: str) -> EnergyPrice:
    """A series of prices in EUR/MWh: a line for each step, ``2024-05-01T00:00Z,90.1``.

    Steps are of any length, 15 minutes or an hour; times without Z are UTC too. A price that is
    left out or ``null`` is not known: the one before holds on. Empty lines, and a first line of
    names, are passed over. Raises PriceError.
    """
    times: list[float] = []
    prices: list[float] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stamp, _, price = (part.strip() for part in line.partition(","))
        if not stamp or (number == 1 and not stamp[:1].isdigit()):
            continue
        time_s = _stamp_s(stamp, number)
        if price.lower() in ("", "null", "nan", "n/e", "-"):
            continue
        times.append(time_s)
        prices.append(_number(price, f"line {number}") / MWH)
    if not times:
        raise PriceError("no price found; a line is 2024-05-01T00:00Z,90.1 (EUR/MWh)")
    return EnergyPrice(tuple(times), tuple(prices))


def _clock_s(clock: str, entry: str) -> float:
    hour, _, minute = clock.partition(":")
    if not (hour.isdigit() and (minute or "0").isdigit()):
        raise PriceError(f"{entry!r}: expected a time of day and a price, such as 7:00 0.24")
    if int(hour) > 23 or int(minute or 0) > 59:
        raise PriceError(f"{entry!r}: times of a day are within 0:00..23:59")
    return int(hour) * 3600.0 + int(minute or 0) * 60.0


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PriceError(f"{where}: {text.strip()!r} is not a price") from None


def _stamp_s(stamp: str, number: int) -> float:
    plain = stamp.removesuffix("Z").removesuffix("+00:00")
    try:
        return float(np.datetime64(plain, "s").astype(np.int64))
    except ValueError:
        raise PriceError(
            f"line {number}: {stamp!r} is not a time such as 2024-05-01T00:00Z"
        ) from None
