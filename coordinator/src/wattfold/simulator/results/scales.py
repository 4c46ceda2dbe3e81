"""Units for people: one unit for a whole row or axis, so that its numbers compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Quantity(StrEnum):
    """Quantity of a number, which determines its units."""

    TIME = "time"
    POWER = "power"
    ENERGY = "energy"
    SHARE = "share"
    RATIO = "ratio"
    COUNT = "count"
    COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A unit and its number of base units (s, W, J, 1)."""

    unit: str
    size: float

    def text(self, value: float) -> str:
        """Return a number in this unit to four digits, `-` for NaN."""
        return number(value / self.size)

    def label(self, title: str) -> str:
        """Return a title with the unit, as on an axis."""
        return f"{title}, {self.unit}" if self.unit else title


_SCALES: dict[Quantity, tuple[Scale, ...]] = {
    Quantity.TIME: (
        Scale(unit="d", size=86_400),
        Scale(unit="h", size=3_600),
        Scale(unit="min", size=60),
        Scale(unit="s", size=1),
        Scale(unit="ms", size=1e-3),
    ),
    Quantity.POWER: (
        Scale(unit="MW", size=1e6),
        Scale(unit="kW", size=1e3),
        Scale(unit="W", size=1),
    ),
    Quantity.ENERGY: (
        Scale(unit="TJ", size=1e12),
        Scale(unit="GJ", size=1e9),
        Scale(unit="MJ", size=1e6),
        Scale(unit="kJ", size=1e3),
        Scale(unit="J", size=1),
    ),
    Quantity.SHARE: (Scale(unit="%", size=0.01),),
    Quantity.RATIO: (Scale(unit="", size=1),),
    Quantity.COUNT: (Scale(unit="", size=1),),
    Quantity.COST: (Scale(unit="EUR", size=1),),
}
_ENOUGH = 3
"""For times, the next smaller unit is used if the largest value is below this number of units."""


def scale_for(quantity: Quantity, values: Iterable[float]) -> Scale:
    """Return the largest unit in which the largest value is at least one (three for times)."""
    scales = _SCALES[quantity]
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if most == 0:
        return next(scale for scale in scales if scale.size == 1 or len(scales) == 1)
    enough = _ENOUGH if quantity is Quantity.TIME else 1
    return next((scale for scale in scales if most >= enough * scale.size), scales[-1])


def common_time_scale(rows: Sequence[Sequence[float]]) -> Scale:
    """Return one unit for several rows of times: the unit of the median row."""
    most = [max(row) for row in (list(filter(math.isfinite, row)) for row in rows) if row]
    return scale_for(Quantity.TIME, sorted(most)[len(most) // 2 :][:1])


def number(value: float) -> str:
    """Return four digits with commas between thousands, integers from 1000 on; `-` for NaN."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    places = 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{places}f}" if size >= 1e-3 else f"{value:.1e}"


def short_number(value: float) -> str:
    """Return up to five characters below 999 billion, for plots: `<0.01`, `0.42`, `1.2k`."""
    size = abs(value)
    if not math.isfinite(value):
        return ""
    if size == 0:
        return "0"
    if size < 0.005:
        return "<0.01"
    if size < 0.995:
        return f"{value:.2f}"
    for limit, divisor, letter in ((999.5, 1, ""), (999.5e3, 1e3, "k"), (999.5e6, 1e6, "M")):
        if size < limit:
            part = value / divisor
            return f"{part:.1f}{letter}" if abs(part) < 9.95 else f"{part:.0f}{letter}"
    return f"{value / 1e9:.0f}G"
