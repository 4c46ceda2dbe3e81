"""Fit of profiles to observations of running jobs, which are few and noisy at first.

A run at one size shows the speed at this size only; a few seconds at two sizes show mostly noise.
Fits to such data alone kept programs on one core for ever, because no later run got another core.
So a learnt profile starts from the default profile of an unknown program (`default_profile`). It
enters the fit as points at the observed speed with the weight of `PRIOR_S` seconds of observation.
Observations outweigh it in time. Until then unobserved sizes remain worth trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattfold.coordinator.models.fitting import FitResult, ProfilePoint, fit
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit, default_profile
from wattfold.coordinator.models.power_curve import PowerCurve
from wattfold.coordinator.models.seen_points import PRIOR_S, SeenPoint


def fit_learnt(
    seen: Sequence[SeenPoint],
    *,
    app: str,
    unit: SizeUnit,
    curve: PowerCurve,
    work: float,
    size_max: int,
) -> FitResult:
    """Fit a profile to observed runs of ``work`` units, together with the default profile.

    The residuals and the error refer to the observations. ``size_max`` is the maximum size that
    jobs of the program request.

    Raises:
        ValueError: no observations, no work, or a job that made no progress.
    """
    if not seen or not work > 0 or any(not point.rate > 0 for point in seen):
        raise ValueError(f"{len(seen)} points and {work:g} units of work determine no run time")
    points = [
        ProfilePoint(size=p.size, cap_w=p.cap_w, seconds=work / p.rate, weight=p.seconds)
        for p in seen
    ]
    assumed = _assumed(points, curve, max(size_max, *(p.size for p in seen)), unit)
    found = fit([*points, *assumed], app=app, unit=unit, curve=curve)
    own = found.residuals[: len(points)]
    weights = np.asarray([point.weight for point in points])
    error = float(np.sqrt(np.average(np.square(own), weights=weights)))
    return replace(found, residuals=own, rms_relative_error=error)


def _assumed(
    points: Sequence[ProfilePoint], curve: PowerCurve, size_max: int, unit: SizeUnit
) -> list[ProfilePoint]:
    """Return points of the default profile, at the observed speed."""
    shape = default_profile(curve, size_max, 1.0, unit=unit)
    level = shape.scaled(_level(points, shape))
    sizes = sorted({size_max, *(2**k for k in range(size_max.bit_length()))})
    places = [(size, cap) for size in sizes for cap in (level.p_low_w, level.p_high_w)]
    return [
        ProfilePoint(
            size=size,
            cap_w=cap_w,
            seconds=level.time_s(size, cap_w),
            weight=PRIOR_S / len(places),
        )
        for size, cap_w in places
    ]


def _level(points: Sequence[ProfilePoint], shape: PassProfile) -> float:
    """Return the factor that scales the times of a shape to the observed times, on average."""
    ratios = [np.log(p.seconds / shape.time_s(p.size, p.cap_w)) for p in points]
    return float(np.exp(np.average(ratios, weights=[point.weight for point in points])))
