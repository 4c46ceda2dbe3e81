"""Price of electricity over time: a constant, a daily table, or a day-ahead series.

Times are calendar times in UTC, in seconds since 1970. Prices are steps and may be negative. A
price holds from its time on. The first price of a series also holds before it, and the last price
after it. Daily tables are in UTC, because summer time would shift local times.
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
"""kWh per MWh: exchanges quote EUR/MWh."""
LEAST_SAVING = 0.05
"""Smallest share of the cost of its energy for which a job waits."""


class PriceError(ValueError):
    """Invalid table or series of prices; the message gives the place and the reason."""


@dataclass(frozen=True)
class EnergyPrice:
    """Prices: ``eur_per_kwh[i]`` from ``times_s[i]`` on, ascending; ``daily``: each day."""

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
        """Return a constant price."""
        return cls((0.0,), (eur_per_kwh,))

    @property
    def changes(self) -> bool:
        """Whether the price varies."""
        return len(set(self.eur_per_kwh)) > 1

    def plus(self, eur_per_kwh: float) -> EnergyPrice:
        """Return the price plus a surcharge per kWh, such as grid fees and taxes."""
        more = tuple(price + eur_per_kwh for price in self.eur_per_kwh)
        return EnergyPrice(self.times_s, more, daily=self.daily)

    def at(self, time_s: float) -> float:
        """Return the price at a time, in EUR/kWh."""
        when = time_s % DAY_S if self.daily else time_s
        return float(self._prices[np.searchsorted(self._edges, when, side="right")])

    def mean(self, begin_s: float, end_s: float | Floats) -> Floats:
        """Return the mean price from a time to one or several later times, in EUR/kWh."""
        end = np.asarray(end_s, dtype=np.float64)
        span = np.maximum(end - begin_s, 1e-9)
        return np.asarray(self.integral(begin_s, begin_s + span) / span)

    @property
    def known_until_s(self) -> float:
        """Return the end of the last price of a series; infinite for a constant or a daily table.

        The last step of a series is as long as the step before it.
        """
        if self.daily or len(self.times_s) < 2:
            return math.inf
        return 2 * self.times_s[-1] - self.times_s[-2]

    def cheapest_begin_s(self, begin_s: float, latest_s: float, span_s: float) -> float:
        """Return the cheapest begin of ``span_s`` of constant power, up to ``latest_s``.

        It is the earliest such time, and ``begin_s`` itself if waiting saves less than
        `LEAST_SAVING` of the cost. No span may end after the last known price.
        """
        latest_s = min(latest_s, self.known_until_s - span_s)
        if latest_s <= begin_s or not self.changes or span_s <= 0:
            return begin_s
        edges = self._edges_between(begin_s, latest_s + span_s)
        # The cost is linear between the times at which one of the two ends meets a change.
        times = np.unique(np.concatenate(([begin_s, latest_s], edges, edges - span_s)))
        times = times[(times >= begin_s) & (times <= latest_s)]
        costs = self._until(times + span_s) - self._until(times)
        least = int(np.argmin(costs.round(6)))
        saved, now = float(costs[0] - costs[least]), abs(float(costs[0]))
        return float(times[least]) if saved > 1e-6 and saved >= LEAST_SAVING * now else begin_s

    def _edges_between(self, begin_s: float, end_s: float) -> Floats:
        """Return the times at which the price may change."""
        if not self.daily:
            return self._edges[(self._edges > begin_s) & (self._edges < end_s)]
        days = np.arange(begin_s // DAY_S, end_s // DAY_S + 1) * DAY_S
        return np.asarray((days[:, None] + self._edges[None, :]).ravel())

    def integral(self, begin_s: float, end_s: float | Floats) -> Floats:
        """Return the integral of the price from a time to one or several others, in EUR s / kWh.

        A constant power of P kW then costs P/3600 times the integral.
        """
        end = np.asarray(end_s, dtype=np.float64)
        return np.asarray(self._until(end) - self._until(np.float64(begin_s)))

    def _until(self, time_s: Floats | np.float64) -> Floats:
        """Return the integral from an arbitrary origin."""
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
        """Times at which the price changes. Before the first time of a day the last price holds."""
        return np.array(self.times_s if self.daily else self.times_s[1:], dtype=np.float64)

    @cached_property
    def _prices(self) -> Floats:
        """Prices before, between and after the edges: one more than there are edges."""
        prices = self.eur_per_kwh
        return np.array((prices[-1], *prices) if self.daily else prices, dtype=np.float64)

    @cached_property
    def _from(self) -> Floats:
        """Start of each piece. The first piece, which has no start, gets the first edge."""
        edges = self._edges
        return np.concatenate((edges[:1] if len(edges) else np.zeros(1), edges))

    @cached_property
    def _sums(self) -> Floats:
        """Integral up to the start of each piece."""
        spans = np.diff(self._from)
        return np.concatenate(([0.0], np.cumsum(self._prices[: len(spans)] * spans)))


def parse_table(text: str) -> EnergyPrice:
    """Parse a daily table such as ``0:00 0.12, 7:00 0.24, 22:00 0.12``, in EUR/kWh and UTC.

    Raises PriceError.
    """
    times, prices = [], []
    for entry in (part.strip() for part in text.split(",")):
        clock, _, price = entry.partition(" ")
        times.append(_clock_s(clock, entry))
        prices.append(_number(price, entry))
    return EnergyPrice(tuple(times), tuple(prices), daily=True)


def parse_series(text: str) -> EnergyPrice:
    """Parse a series of prices in EUR/MWh with a line per step: ``2024-05-01T00:00Z,90.1``.

    Steps have any length, such as 15 minutes or an hour; times without Z are UTC too. If a price is
    missing or ``null``, the previous price holds. Empty lines and a header line are skipped. Raises
    PriceError.
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
        if not plain[:1].isdigit():
            raise ValueError  # numpy accepts "now" and "today" too, and reads the clock
        return float(np.datetime64(plain, "s").astype(np.int64))
    except ValueError:
        raise PriceError(
            f"line {number}: {stamp!r} is not a time such as 2024-05-01T00:00Z"
        ) from None
