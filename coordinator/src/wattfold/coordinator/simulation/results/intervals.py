"""Confidence intervals over the seeds of a run: Student's t, and ratios of paired runs.

A ratio of two policies is that of their means. Runs with the same seed see the same jobs, so the
interval comes from the differences within the pairs (linearised ratio estimator: Cochran, "Sampling
Techniques", chapter 6), which is far narrower than one from independent runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from wattfold.coordinator.simulation.results.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean, or a ratio of means, and the interval it lies in; no interval for one run (NaN)."""

    mean: float
    low: float
    high: float
    count: int
    """Runs behind it."""

    @property
    def half_width(self) -> float:
        """From the mean to either end; NaN for one run."""
        return (self.high - self.low) / 2


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean and t interval. Raises ValueError without values or for a confidence outside (0, 1)."""
    sample = _sample(values)
    return _interval(float(sample.mean()), sample, 1.0, confidence)


def ratio_of_means(values: ArrayLike, baselines: ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of the values over mean of the baselines, paired in their order.

    Raises ValueError for unlike lengths, none at all, or a baseline whose mean is not above zero.
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
    """`mean_interval` of one figure of merit, named as in `Metrics`, over runs."""
    return mean_interval([_value(run, measure) for run in runs], confidence)


def seed_ratio(
    runs: Sequence[Metrics], baselines: Sequence[Metrics], measure: str, confidence: float = 0.95
) -> Interval:
    """`ratio_of_means` of one figure of merit, paired by seed.

    Raises ValueError where the two have not the same seeds, each once.
    """
    ours, theirs = _by_seed(runs, measure), _by_seed(baselines, measure)
    if ours.keys() != theirs.keys():
        raise ValueError(
            f"runs and baselines have different seeds: {sorted(ours)} and {sorted(theirs)}"
        )
    seeds = sorted(ours)
    return ratio_of_means([ours[s] for s in seeds], [theirs[s] for s in seeds], confidence)


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
    reach = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * error
    return Interval(mean=center, low=center - reach, high=center + reach, count=count)


def _sample(values: ArrayLike) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError("an interval needs at least one value")
    return sample


def _by_seed(runs: Sequence[Metrics], measure: str) -> dict[int, float]:
    values = {run.seed: _value(run, measure) for run in runs}
    if len(values) != len(runs):
        raise ValueError(f"a seed is listed twice: {sorted(run.seed for run in runs)}")
    return values


def _value(run: Metrics, measure: str) -> float:
    return float(getattr(run, measure))
