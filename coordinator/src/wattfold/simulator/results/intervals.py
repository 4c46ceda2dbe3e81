"""Confidence intervals over the seeds of a run: Student's t, and ratios of paired runs.

A ratio of two policies is the ratio of their means. Runs with the same seed have the same jobs, so
the interval comes from the differences within the pairs (linearized ratio estimator: Cochran,
"Sampling Techniques", chapter 6). It is far narrower than an interval from independent runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from wattfold.simulator.results.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean, or a ratio of means, and its interval; no interval for one run (NaN)."""

    mean: float
    low: float
    high: float
    count: int
    """Number of runs."""

    @property
    def half_width(self) -> float:
        """Distance from the mean to either end; NaN for one run."""
        return (self.high - self.low) / 2

    def within(self, lowest: float, highest: float) -> Interval:
        """The part between two bounds that no run can pass, such as 0 and 1 of a share."""
        return replace(self, low=max(self.low, lowest), high=min(self.high, highest))


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return mean and t interval.

    Raises ValueError without values, and for a confidence outside (0, 1).
    """
    sample = _sample(values)
    return _interval(float(sample.mean()), sample, 1.0, confidence)


def ratio_of_means(values: ArrayLike, baselines: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of the values over the mean of the baselines, paired in their order.

    Raises ValueError for different lengths, no values, or baselines with a mean that is not above
    zero.
    """
    sample, base = _sample(values), _sample(baselines)
    if len(sample) != len(base):
        raise ValueError(f"pairs need as many baselines as values: {len(base)}, {len(sample)}")
    below = float(base.mean())
    if not below > 0:
        raise ValueError(f"the mean of the baselines must be above zero, got {below}")
    ratio = float(sample.mean()) / below
    return _interval(ratio, sample - ratio * base, below, confidence)


def seed_interval(runs: Sequence[Metrics], measure: str, confidence: float = 0.95) -> Interval:
    """Return the `mean_interval` of a metric, named as in `Metrics`, over runs."""
    return mean_interval([_value(run, measure) for run in runs], confidence)


def _interval(
    center: float,
    deviations: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    scale: float,
    confidence: float,
) -> Interval:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must be between 0 and 1, got {confidence}")
    count = len(deviations)
    if count < 2:
        return Interval(mean=center, low=math.nan, high=math.nan, count=count)
    error = float(deviations.std(ddof=1)) / (scale * math.sqrt(count))
    # A quantile of Student's t distribution, without a second to import scipy.stats.
    reach = float(stdtrit(count - 1, (1 + confidence) / 2)) * error
    return Interval(mean=center, low=center - reach, high=center + reach, count=count)


def _sample(values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError("an interval needs at least one value")
    return sample


def _value(run: Metrics, measure: str) -> float:
    return float(getattr(run, measure))
