"""The churn experiment: the churn is the same for all strategies, and boxes keep their links."""

import math

import pytest
from unit.node_selection.churn import (
    Churn,
    Fragmentation,
    fragmentation,
)

from wattfold.coordinator.policies.placement.selector import Strategy
from wattfold.coordinator.policies.placement.strategies import node_selector

SIDES = (10, 8, 8)


def measured(strategy: Strategy, seed: int = 1) -> Fragmentation:
    churn = Churn(sizes=(4, 9, 16, 30, 64), changes=400, warm_up=100)
    selector = node_selector(strategy, 640, SIDES)
    return fragmentation(selector, 640, SIDES, churn, seed)


def test_all_strategies_see_the_same_churn() -> None:
    results = [measured(strategy) for strategy in Strategy]
    assert len({(r.allocations, r.resizes, r.ideal_transfer_s) for r in results}) == 1
    assert results[0].resizes > 50


def test_the_same_seed_gives_the_same() -> None:
    assert measured(Strategy.CUBOID) == measured(Strategy.CUBOID)
    assert measured(Strategy.CUBOID) != measured(Strategy.CUBOID, seed=2)


def test_boxes_keep_more_of_their_links_than_runs_and_runs_more_than_any() -> None:
    scattered, runs, boxes = (
        measured(strategy) for strategy in (Strategy.ANY, Strategy.COMPACT, Strategy.CUBOID)
    )
    assert boxes.bisection_ratio > runs.bisection_ratio > scattered.bisection_ratio
    assert boxes.hops < runs.hops < scattered.hops
    assert boxes.transfer_s < runs.transfer_s < scattered.transfer_s


def test_without_resizes_there_is_no_transfer() -> None:
    churn = Churn(sizes=(4,), changes=20, warm_up=0, resize_share=0.0)
    result = fragmentation(node_selector(Strategy.FIRST, 640), 640, SIDES, churn, 0)
    assert result.resizes == 0
    assert math.isnan(result.transfer_s)


def test_an_empty_churn_is_refused() -> None:
    with pytest.raises(ValueError, match="sizes"):
        Churn(sizes=())
    with pytest.raises(ValueError, match="shares"):
        Churn(load=0.0)
