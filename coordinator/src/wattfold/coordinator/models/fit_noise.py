"""Whether a fit describes its points, or only passes between them.

Runs of one point (the same size and cap) differ by chance: that is the noise. A fit cannot be
better than it; one that is much worse does not describe the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

NOISE_FACTOR = 2.0
ERROR_MIN = 0.05
"""Relative errors below it are not worth a word."""
ERROR_UNKNOWN_NOISE = 0.15
"""Without repeated runs, errors above it are told."""

Measured = tuple[int, float, float]
"""Size, cap (W), seconds."""


def noise_of(points: Iterable[Measured]) -> float | None:
    """Relative spread of repeated runs: the pooled standard deviation of log times, None without.

    Size and cap say which runs are of one point.
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
    """What to say of a fit with this relative error; empty where it is as good as its points."""
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
