"""Ratios of cases of the same jobs, and when a ratio has an interval.

A log is one workload and not a sample: its ratios have no interval, and count as they are. The
drawn workloads have one over their seeds.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.simulation.experiments.samples import Samples
from wattfold.coordinator.simulation.experiments.slowdown_driven.case import SlowdownCase
from wattfold.coordinator.simulation.experiments.verdicts import interval_text
from wattfold.coordinator.simulation.results.intervals import Interval, ratio_of_means


def exactly(value: float) -> Interval:
    """A value that is no mean of a sample."""
    return Interval(mean=value, low=value, high=value, count=1)


def sure(interval: Interval, cases: Sequence[SlowdownCase]) -> Interval:
    """The interval; that of a log, which is no sample, is its value."""
    return interval if cases[0].log is None else exactly(interval.mean)


def text_of(interval: Interval, form: str, cases: Sequence[SlowdownCase]) -> str:
    """For people; without an interval where a log has none."""
    return form.format(interval.mean) if cases[0].log else interval_text(interval, form)


def ratio(
    samples: Samples, cases: Sequence[SlowdownCase], base: Sequence[SlowdownCase], measure: str
) -> Interval:
    """A measure over that of other cases of the same jobs. Raises MissingError."""
    return sure(
        ratio_of_means(samples.sample(cases, measure), samples.sample(base, measure)), cases
    )
