"""Observed speeds of running jobs. Their fit is in another module, because it needs scipy."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_S = 60.0
"""Seconds of observation with the weight of the default profile of an unknown program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPoint:
    """Observed speed of jobs at a size and cap, and the time of observation.

    ``rate`` is in units of work of the program per second.
    """

    size: int
    cap_w: float
    rate: float
    seconds: float


def weight_of(observed_s: float) -> float:
    """Return the observed share of a learnt profile, 0..1; the rest is assumed."""
    return observed_s / (observed_s + PRIOR_S)
