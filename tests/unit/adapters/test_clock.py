"""Coordinator time goes on over restarts and never back."""

from __future__ import annotations

import time

from wattfold.coordinator.adapters.clock import Clock

S = 1_000_000_000


def test_a_new_clock_starts_at_zero_and_grows() -> None:
    clock = Clock()
    first, second = clock.now_ns(), clock.now_ns()
    assert 0 <= first <= second < 3600 * S


def test_the_time_away_is_counted_by_the_calendar() -> None:
    clock = Clock(origin_s=time.time() - 1000, last_ns=400 * S)
    assert 1000 * S - 1_000_000 <= clock.now_ns() < 4600 * S


def test_a_calendar_set_back_does_not_take_time_back() -> None:
    clock = Clock(origin_s=time.time() + 5000, last_ns=400 * S)
    assert 400 * S <= clock.now_ns() < 4000 * S


def test_calendar_time_of_an_event() -> None:
    clock = Clock(origin_s=1000.0, last_ns=0)
    assert clock.wall_s(5 * S) == 1005.0
    assert clock.wall_s(-1) == 0.0
