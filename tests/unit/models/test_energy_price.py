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
