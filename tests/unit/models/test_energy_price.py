"""Energy prices: at a time, over an interval, and read from tables and series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.coordinator.models.energy_price import (
    EnergyPrice,
    PriceError,
    parse_series,
    parse_table,
)
from wattfold.coordinator.models.training_cost import NodeDraw, Tariff

H = 3600.0
TABLE = parse_table("7:00 0.30, 22:30 0.10")


def test_a_table_holds_from_its_times_on_and_over_midnight() -> None:
    assert [TABLE.at(hour * H) for hour in (0, 6.9, 7, 22.4, 22.5, 31)] == [
        0.10,
        0.10,
        0.30,
        0.30,
        0.10,
        0.30,
    ]
    assert TABLE.changes
    assert not EnergyPrice.constant(0.2).changes


def test_a_series_keeps_its_ends_its_gaps_and_its_signs() -> None:
    series = parse_series(
        "time,price\n2024-05-01T00:00Z,90\n2024-05-01 01:00,null\n"
        "2024-05-01T02:00,-16.5\n\n2024-05-01T02:15+00:00,40\n"
    )
    start = float(np.datetime64("2024-05-01", "s").astype(np.int64))
    hours = (-5.0, 0.5, 1.5, 2.1, 2.5, 99.0)
    assert [series.at(start + hour * H) for hour in hours] == pytest.approx(
        [0.09, 0.09, 0.09, -0.0165, 0.04, 0.04]
    )
    whole = series.integral(start, start + 2.5 * H)
    assert float(whole) == pytest.approx((2 * 0.09 - 0.25 * 0.0165 + 0.25 * 0.04) * H)


@settings(max_examples=examples(60))
@given(
    begin=st.floats(-3e5, 3e5),
    spans=st.lists(st.floats(0, 2e5), min_size=1, max_size=3),
    daily=st.booleans(),
    prices=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
)
def test_the_integral_is_the_sum_of_its_steps(
    begin: float, spans: list[float], daily: bool, prices: list[float]
) -> None:
    price = EnergyPrice((1800.0, 9000.0, 40_000.0), tuple(prices), daily=daily)
    found = price.integral(begin, begin + np.array(spans))
    for span, value in zip(spans, found, strict=True):
        edges = [begin, begin + span]
        days = range(int(begin // 86_400) - 1, int((begin + span) // 86_400) + 2)
        for day in days if daily else (0,):
            edges += [day * 86_400 + time for time in price.times_s]
        cuts = sorted(edge for edge in edges if begin <= edge <= begin + span)
        steps = [(later - one) * price.at((one + later) / 2) for one, later in pairwise(cuts)]
        assert value == pytest.approx(sum(steps), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a time of day and a price"),
        ("25:00 0.1", "within 0:00..23:59"),
        ("7:00 cheap", "is not a price"),
        ("7:00 0.1, 6:00 0.2", "must grow"),
        ("7:00 nan", "finite"),
    ],
)
def test_tables_that_make_no_sense_are_refused(text: str, told: str) -> None:
    with pytest.raises(PriceError, match=told):
        parse_table(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,price", "no price found"),
        ("2024-05-01T00:00Z,dear", "line 1: 'dear' is not a price"),
        ("2024-05-01T00:00Z,1\n1st of May,2", "line 2: '1st of May' is not a time"),
        ("2024-05-01T00:00Z,1\nnow,2", "line 2: 'now' is not a time"),
        ("2024-05-01T01:00Z,1\n2024-05-01T00:00Z,2", "must grow"),
    ],
)
def test_series_that_make_no_sense_are_refused(text: str, told: str) -> None:
    with pytest.raises(PriceError, match=told):
        parse_series(text)


def test_a_node_costs_its_host_its_gpus_and_the_idle_ones_with_pue() -> None:
    draw = NodeDraw(host_w=200, idle_w=30, gpus=4)
    assert draw.power_w(1, 250) == 200 + 250 + 90
    tariff = Tariff(price=EnergyPrice.constant(0.172), pue=1.33)
    cost = tariff.cost_eur(np.array([1000.0]), 0.0, np.array([H]))
    assert cost == pytest.approx([0.172 * 1.33])
    assert TABLE.plus(0.05).at(0) == pytest.approx(0.15)
    assert TABLE.mean(6 * H, 8 * H) == pytest.approx(0.2)


# ---- the cheapest begin -------------------------------------------------------------------------


def test_a_run_waits_for_the_cheapest_time() -> None:
    assert TABLE.cheapest_begin_s(20 * H, 30 * H, H) == 22.5 * H
    # It ends before the price rises at 7:00.
    assert TABLE.cheapest_begin_s(20 * H, 30 * H, 8.5 * H) == 22.5 * H
    # 4 of 10 hours are expensive, whenever it begins before midnight: the earliest time counts.
    assert TABLE.cheapest_begin_s(23 * H, 24 * H, H) == 23 * H


def test_a_small_saving_is_not_worth_a_wait() -> None:
    series = EnergyPrice((0.0, H), (0.100, 0.096))
    assert series.cheapest_begin_s(0.0, H, 600.0) == 0.0
    assert EnergyPrice((0.0, H), (0.100, 0.094)).cheapest_begin_s(0.0, H, 600.0) == H
    assert EnergyPrice.constant(0.3).cheapest_begin_s(5.0, 1e6, 600.0) == 5.0


def test_no_run_is_planned_beyond_the_last_known_price() -> None:
    series = EnergyPrice((0.0, H, 2 * H), (0.3, 0.2, 0.1))
    assert series.known_until_s == 3 * H
    assert series.cheapest_begin_s(0.0, 9 * H, H) == 2 * H
    assert series.cheapest_begin_s(0.0, 9 * H, 2 * H) == H
    assert series.cheapest_begin_s(0.0, 9 * H, 4 * H) == 0.0


@settings(max_examples=examples(200))
@given(
    prices=st.lists(st.integers(-50, 300), min_size=2, max_size=12),
    begin=st.integers(0, 5),
    hold=st.integers(0, 8),
    span=st.integers(1, 4),
    daily=st.booleans(),
)
def test_no_other_begin_is_cheaper(
    prices: list[int], begin: int, hold: int, span: int, daily: bool
) -> None:
    """Compare with a search in steps of a quarter of an hour."""
    eur = tuple(price / 1000 for price in prices)
    price = EnergyPrice(tuple(H * hour for hour in range(len(eur))), eur, daily=daily)
    latest = begin + hold if daily else min(begin + hold, len(eur) - span)
    found = price.cheapest_begin_s(begin * H, (begin + hold) * H, span * H)
    assert begin * H <= found <= max(latest, begin) * H
    costs = {
        at: float(price.integral(at * H, (at + span) * H))
        for at in (begin + quarter / 4 for quarter in range(4 * max(latest - begin, 0) + 1))
    }
    cost, now, least = (
        float(price.integral(found, found + span * H)),
        costs[begin],
        min(costs.values()),
    )
    assert cost <= now + 1e-6
    assert cost <= least + 0.05 * abs(now) + 1e-6
    if found > begin * H:
        assert cost <= least + 1e-6
        assert all(at * H >= found for at, each in costs.items() if each <= least + 1e-9)
