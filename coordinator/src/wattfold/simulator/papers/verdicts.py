"""Rules that decide whether a published claim counts as reproduced, without manual judgement.

Every rule takes an interval over the seeds (95 %, paired for comparisons of policies) and returns a
verdict with its reason:

* **reproduced**: the paper's statement holds over the whole interval; a published number lies
  within its tolerance of the measured mean.
* **direction only**: the effect has the right sign, but another size, or the interval includes
  zero.
* **not reproduced**: all other results.
* **undecided**: cases are missing.

With one seed there is no interval, so the best verdict is *direction only*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wattfold.simulator.results.intervals import Interval

TOLERANCE = 0.25
"""Tolerance relative to a published effect, for runs on other jobs than the paper's."""


class Verdict(StrEnum):
    """Verdict on a claim."""

    REPRODUCED = "reproduced"
    DIRECTION = "direction only"
    NOT = "not reproduced"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement of a paper, with its source."""

    key: str
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A verdict and its reason."""

    verdict: Verdict
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A claim with its measurement."""

    claim: Claim
    measured: str
    verdict: Verdict
    why: str
    interval: Interval | None = None


def near(
    measured: Interval, published: float, neutral: float, tolerance: float = TOLERANCE
) -> Ruling:
    """Judge a published effect: the distance of a value from the neutral value (1 for a ratio)."""
    sign = 1.0 if published > neutral else -1.0
    effect = sign * (measured.mean - neutral)
    wanted = sign * (published - neutral)
    if effect <= 0:
        return Ruling(verdict=Verdict.NOT, why="the effect has the other sign")
    least = sign * ((measured.low if sign > 0 else measured.high) - neutral)
    if math.isnan(least):
        return Ruling(verdict=Verdict.DIRECTION, why="one seed: no interval")
    if least <= 0:
        return Ruling(
            verdict=Verdict.DIRECTION, why="right in the mean, but the interval includes no effect"
        )
    if abs(effect - wanted) <= tolerance * wanted:
        return Ruling(
            verdict=Verdict.REPRODUCED, why=f"within {tolerance:.0%} of the published effect"
        )
    size = "larger" if effect > wanted else "smaller"
    return Ruling(
        verdict=Verdict.DIRECTION,
        why=f"{size} than published by more than {tolerance:.0%}",
    )


def above(measured: Interval, neutral: float) -> Ruling:
    """Judge whether a value is above a neutral value."""
    if measured.mean <= neutral:
        return Ruling(verdict=Verdict.NOT, why="not so in the mean")
    if math.isnan(measured.low):
        return Ruling(verdict=Verdict.DIRECTION, why="one seed: no interval")
    if measured.low <= neutral:
        return Ruling(
            verdict=Verdict.DIRECTION, why="right in the mean, but the interval includes no effect"
        )
    return Ruling(verdict=Verdict.REPRODUCED, why="over the whole interval")


def at_most(measured: Interval, bound: float) -> Ruling:
    """Judge whether a value is within a bound."""
    if measured.mean > bound:
        return Ruling(verdict=Verdict.NOT, why="above the bound in the mean")
    if math.isnan(measured.high):
        return Ruling(verdict=Verdict.DIRECTION, why="one seed: no interval")
    if measured.high > bound:
        return Ruling(verdict=Verdict.DIRECTION, why="within in the mean, the interval is not")
    return Ruling(verdict=Verdict.REPRODUCED, why="over the whole interval")


def trend(whole: Interval, steps: Sequence[Interval], *, rises: bool) -> Ruling:
    """Judge whether a value rises (or falls) from the first value of a parameter to the last.

    ``whole`` is last minus first, ``steps`` each value minus the previous one. A step whose
    interval lies wholly on the wrong side breaks the trend; an uncertain step does not.
    """
    sign = 1.0 if rises else -1.0
    ends = sorted((sign * whole.low, sign * whole.high))
    ruling = above(
        Interval(mean=sign * whole.mean, low=ends[0], high=ends[1], count=whole.count), 0.0
    )
    against = sum(max(sign * step.low, sign * step.high) < 0 for step in steps)
    if ruling.verdict is Verdict.REPRODUCED and against:
        return Ruling(
            verdict=Verdict.DIRECTION,
            why=f"from end to end, but {against} of {len(steps)} steps go the other way",
        )
    if ruling.verdict is Verdict.REPRODUCED:
        return Ruling(verdict=Verdict.REPRODUCED, why="from end to end, and no step goes back")
    return ruling


def worst(rulings: Sequence[Ruling]) -> Ruling:
    """Return the worst ruling, for claims that must all hold. Raises ValueError without rulings."""
    order = (Verdict.UNDECIDED, Verdict.NOT, Verdict.DIRECTION, Verdict.REPRODUCED)
    return min(rulings, key=lambda ruling: order.index(ruling.verdict))


def interval_text(interval: Interval, form: str = "{:.2f}") -> str:
    """Return ``1.62 [1.41, 1.83]``; without ends for one seed."""
    mean = form.format(interval.mean)
    if math.isnan(interval.low):
        return mean
    return f"{mean} [{form.format(interval.low)}, {form.format(interval.high)}]"
