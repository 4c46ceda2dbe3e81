"""Envelopes of step functions against a point-by-point version, and categories of jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.results.records import record

from wattfold.simulator.results.categories import categories
from wattfold.simulator.results.envelope import envelope


def test_few_entries_stay_as_they_are() -> None:
    curve = envelope(np.array([0.0, 2.0, 5.0]), np.array([1, 3, 2]), 6.0, 3)
    assert curve.exact
    assert curve.times.tolist() == [0, 2, 5, 6]
    assert curve.low.tolist() == curve.mean.tolist() == curve.high.tolist() == [1, 3, 2]


def test_entries_after_the_end_are_not_drawn() -> None:
    curve = envelope(np.array([0.0, 2.0, 9.0]), np.array([1, 3, 2]), 6.0, 10)
    assert (curve.times.tolist(), curve.mean.tolist()) == ([0, 2, 6], [1, 3])
    assert len(envelope(np.empty(0), np.empty(0), 6.0, 10).mean) == 0


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 50)), min_size=3, max_size=60),
    st.integers(1, 9),
    st.integers(0, 30),
)
def test_least_greatest_and_mean_of_every_stretch(
    steps: list[tuple[int, int]], stretches: int, tail: int
) -> None:
    times = np.cumsum([gap for gap, _ in steps]).astype(float)
    values = np.array([value for _, value in steps])
    end = float(times[-1] + tail)
    curve = envelope(times, values, end, stretches)
    assert curve.times[0] == times[0]
    assert curve.times[-1] == end
    for i, (low, high) in enumerate(zip(curve.low, curve.high, strict=True)):
        left, right = float(curve.times[i]), float(curve.times[i + 1])
        inside = [
            (max(t, left), value, min(following, right))
            for t, value, following in zip(times, values, [*times[1:], math.inf], strict=True)
            if t < right and following > left
        ]
        if right > left:
            assert low == min(value for _, value, _ in inside)
            assert high == max(value for _, value, _ in inside)
            mean = sum((to - at) * value for at, value, to in inside) / (right - left)
            assert curve.mean[i] == pytest.approx(mean, abs=1e-6)


def test_a_peak_of_one_entry_among_many_is_kept() -> None:
    values = np.ones(400_000)
    values[123_456] = 999
    curve = envelope(np.arange(400_000.0), values, 400_000.0, 600)
    assert curve.high.max() == 999
    assert curve.mean.max() < 3
    assert len(curve.high) == 600


def test_refused_envelopes() -> None:
    with pytest.raises(ValueError, match="0 stretches"):
        envelope(np.zeros(1), np.zeros(1), 1.0, 0)
    with pytest.raises(ValueError, match="1 times, 2 values"):
        envelope(np.zeros(1), np.zeros(2), 1.0, 5)


def test_categories_by_size_and_static_run_time() -> None:
    run = record(
        [
            (0, 10, 40, 1),
            (0, 30, 60, 1),
            (0, 0, 60, 3),
            (0, 100, 400, 4),
            (0, -1, -1, 4),
            (0, 0, 90_000, 5),
        ],
        static_run_s=[30, 30, 60, 200, 200, 90_000],
    )
    held = categories(run)
    assert held.size_labels == ("1", "2", "3-4", "5-8")
    assert held.run_labels[:2] == ("<1m", "1-5m")
    assert held.jobs[:, :2].tolist() == [[2, 0], [0, 0], [0, 2], [0, 0]]
    assert held.jobs[3, 7] == 1
    assert held.jobs.sum() == 5
    assert held.wait_s[0, 0] == 20
    # 60 s and more is the next category; the unfinished job counts nowhere.
    assert held.slowdown[2, 1] == (1 + 2) / 2
    assert held.run_ratio[2, 1] == (1 + 1.5) / 2
    assert math.isnan(held.slowdown[1, 0])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 1024, 1025])
def test_the_largest_job_is_in_the_last_row(size: int) -> None:
    held = categories(record([(0, 0, 10, size)]))
    assert held.jobs[-1, 0] == 1
    assert len(held.size_labels) == len(held.jobs)
