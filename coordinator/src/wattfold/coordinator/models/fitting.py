"""Fit of a PASS profile to measured points by regression (PARM, SC14, section V).

The fit minimises relative errors (`scipy.optimize.least_squares` over log times) from several fixed
starting points, so that the same points always give the same result. First it selects the
parameters that the points determine. The other parameters keep stated defaults, listed in the
notes:

* T1: always. With a single size, no other parameter of the scaling.
* A and sigma: both from four different sizes on. With two or three sizes only A; sigma keeps its
  default.
* beta: needs two caps with different frequencies.
* a, b, c, f_low, f_high: from the node's power curve, or else fitted to measured (frequency, power)
  points. Without either, frequencies are relative. Two numbers then describe the shape of the curve
  between the lowest and the highest cap. They are fitted from five caps on; with fewer caps they
  keep stated defaults.

The range [p_low, p_high] is narrowed to the caps that still change the speed, if the points show
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wattfold.coordinator.models.pass_model import DEFAULT_SIGMA, PassProfile, SizeUnit
from wattfold.coordinator.models.power_curve import PowerCurve, cubic_frequency_ghz
from wattfold.coordinator.models.scaling import scaled_times_s

Floats = NDArray[np.float64]

BETA_MAX = 0.95
PARALLELISM_FACTOR_MAX = 64.0
STATIC_SHARE = 0.4
"""Static power over the lowest cap if it was not measured: 13-14 W of 30-32 W in the paper."""
LINEAR_SHARE = 0.6
"""Share of the linear term in the dynamic power at the highest frequency if not measured."""
KNEE_SHARE = 0.9
"""A knee of Eq. 9 and 10 below this share of the maximum size counts as observed."""
SATURATED = 0.01
"""A higher cap that saves a smaller share of the time does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePoint:
    """A measurement: the run time at a size and a cap per package."""

    size: int
    cap_w: float
    seconds: float
    power_w: float = 0.0
    """Mean power of a package during the run, in W; 0 = not measured."""
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1 or not (self.cap_w > 0 and self.seconds > 0 and self.weight > 0):
            raise ValueError(f"not a measurement: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyPoint:
    """Measured package power at a frequency."""

    f_ghz: float
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """A fitted profile and its errors."""

    profile: PassProfile
    rms_relative_error: float
    residuals: tuple[float, ...]
    """``fitted / measured - 1`` of each point, in the given order."""
    notes: tuple[str, ...]
    """Parameters that the points do not determine, and the values used instead."""


def fit(
    points: Sequence[ProfilePoint],
    *,
    app: str,
    unit: SizeUnit,
    curve: PowerCurve | None = None,
    frequencies: Sequence[FrequencyPoint] = (),
) -> FitResult:
    """Fit a profile to run times.

    Args:
        points: at least one. Repeated measurements of a point are allowed.
        app, unit: copied into the profile.
        curve: the node's power curve, if known.
        frequencies: measured powers at frequencies, used if there is no curve.

    Raises:
        ValueError: no points.
    """
    if not points:
        raise ValueError("a fit needs at least one measured point")
    notes: list[str] = []
    if curve is None and len({point.f_ghz for point in frequencies}) >= 3:
        curve = fit_curve(frequencies)
    known = _narrowed(curve or _cap_curve(points), points, notes)
    plan = _plan(points, known, curve is None, notes)
    profile = _least_error(points, plan, app, unit)
    if plan.sigma and profile.average_parallelism >= KNEE_SHARE * plan.size_max:
        notes.append("no size beyond the average parallelism: only sigma / A is certain")
    residuals = _residuals(profile, points)
    return FitResult(
        profile=profile,
        rms_relative_error=float(np.sqrt(np.mean(residuals**2))),
        residuals=tuple(residuals.tolist()),
        notes=tuple(notes),
    )


def fit_curve(points: Sequence[FrequencyPoint]) -> PowerCurve:
    """Fit Eq. 18 to measured powers, between the lowest and the highest measured frequency.

    Raises:
        ValueError: fewer than three different frequencies.
    """
    f = np.asarray([point.f_ghz for point in points], dtype=np.float64)
    p = np.asarray([point.power_w for point in points], dtype=np.float64)
    if np.unique(f).size < 3:
        raise ValueError("a power curve needs three distinct frequencies")
    terms = np.stack([f**3, f, np.ones_like(f)], axis=1)

    def error(x: Floats) -> Floats:
        return np.asarray((terms @ x) / p - 1.0, dtype=np.float64)

    start = np.maximum(np.linalg.lstsq(terms, p, rcond=None)[0], (1e-3, 1e-3, 1e-3))
    found = least_squares(error, start, bounds=([1e-6, 0.0, 0.0], [np.inf, np.inf, np.inf])).x
    return PowerCurve(
        a=float(found[0]),
        b=float(found[1]),
        c=float(found[2]),
        f_low_ghz=float(f.min()),
        f_high_ghz=float(f.max()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Free parameters of a fit, and the curve and size that determine the others."""

    curve: PowerCurve
    size_max: int
    parallelism: bool
    sigma: bool
    beta: bool
    shape: bool


def _plan(
    points: Sequence[ProfilePoint], curve: PowerCurve, guessed: bool, notes: list[str]
) -> _Plan:
    sizes = {point.size for point in points}
    speeds = {round(curve.frequency_ghz(point.cap_w), 6) for point in points}
    if len(sizes) < 2:
        notes.append(f"one size: average parallelism is set to it, sigma to {DEFAULT_SIGMA}")
    elif len(sizes) < 4:
        notes.append(f"{len(sizes)} sizes: sigma is set to {DEFAULT_SIGMA}")
    if len(speeds) < 2:
        beta = _default_beta(curve)
        notes.append(f"one frequency: beta is set to {beta:.3f}, half of its bound")
    shape = guessed and len(speeds) >= 5
    if guessed:
        notes.append(
            "no power curve and no measured frequencies: frequencies are relative to the one at "
            "the highest cap"
        )
    if guessed and not shape:
        notes.append(
            f"{len(speeds)} frequencies: static power is set to {STATIC_SHARE:.0%} of the "
            f"lowest cap, the linear term to {LINEAR_SHARE:.0%} of the rest"
        )
    return _Plan(
        curve=curve,
        size_max=max(sizes),
        parallelism=len(sizes) >= 2,
        sigma=len(sizes) >= 4,
        beta=len(speeds) >= 2,
        shape=shape,
    )


def _default_beta(curve: PowerCurve) -> float:
    return 0.5 * (1.0 - curve.f_low_ghz / curve.f_high_ghz)


def _profile_of(x: Floats, plan: _Plan, app: str, unit: SizeUnit) -> PassProfile:
    """Return the profile of a vector of the plan's free parameters, in the order of `_box`."""
    values = iter(x.tolist())
    t1_s = math.exp(next(values))
    parallelism = math.exp(next(values)) if plan.parallelism else float(plan.size_max)
    sigma = next(values) if plan.sigma else DEFAULT_SIGMA
    beta = next(values) if plan.beta else _default_beta(plan.curve)
    curve = plan.curve
    if plan.shape:
        curve = _relative_curve(curve.p_low_w, curve.p_high_w, next(values), next(values))
    return PassProfile.of_curve(
        curve,
        app=app,
        unit=unit,
        t1_s=t1_s,
        average_parallelism=parallelism,
        sigma=sigma,
        beta=beta,
    )


def _least_error(
    points: Sequence[ProfilePoint], plan: _Plan, app: str, unit: SizeUnit
) -> PassProfile:
    """Return the best fit of several starts."""
    sizes = np.asarray([point.size for point in points], dtype=np.float64)
    caps = np.asarray([point.cap_w for point in points], dtype=np.float64)
    seconds = np.asarray([point.seconds for point in points], dtype=np.float64)
    weights = np.asarray([point.weight for point in points], dtype=np.float64)
    weights = np.sqrt(weights / weights.mean())

    def error(x: Floats) -> Floats:
        profile = _profile_of(x, plan, app, unit)
        scaled = scaled_times_s(profile.t1_s, profile.average_parallelism, profile.sigma, sizes)
        times = scaled * profile.slowdowns(caps)
        return np.asarray(weights * (np.log(times) - np.log(seconds)), dtype=np.float64)

    # T1 that the measurements give with perfect scaling.
    low, high, starts = _box(plan, float(np.exp(np.mean(np.log(seconds * sizes)))))
    return _profile_of(best_of(error, starts, low, high), plan, app, unit)


def _box(plan: _Plan, work_s: float) -> tuple[Floats, Floats, list[Floats]]:
    """Return bounds and starts of the free parameters: log T1, log A, sigma, beta, shape."""
    size_max = plan.size_max
    log_t1 = math.log(work_s)
    axes: list[tuple[float, float, tuple[float, ...]]] = [(log_t1 - 20.0, log_t1 + 20.0, (log_t1,))]
    if plan.parallelism:
        # An A many times the maximum size is indistinguishable from perfect scaling.
        shares = (0.2, 0.5, 1.0, 4.0)
        logs = tuple(math.log(max(1.0, size_max * share)) for share in shares)
        axes.append((0.0, math.log(PARALLELISM_FACTOR_MAX * size_max), logs))
    if plan.sigma:
        axes.append((0.0, 1.0, (0.15, 0.5, 0.85)))
    if plan.beta:
        axes.append((0.0, BETA_MAX, (0.2,)))
    if plan.shape:
        axes.append((0.05, 0.95, (STATIC_SHARE,)))
        axes.append((0.05, 0.95, (LINEAR_SHARE,)))
    starts = [np.asarray(start) for start in product(*(axis[2] for axis in axes))]
    low = np.asarray([axis[0] for axis in axes])
    return low, np.asarray([axis[1] for axis in axes]), starts


def best_of(
    error: Callable[[Floats], Floats], starts: Sequence[Floats], low: Floats, high: Floats
) -> Floats:
    """Return the parameters with the smallest squared error over these starts, within bounds."""
    best: Floats | None = None
    least = np.inf
    for start in starts:
        inside = np.clip(start, low + 1e-6, high - 1e-6)
        found = least_squares(error, inside, bounds=(low, high), x_scale="jac", max_nfev=100)
        # Strictly better: of equal fits the result of the first start is used.
        if best is None or found.cost < least * (1.0 - 1e-9):
            best, least = np.asarray(found.x, dtype=np.float64), float(found.cost)
    assert best is not None
    return np.clip(best, low, high)


def _residuals(profile: PassProfile, points: Sequence[ProfilePoint]) -> Floats:
    fitted = [profile.time_s(point.size, point.cap_w) for point in points]
    measured = np.asarray([point.seconds for point in points], dtype=np.float64)
    return np.asarray(fitted, dtype=np.float64) / measured - 1.0


def _relative_curve(
    p_low_w: float, p_high_w: float, static_share: float, linear_share: float
) -> PowerCurve:
    """Return a curve through two powers, with 1 GHz at the higher power."""
    static = static_share * p_low_w
    dynamic = p_high_w - static
    a, b = (1.0 - linear_share) * dynamic, linear_share * dynamic
    f_low = cubic_frequency_ghz(a, b, static, p_low_w)
    return PowerCurve(a=a, b=b, c=static, f_low_ghz=f_low, f_high_ghz=1.0)


def _cap_curve(points: Sequence[ProfilePoint]) -> PowerCurve:
    """Return a curve of the default shape through the lowest and the highest measured cap."""
    caps = [point.cap_w for point in points]
    # A single cap spans no curve: the published ratio of p_h to p_l is assumed.
    p_high = max(caps) if max(caps) > 1.05 * min(caps) else 1.5 * min(caps)
    return _relative_curve(min(caps), p_high, STATIC_SHARE, LINEAR_SHARE)


def _narrowed(curve: PowerCurve, points: Sequence[ProfilePoint], notes: list[str]) -> PowerCurve:
    """Lower f_high to the smallest cap above which the job was no faster, over all sizes together.

    Only sizes measured at every cap count, so that the caps are compared on equal terms.
    """
    times: dict[int, dict[float, list[float]]] = {}
    for point in points:
        times.setdefault(point.size, {}).setdefault(point.cap_w, []).append(math.log(point.seconds))
    caps = sorted({point.cap_w for point in points})
    complete = [[np.mean(at[cap]) for cap in caps] for at in times.values() if len(at) == len(caps)]
    if len(caps) < 3 or not complete:
        return curve
    mean_log = np.asarray(complete).mean(axis=0)
    helps = mean_log > mean_log.min() + SATURATED
    needed = caps[int(np.argmin(helps))]
    if needed >= curve.p_high_w or needed <= curve.p_low_w * 1.02:
        return curve
    notes.append(f"caps above {needed:.1f} W did not help: p_high is {needed:.1f} W")
    return replace(curve, f_high_ghz=curve.frequency_ghz(needed))
