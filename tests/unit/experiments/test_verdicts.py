"""The rules by which a claim counts as reproduced."""

from __future__ import annotations

import math

import pytest

from wattfold.simulator.papers.verdicts import (
    Ruling,
    Verdict,
    above,
    at_most,
    interval_text,
    near,
    trend,
    worst,
)
from wattfold.simulator.results.intervals import Interval

R, D, N = Verdict.REPRODUCED, Verdict.DIRECTION, Verdict.NOT


def interval(mean: float, low: float, high: float) -> Interval:
    return Interval(mean=mean, low=low, high=high, count=5)


def one_seed(mean: float) -> Interval:
    return Interval(mean=mean, low=math.nan, high=math.nan, count=1)


@pytest.mark.parametrize(
    ("measured", "published", "neutral", "verdict"),
    [
        (interval(1.7, 1.6, 1.8), 1.7, 1.0, R),
        (interval(1.53, 1.5, 1.6), 1.7, 1.0, R),
        (interval(1.5, 1.4, 1.6), 1.7, 1.0, D),
        (interval(2.2, 2.0, 2.4), 1.7, 1.0, D),
        (interval(1.7, 0.9, 2.5), 1.7, 1.0, D),
        (interval(0.9, 0.8, 1.2), 1.7, 1.0, N),
        (one_seed(1.7), 1.7, 1.0, D),
        (interval(0.5, 0.45, 0.55), 0.5, 1.0, R),
        (interval(0.5, 0.0, 1.1), 0.5, 1.0, D),
        (interval(1.1, 1.0, 1.2), 0.5, 1.0, N),
    ],
)
def test_a_published_number(
    measured: Interval, published: float, neutral: float, verdict: Verdict
) -> None:
    assert near(measured, published, neutral).verdict is verdict


def test_a_size_that_differs_says_which_way() -> None:
    assert "larger" in near(interval(3.0, 2.9, 3.1), 1.7, 1.0).why
    assert "smaller" in near(interval(1.2, 1.1, 1.3), 1.7, 1.0).why


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (interval(1.2, 1.1, 1.3), R),
        (interval(1.2, 1.0, 1.4), D),
        (interval(1.0, 0.9, 1.1), N),
        (one_seed(1.2), D),
        (one_seed(0.9), N),
    ],
)
def test_more_than(measured: Interval, verdict: Verdict) -> None:
    assert above(measured, 1.0).verdict is verdict


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (interval(0.5, 0.4, 1.0), R),
        (interval(0.9, 0.7, 1.1), D),
        (interval(1.1, 0.9, 1.3), N),
        (one_seed(0.5), D),
    ],
)
def test_at_most(measured: Interval, verdict: Verdict) -> None:
    assert at_most(measured, 1.0).verdict is verdict


def test_a_trend_needs_its_ends_and_no_step_back() -> None:
    up, unsure, down = interval(1, 0.5, 1.5), interval(-0.1, -0.4, 0.2), interval(-1, -1.5, -0.5)
    whole = interval(2, 1, 3)
    assert trend(whole, [up, unsure, up], rises=True).verdict is R
    assert trend(whole, [up, down, up], rises=True).verdict is D
    assert trend(interval(2, -1, 5), [up, up], rises=True).verdict is D
    assert trend(down, [down], rises=True).verdict is N
    assert trend(down, [down, unsure], rises=False).verdict is R
    assert trend(down, [down, up], rises=False).verdict is D
    assert trend(one_seed(-1), [one_seed(-1)], rises=False).verdict is D


def test_claims_that_must_all_hold_are_as_good_as_the_worst() -> None:
    rulings = [Ruling(verdict=verdict, why=verdict.value) for verdict in (R, N, D)]
    assert worst(rulings).verdict is N
    assert worst(rulings[:1]).verdict is R


def test_an_interval_in_words() -> None:
    assert interval_text(interval(1.5, 1.25, 1.75)) == "1.50 [1.25, 1.75]"
    assert interval_text(one_seed(0.125), "{:.1%}") == "12.5%"
