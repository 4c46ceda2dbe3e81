"""Fit of the effect of lower GPU limits on an application to measured epoch times.

The fit minimises relative errors of times against the time at the maximum limit, from several fixed
starts. Five limits determine all four numbers of a `GpuCurve`. Three or four limits determine full
power and beta. The other two then have typical values: static power is `STATIC_SHARE` of the
maximum limit, and the knee is `KNEE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from wattfold.coordinator.models.fitting import Floats, best_of
from wattfold.coordinator.models.gpu_curve import KNEE, STATIC_SHARE, GpuCurve

LIMITS_MIN = 3
LIMITS_FOR_ALL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFit:
    """A curve, and the root mean square of its relative errors."""

    curve: GpuCurve
    rms_error: float


def fit_gpu_curve(seconds: Mapping[float, float]) -> GpuFit:
    """Fit a curve to seconds per epoch by limit in W.

    Raises ValueError for fewer than three limits, or for impossible times.
    """
    if len(seconds) < LIMITS_MIN:
        raise ValueError(f"{len(seconds)} limits: a curve needs {LIMITS_MIN} or more")
    if not all(limit > 0 and time > 0 for limit, time in seconds.items()):
        raise ValueError(f"limits and times must be above zero: {dict(seconds)}")
    most = max(seconds)
    limits = sorted(seconds)
    logs = np.log([seconds[limit] / seconds[most] for limit in limits])
    every = len(limits) >= LIMITS_FOR_ALL

    def curve_of(x: Floats) -> GpuCurve:
        full, beta, *rest = x.tolist()
        static, knee = rest if rest else (STATIC_SHARE / full, KNEE)
        full_w = full * most
        static_w = min(static, 0.95) * full_w
        return GpuCurve(static_w=static_w, full_w=full_w, knee=knee, beta=beta)

    def error(x: Floats) -> Floats:
        curve = curve_of(x)
        whole = curve.slowdown(most)
        times = [math.log(curve.slowdown(limit) / whole) for limit in limits]
        return np.asarray(times, dtype=np.float64) - logs

    # Full power over the maximum limit; beta; static power over full power; the knee.
    axes = [(0.3, 1.0, (0.7, 0.95)), (0.0, 1.0, (0.2, 0.5, 0.9))]
    axes += [(0.01, 0.9, (0.2,)), (0.3, 1.0, (0.65, 0.85))] if every else []
    low, high = (np.asarray([axis[side] for axis in axes]) for side in (0, 1))
    starts = [np.asarray(start) for start in product(*(axis[2] for axis in axes))]
    found = best_of(error, starts, low, high)
    rms = float(np.sqrt(np.mean(error(found) ** 2)))
    return GpuFit(curve=curve_of(found), rms_error=rms)
