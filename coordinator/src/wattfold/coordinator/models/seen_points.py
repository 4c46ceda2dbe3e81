"""What running jobs have shown of their speed. Apart from its fitting, which needs scipy."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_S = 60.0
"""Seconds of observation that weigh as much as what is assumed of an unknown program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPoint:
    """How fast jobs went at a size and cap, and for how long that was seen.

    ``rate`` in units of work of the program per second.
    """

    size: int
    cap_w: float
    rate: float
    seconds: float


def weight_of(observed_s: float) -> float:
    """The share of a learnt profile that is observed and not assumed, 0..1."""
    return observed_s / (observed_s + PRIOR_S)
