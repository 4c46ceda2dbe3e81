"""PASS: run time of a job by its size and package power cap (PARM, SC14, Eq. 9-19).

A profile combines three parts: the strong scaling of an application (`scaling`), its sensitivity to
frequency, and the power curve that converts a cap into a frequency. For the sensitivity, time has a
part ``W_cpu/f`` that depends on the clock and a part ``T_mem`` that does not (Eq. 12-16). Between
p_low and p_high it is exactly the published model.

Two choices are ours, both outside the published range:

* Eq. 14 bounds beta by ``1 - f_l/f_h``. The published table exceeds the bound slightly for LeanMD,
  which makes T_mem negative. The equations still give T_l at f_l and T_h at f_h, and fall in
  between, so such values are accepted.
* Below p_low no lower frequency exists and the processor skips clock cycles. Dynamic power and
  speed are then assumed to be proportional to the share of remaining cycles. The speed is that at
  p_low times ``(cap - c) / (p_low - c)``, but at least one thousandth of it. PARM does not offer
  such caps; agents at their floor may still have them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattfold.coordinator.models.power_curve import PowerCurve, cubic_frequencies_ghz
from wattfold.coordinator.models.scaling import check_scaling, scaled_time_s, scaled_times_s

Floats = NDArray[np.float64]

DEFAULT_SIGMA = 0.5
_WIDEST = 0.999
"""The minimum cap of a node counts as at most this share of its maximum."""
_STATIC_W = 13.5
"""The paper states 13 to 14 W for all applications."""
ANY_RANGE_W = (0.0, 0.0)
SPEED_FLOOR = 1e-3
"""Minimum speed under throttling over the speed at p_low, so that no time is infinite."""


class SizeUnit(StrEnum):
    """Unit of the size of a job."""

    CORES = "cores"
    NODES = "nodes"
    UNITS = "units"
    """Job units: a number of cores of a node each, with memory and GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProfile:
    """The PASS parameters of an application. Immutable; the module describes the model."""

    app: str
    unit: SizeUnit
    average_parallelism: float
    """A of Eq. 9-11, in units, at least one."""
    sigma: float
    """Variance of the parallelism, in [0, 1]; 0 scales perfectly up to A."""
    t1_s: float
    """Run time on one unit at f_high, s."""
    a: float
    b: float
    c: float
    beta: float
    """Sensitivity to frequency, ``(T_l - T_h) / T_l``, in [0, 1)."""
    f_low_ghz: float
    f_high_ghz: float
    p_low_w: float
    p_high_w: float
    range_w: tuple[float, float] = ANY_RANGE_W
    """Minimum and maximum package cap of the nodes of this profile.

    `ANY_RANGE_W`: the powers apply to all nodes.
    """

    def __post_init__(self) -> None:
        check_scaling(self.t1_s, self.average_parallelism, self.sigma)
        if not 0 <= self.beta < 1:
            raise ValueError(f"beta must be in [0, 1), got {self.beta} ({self.app})")
        frequencies = self.f_low_ghz, self.f_high_ghz
        mistake = _power_mistake(self.a, self.b, self.c, *frequencies, self.p_low_w, self.p_high_w)
        if mistake is not None:
            name, stated_w, curve_w = mistake
            raise ValueError(
                f"{name} of {self.app} is {stated_w} W, but its curve gives {curve_w:.2f} W"
            )

    @classmethod
    def of_curve(
        cls,
        curve: PowerCurve,
        *,
        app: str,
        unit: SizeUnit,
        average_parallelism: float,
        sigma: float,
        t1_s: float,
        beta: float,
    ) -> PassProfile:
        """Return a profile with the power figures of a curve."""
        return cls(
            app=app,
            unit=unit,
            average_parallelism=average_parallelism,
            sigma=sigma,
            t1_s=t1_s,
            a=curve.a,
            b=curve.b,
            c=curve.c,
            beta=beta,
            f_low_ghz=curve.f_low_ghz,
            f_high_ghz=curve.f_high_ghz,
            p_low_w=curve.p_low_w,
            p_high_w=curve.p_high_w,
        )

    @property
    def shape(self) -> tuple[float, ...]:
        """All parameters of its times except the factor ``t1_s``."""
        frequencies = self.a, self.b, self.c, self.beta, self.f_low_ghz, self.f_high_ghz
        powers = self.p_low_w, self.p_high_w
        return (self.average_parallelism, self.sigma, *frequencies, *powers)

    @property
    def curve(self) -> PowerCurve:
        """Power by frequency (Eq. 18)."""
        return PowerCurve(
            a=self.a, b=self.b, c=self.c, f_low_ghz=self.f_low_ghz, f_high_ghz=self.f_high_ghz
        )

    def scaled(self, time_factor: float) -> PassProfile:
        """Return the same application with another amount of work.

        ``time_factor`` multiplies every time.
        """
        return replace(self, t1_s=self.t1_s * time_factor)

    def on(self, cap_min_w: float, cap_max_w: float) -> PassProfile:
        """Return the same program on nodes with this range of package caps, in W.

        Its powers keep their relative position in the range, so full power is full speed on all
        nodes. A profile without a range is returned unchanged.
        """
        if self.range_w in (ANY_RANGE_W, (cap_min_w, cap_max_w)):
            return self
        curve = _moved(self.curve, self.range_w, (cap_min_w, cap_max_w))
        return replace(
            self,
            a=curve.a,
            b=curve.b,
            c=curve.c,
            p_low_w=curve.p_low_w,
            p_high_w=curve.p_high_w,
            range_w=(cap_min_w, cap_max_w),
        )

    def time_s(self, n: float, cap_w: float) -> float:
        """Return the run time on n units with every package capped at ``cap_w``, in s.

        Raises ValueError for n < 1.
        """
        at_full_power = scaled_time_s(self.t1_s, self.average_parallelism, self.sigma, n)
        slowdown = _slowdown(
            self.a, self.b, self.c, self.beta, self.f_low_ghz, self.f_high_ghz, cap_w
        )
        return at_full_power * slowdown

    def times_s(self, sizes: ArrayLike, caps_w: ArrayLike) -> Floats:
        """Return `time_s` for every pair: an array of shape (sizes, caps), in s."""
        at_full_power = scaled_times_s(self.t1_s, self.average_parallelism, self.sigma, sizes)
        return np.multiply.outer(at_full_power, self.slowdowns(caps_w))

    def part_time_s(self, n: float, part: float, cap_w: float) -> float:
        """Return `time_s` on the given part (0..1) of the cores of each of n units, in s.

        It equals the time on n * part units. A part of a single unit scales in proportion.
        """
        units = n * part
        return self.time_s(units, cap_w) if units >= 1 else self.time_s(1, cap_w) / units

    def slowdowns(self, caps_w: ArrayLike) -> Floats:
        """Return the run time at each cap over the time at full power (Eq. 12-16), at least 1."""
        return _slowdowns(
            self.a, self.b, self.c, self.beta, self.f_low_ghz, self.f_high_ghz, caps_w
        )

    def levels_w(self, count: int, cap_min_w: float, cap_max_w: float) -> tuple[float, ...]:
        """Return up to ``count`` ascending caps worth offering within a zone's range, in W.

        They are evenly spaced in speed, not in power: the power curve is convex, so more levels are
        where a watt gains more. A zone that only allows caps at or above p_high, or at or below
        p_low, gets one level. There is at least one level.

        Raises:
            ValueError: count below 1 or an empty range.
        """
        if count < 1 or not 0 < cap_min_w <= cap_max_w:
            raise ValueError(f"no levels for count={count} between {cap_min_w} and {cap_max_w} W")
        low_w = min(max(self.p_low_w, cap_min_w), cap_max_w)
        high_w = max(min(self.p_high_w, cap_max_w), low_w)
        if count == 1 or high_w - low_w < 1e-9:
            return (high_w,)
        ends_ghz = cubic_frequencies_ghz(self.a, self.b, self.c, np.asarray([low_w, high_w]))
        middle = np.linspace(ends_ghz[0], ends_ghz[1], count)[1:-1]
        return (low_w, *(float(self.curve.power_w(f)) for f in middle), high_w)


