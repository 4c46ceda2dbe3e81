"""Units: integer microwatts, microjoules, nanoseconds inside; watts and seconds for people.

This is the only place where the two are converted. A cap is rounded down, so that a printed or
parsed figure never grants more than it says.
"""

from __future__ import annotations

import math

UW_PER_W = 1_000_000
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000


def uw_from_w(watts: float) -> int:
    """Watts to integer microwatts, rounded down (a cap must not grow by rounding)."""
    if not math.isfinite(watts):
        raise ValueError(f"power must be finite, got {watts} W")
    # A decimal such as 0.3 W is 299999.99... as a binary product: the guard keeps 300000.
    return math.floor(watts * UW_PER_W + 1e-6)


def w_from_uw(power_uw: int) -> float:
    """Microwatts to watts."""
    return power_uw / UW_PER_W


def ns_from_s(seconds: float) -> int:
    """Seconds to integer nanoseconds, rounded to nearest."""
    if not math.isfinite(seconds):
        raise ValueError(f"duration must be finite, got {seconds} s")
    return round(seconds * NS_PER_S)


def s_from_ns(duration_ns: int) -> float:
    """Nanoseconds to seconds."""
    return duration_ns / NS_PER_S


def j_from_uj(energy_uj: int) -> float:
    """Microjoules to joules."""
    return energy_uj / 1_000_000
