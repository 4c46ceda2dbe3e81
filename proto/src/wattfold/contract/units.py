"""Units: integer microwatts, microjoules and nanoseconds inside; watts and seconds for people.

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
    """Convert watts to microwatts, rounded down (a cap must not grow by rounding)."""
    if not math.isfinite(watts):
        raise ValueError(f"power must be finite, got {watts} W")
    # A decimal such as 0.3 W becomes 299999.99... in binary; the guard keeps 300000.
    return math.floor(watts * UW_PER_W + 1e-6)


def w_from_uw(power_uw: int) -> float:
    """Convert microwatts to watts."""
    return power_uw / UW_PER_W


def ns_from_s(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded to nearest."""
    if not math.isfinite(seconds):
        raise ValueError(f"duration must be finite, got {seconds} s")
    return round(seconds * NS_PER_S)


def s_from_ns(duration_ns: int) -> float:
    """Convert nanoseconds to seconds."""
    return duration_ns / NS_PER_S


def j_from_uj(energy_uj: int) -> float:
    """Convert microjoules to joules."""
    return energy_uj / 1_000_000


def span_text(seconds: float) -> str:
    """Return a duration for people with a plausible precision: ``45 s``, ``12 min``, ``3.4 h``."""
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def eur_text(eur: float) -> str:
    """Return an amount of money for people: ``1.08 EUR``, or ``0.023 EUR`` if it is small."""
    if 0 < abs(eur) < 0.001:
        return "<0.001 EUR"
    return f"{eur:.3f} EUR" if 0 < abs(eur) < 0.1 else f"{eur:.2f} EUR"