@lru_cache(maxsize=4096)
def _power_mistake(
    a: float,
    b: float,
    c: float,
    f_low_ghz: float,
    f_high_ghz: float,
    p_low_w: float,
    p_high_w: float,
) -> tuple[str, float, float] | None:
    """Return the name of a wrong power, the stated value and that of the curve; None = no mistake.

    The result is cached, because jobs of an application differ only in work.
    Raises ValueError if there is no such curve.
    """
    curve = PowerCurve(a=a, b=b, c=c, f_low_ghz=f_low_ghz, f_high_ghz=f_high_ghz)
    for name, stated_w, curve_w in (
        ("p_low", p_low_w, curve.p_low_w),
        ("p_high", p_high_w, curve.p_high_w),
    ):
        # Published and typed figures are rounded; larger deviations are mistakes.
        if not abs(stated_w - curve_w) <= 0.05 * curve_w:
            return name, stated_w, curve_w
    return None


def _published(
    app: str, a: float, b: float, p_low_w: float, p_high_w: float, beta: float
) -> PassProfile:
    """Return a row of the published table. A, sigma and T1 are not in it: they are neutral."""
    f_low, f_high = cubic_frequencies_ghz(a, b, _STATIC_W, np.asarray([p_low_w, p_high_w]))
    return PassProfile(
        app=app,
        unit=SizeUnit.NODES,
        average_parallelism=64.0,
        sigma=DEFAULT_SIGMA,
        t1_s=3600.0,
        a=a,
        b=b,
        c=_STATIC_W,
        beta=beta,
        f_low_ghz=float(f_low),
        f_high_ghz=float(f_high),
        p_low_w=p_low_w,
        p_high_w=p_high_w,
    )


