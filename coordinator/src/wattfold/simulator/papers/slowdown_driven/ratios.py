"""Ratios of cases of the same jobs, with an interval if the cases are a sample.

A log is one workload and not a sample: its ratios have no interval and count as exact. Ratios of
drawn workloads have an interval over their seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.slowdown_driven.case import SlowdownCase
from wattfold.simulator.papers.verdicts import interval_text
from wattfold.simulator.results.intervals import Interval, ratio_of_means


def exactly(value: float) -> Interval:
    """Return an interval for a value that is not a mean of a sample."""
    return Interval(mean=value, low=value, high=value, count=1)


def sure(interval: Interval, cases: Sequence[SlowdownCase]) -> Interval:
    """Return the interval; for a log, which is not a sample, only the value."""
    return interval if cases[0].log is None else exactly(interval.mean)


def text_of(interval: Interval, form: str, cases: Sequence[SlowdownCase]) -> str:
    """Return text for people; without an interval for a log."""
    return form.format(interval.mean) if cases[0].log else interval_text(interval, form)


def ratio(
    samples: Samples, cases: Sequence[SlowdownCase], base: Sequence[SlowdownCase], measure: str
) -> Interval:
    """Return a measure over that of other cases of the same jobs. Raises MissingError."""
    return sure(
        ratio_of_means(samples.sample(cases, measure), samples.sample(base, measure)), cases
    )
