"""Check whether a fit describes its points as well as their noise allows.

Repeated runs at the same size and cap differ by chance: this is the noise. The error of a fit
cannot be below it. A fit with a much larger error does not describe the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

NOISE_FACTOR = 2.0
ERROR_MIN = 0.05
"""Smaller relative errors give no warning."""
ERROR_UNKNOWN_NOISE = 0.15
"""Without repeated runs, larger errors give a warning."""

Measured = tuple[int, float, float]
"""Size, cap (W), seconds."""


def noise_of(points: Iterable[Measured]) -> float | None:
    """Return the relative noise of repeated runs; None = there are no repeated runs.

    It is the pooled standard deviation of log times. Runs with equal size and cap are repeated
    runs.
    """
    groups: dict[tuple[int, float], list[float]] = {}
    for size, cap_w, seconds in points:
        groups.setdefault((size, round(cap_w, 3)), []).append(math.log(seconds))
    squares, freedom = 0.0, 0
    for logs in groups.values():
        mean = math.fsum(logs) / len(logs)
        squares += math.fsum((value - mean) ** 2 for value in logs)
        freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else None


def fit_warning(points: Sequence[Measured], rms_error: float) -> str:
    """Return a warning about a fit with this relative error, or an empty string."""
    noise = noise_of(points)
    if noise is None:
        if rms_error <= ERROR_UNKNOWN_NOISE:
            return ""
        return (
            f"the fit is off by {rms_error:.1%}, and no point was run twice; --repeat 3 "
            "separates noise from a program that the model does not describe"
        )
    if rms_error <= max(NOISE_FACTOR * noise, ERROR_MIN):
        return ""
    return (
        f"the fit is off by {rms_error:.1%}, while runs of one point differ by {noise:.1%}: the "
        "model does not describe this program"
    )