APPLICATIONS: dict[str, PassProfile] = {
    profile.app: profile
    for profile in (
        _published("LeanMD", 1.65, 7.74, 30.0, 52.0, 0.40),
        _published("Wave2D", 3.00, 10.23, 32.0, 40.0, 0.16),
        _published("Lulesh", 2.63, 8.36, 32.0, 54.0, 0.30),
        _published("AMR", 2.45, 6.57, 32.0, 54.0, 0.33),
        _published("Jacobi2D", 1.54, 10.13, 32.0, 37.0, 0.08),
    )
}
"""Power and frequency parameters of the five published applications; replace A, sigma and T1."""


def default_profile(
    curve: PowerCurve,
    size_max: int,
    t_s: float,
    *,
    app: str = "unknown",
    unit: SizeUnit = SizeUnit.CORES,
) -> PassProfile:
    """Return the default profile of a job without a profile.

    A is size_max: a user who requests this many units expects all of them to help. The variance
    sigma is 0.5, the middle of Downey's range, so that the job is neither starved nor preferred.
    The sensitivity beta is half of its bound ``1 - f_l/f_h``, between memory-bound and clock-bound.
    ``t_s`` is the expected run time at size_max and full power.

    Raises:
        ValueError: size_max below 1 or t_s not above zero.
    """
    if size_max < 1 or not t_s > 0:
        raise ValueError(f"a job needs a size of at least 1 and a time, got {size_max} and {t_s} s")
    return PassProfile.of_curve(
        curve,
        app=app,
        unit=unit,
        average_parallelism=float(size_max),
        sigma=DEFAULT_SIGMA,
        t1_s=t_s / _unit_time(size_max),
        beta=0.5 * (1.0 - curve.f_low_ghz / curve.f_high_ghz),
    )


def _slowdowns(
    a: float, b: float, c: float, beta: float, f_low: float, f_high: float, caps_w: ArrayLike
) -> Floats:
    caps = np.asarray(caps_w, dtype=np.float64)
    f = np.clip(cubic_frequencies_ghz(a, b, c, caps), f_low, f_high)
    span = (1.0 - beta) * (f_high - f_low)
    cpu_work = beta * f_low * f_high / span
    memory = 1.0 - beta * f_low / span
    p_low_w = PowerCurve(a=a, b=b, c=c, f_low_ghz=f_low, f_high_ghz=f_high).p_low_w
    kept = np.clip((caps - c) / (p_low_w - c), SPEED_FLOOR, 1.0)
    slowdowns: Floats = (cpu_work / f + memory) / kept
    return slowdowns


@lru_cache(maxsize=4096)
def _moved(
    curve: PowerCurve, before_w: tuple[float, float], after_w: tuple[float, float]
) -> PowerCurve:
    """Return a curve of nodes with one range of caps for nodes with another range."""
    (low_w, high_w), (least_w, most_w) = before_w, after_w
    # Caps that cannot be changed mean full power.
    least_w = min(least_w, most_w * _WIDEST)
    scale = (most_w - least_w) / (high_w - low_w)
    ends_w = (least_w + (end_w - low_w) * scale for end_w in (curve.p_low_w, curve.p_high_w))
    return curve.between(*ends_w)


@lru_cache(maxsize=4096)
def _slowdown(
    a: float, b: float, c: float, beta: float, f_low: float, f_high: float, cap_w: float
) -> float:
    """Return the slowdown at one cap, cached: jobs of an application differ only in work."""
    return float(_slowdowns(a, b, c, beta, f_low, f_high, [cap_w])[0])


@lru_cache(maxsize=1024)
def _unit_time(size_max: int) -> float:
    """Return the run time on ``size_max`` units over the time on one unit, with default sigma."""
    return float(scaled_times_s(1.0, size_max, DEFAULT_SIGMA, [size_max])[0])
