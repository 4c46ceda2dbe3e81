"""Confidence intervals against tables and known answers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.results.records import small

from wattfold.simulator.results.intervals import (
    mean_interval,
    ratio_of_means,
)
from wattfold.simulator.results.metrics import Metrics, metrics_of

positive = st.floats(min_value=0.1, max_value=1e6)


def test_student_interval_of_a_textbook_sample() -> None:
    # t(0.975, 4) = 2.7764; deviation sqrt(2.5).
    interval = mean_interval([1, 2, 3, 4, 5])
    assert (interval.mean, interval.count) == (3, 5)
    assert interval.half_width == pytest.approx(2.7764 * math.sqrt(2.5 / 5), rel=1e-4)
    assert interval.high - interval.mean == pytest.approx(interval.mean - interval.low)
    assert mean_interval([1, 2, 3, 4, 5], 0.99).half_width > interval.half_width


def test_one_run_has_a_mean_and_no_interval() -> None:
    interval = mean_interval([7.0])
    assert (interval.mean, interval.count) == (7, 1)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_pairing_takes_out_what_the_pairs_share() -> None:
    base = np.array([100.0, 1000.0, 5000.0, 20.0])
    exact = ratio_of_means(base * 0.5, base)
    assert exact.mean == 0.5
    assert exact.half_width == pytest.approx(0, abs=1e-12)
    assert mean_interval(base * 0.5).half_width > 1000


def test_the_interval_of_a_ratio_covers_the_true_ratio_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        base = rng.normal(100, 10, 10)
        interval = ratio_of_means(0.8 * base + rng.normal(0, 5, 10), base)
        hits += interval.low <= 0.8 <= interval.high
    assert 0.93 < hits / 2000 < 0.97


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=8), st.floats(0.01, 100))
def test_a_ratio_keeps_to_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    values, base = np.array(pairs).T
    plain, scaled = ratio_of_means(values, base), ratio_of_means(values * unit, base * unit)
    assert scaled.mean == pytest.approx(plain.mean)
    assert scaled.half_width == pytest.approx(plain.half_width, rel=1e-6, abs=1e-9 * plain.mean)


@pytest.mark.parametrize(
    ("values", "baselines", "said"),
    [([], [], "at least one"), ([1], [1, 2], "as many"), ([1, 2], [1, -1], "above zero")],
)
def test_refused_ratios(values: list[float], baselines: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ratio_of_means(values, baselines)


def test_refused_confidence() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        mean_interval([1, 2], 1.5)


def runs(*pairs: tuple[int, float]) -> list[Metrics]:
    base = metrics_of(small())
    return [replace(base, seed=seed, response_s_mean=value) for seed, value in pairs]
