"""Exact nodes selected by each strategy in small cases."""

import pickle

import numpy as np
import pytest

from wattfold.coordinator.models.torus import bisection_links, bounding_box
from wattfold.coordinator.policies.placement.any_free import AnySelector
from wattfold.coordinator.policies.placement.compact import CompactSelector
from wattfold.coordinator.policies.placement.cuboid import CuboidSelector
from wattfold.coordinator.policies.placement.first import FirstSelector
from wattfold.coordinator.policies.placement.selector import (
    NotEnoughFreeNodes,
    Strategy,
    joined,
)
from wattfold.coordinator.policies.placement.strategies import node_selector


def test_any_takes_what_came_back_last() -> None:
    selector = AnySelector(6)
    first = selector.take(2)
    assert sorted(first) == [0, 1]
    second = selector.take(2)
    selector.give_back(first)
    assert sorted(selector.take(2)) == [0, 1]
    assert sorted(second) == [2, 3]
    assert selector.free == 2


def test_any_shrinks_and_grows() -> None:
    selector = AnySelector(6)
    held = selector.take(4)
    kept, released = selector.shrink(held, 3)
    assert (len(kept), len(released), selector.free) == (1, 3, 5)
    assert sorted(kept + released) == sorted(held)
    assert len(joined(kept, selector.grow(kept, 5))) == 6


def test_first_takes_the_lowest_in_pieces() -> None:
    selector = FirstSelector(10)
    low, middle = selector.take(2), selector.take(3)
    selector.give_back(low)
    assert selector.take(4).tolist() == [0, 1, 5, 6]
    assert selector.shrink(middle, 1)[1].tolist() == [4]
    assert selector.grow(middle[:2], 2).tolist() == [4, 7]


def test_compact_takes_the_shortest_hole_that_holds_the_job() -> None:
    selector = CompactSelector(20)
    jobs = [selector.take(count) for count in (4, 1, 2, 1, 3, 9)]
    for index in (0, 2, 4):
        selector.give_back(jobs[index])
    # Holes of 4, 2 and 3 nodes at 0, 5 and 8.
    assert selector.take(3).tolist() == [8, 9, 10]
    assert selector.take(2).tolist() == [5, 6]


def test_compact_takes_as_few_pieces_as_there_can_be() -> None:
    selector = CompactSelector(20)
    jobs = [selector.take(count) for count in (4, 1, 2, 1, 3, 9)]
    for index in (0, 2, 4):
        selector.give_back(jobs[index])
    assert selector.take(6).tolist() == [0, 1, 2, 3, 5, 6]


def test_compact_grows_into_the_holes_beside_it_on_either_side() -> None:
    selector = CompactSelector(20)
    jobs = [selector.take(count) for count in (3, 2, 4, 1)]
    selector.give_back(jobs[0])
    selector.give_back(jobs[2])
    assert selector.grow(jobs[1], 2).tolist() == [1, 2]
    assert selector.grow(np.concatenate([jobs[1], [1, 2]]), 3).tolist() == [5, 6, 7]


def test_compact_shrinks_its_shortest_run_first_and_lengthens_a_hole() -> None:
    selector = CompactSelector(20)
    jobs = [selector.take(count) for count in (2, 6, 12)]
    selector.give_back(jobs[0])
    # Hole at 0 and 1, next to the job at 2..7.
    kept, released = selector.shrink(jobs[1], 2)
    assert (kept.tolist(), released.tolist()) == ([4, 5, 6, 7], [2, 3])
    scattered = np.concatenate([kept, selector.take(1)])
    kept, released = selector.shrink(scattered, 1)
    assert (kept.tolist(), released.tolist()) == ([4, 5, 6, 7], [0])


def test_cuboid_takes_a_cube_and_the_next_one_beside_it() -> None:
    selector = CuboidSelector((4, 6, 8))
    assert bounding_box((4, 6, 8), selector.take(8)).shape == (2, 2, 2)
    second = bounding_box((4, 6, 8), selector.take(8))
    assert second.shape == (2, 2, 2)
    # The first box borders this box on both sides of the first axis, because the torus wraps.
    assert second.origin == (2, 0, 0)


def test_cuboid_finds_the_box_that_wraps_around() -> None:
    sides = (5, 5, 5)
    selector = CuboidSelector(sides)
    everything = selector.take(125)
    cells = np.arange(125).reshape(sides)
    corner = cells[np.ix_([4, 0], [4, 0], [4, 0])].reshape(-1).astype(np.int32)
    assert len(everything) == 125
    selector.give_back(np.concatenate([corner, cells[2, 2, :3].astype(np.int32)]))
    assert selector.take(8).tolist() == sorted(corner.tolist())


def test_cuboid_prefers_what_goes_all_the_way_round_where_it_has_fewer_links_outside() -> None:
    nodes = CuboidSelector((40, 32, 32)).take(16 * 32 * 32)
    assert bounding_box((40, 32, 32), nodes).shape == (16, 32, 32)


@pytest.mark.parametrize("count", [*(2**n for n in range(10)), 27, 125, 216, 343])
def test_a_box_has_at_least_the_links_of_a_run_for_common_sizes(count: int) -> None:
    sides = (8, 8, 8)
    box = bisection_links(sides, CuboidSelector(sides).take(count))
    assert box >= bisection_links(sides, CompactSelector(512).take(count))


def test_cuboid_gives_the_whole_box_on_request() -> None:
    # A box of 2x2x2 has the smallest surface for seven nodes.
    assert len(CuboidSelector((4, 4, 4), whole_boxes=True).take(7)) == 8
    assert len(CuboidSelector((4, 4, 4)).take(7)) == 7


def test_cuboid_without_a_free_box_takes_a_stretch_of_the_curve() -> None:
    sides = (4, 4, 4)
    selector = CuboidSelector(sides)
    selector.take(64)
    # Every other node: no two free nodes are neighbours.
    odd = np.flatnonzero(np.indices(sides).sum(axis=0).reshape(-1) % 2).astype(np.int32)
    selector.give_back(odd)
    nodes = selector.take(4)
    assert set(nodes.tolist()) <= set(odd.tolist())
    assert bounding_box(sides, nodes).volume <= 16


def test_cuboid_grows_by_a_layer_and_shrinks_to_a_corner() -> None:
    sides = (8, 8, 8)
    selector = CuboidSelector(sides)
    held = selector.take(64)
    assert bounding_box(sides, held).shape == (4, 4, 4)
    grown = joined(held, selector.grow(held, 16))
    assert sorted(bounding_box(sides, grown).shape) == [4, 4, 5]
    kept, _ = selector.shrink(grown, 80 - 27)
    assert bounding_box(sides, kept).shape == (3, 3, 3)


def test_cuboid_fills_its_own_box_before_it_grows_out_of_it() -> None:
    sides = (8, 8, 8)
    selector = CuboidSelector(sides)
    held = selector.take(62)
    added = selector.grow(held, 2)
    assert bounding_box(sides, joined(held, added)).shape == (4, 4, 4)


def test_cuboid_shut_in_grows_with_the_nearest() -> None:
    sides = (1, 1, 16)
    selector = CuboidSelector(sides)
    selector.take(16)
    selector.give_back(np.array([0, 5, 12, 14], dtype=np.int32))
    held = np.array([8, 9, 10], dtype=np.int32)
    assert selector.grow(held, 2).tolist() == [5, 12]


def test_cuboid_shut_in_looks_both_ways_around() -> None:
    """Nodes 3 and 6 are next to its box on a ring of eight: the first of equal nodes is taken."""
    selector = CuboidSelector((1, 4, 8))
    selector.take(32)
    selector.give_back(np.array([3, 6], dtype=np.int32))
    held = np.array([4, 5, 12, 13], dtype=np.int32)
    assert selector.grow(held, 1).tolist() == [3]


def test_cuboid_of_fewer_nodes_than_places() -> None:
    selector = CuboidSelector((3, 3, 3), 20)
    assert selector.free == 20
    assert selector.take(20).tolist() == list(range(20))
    with pytest.raises(ValueError, match="has fewer than 28 nodes"):
        CuboidSelector((3, 3, 3), 28)


@pytest.mark.parametrize("sides", [(100,), (70, 80), (2, 3, 4, 5, 6)])
def test_cuboid_on_tori_of_other_ranks(sides: tuple[int, ...]) -> None:
    selector = CuboidSelector(sides)
    nodes = selector.take(60)
    assert len(set(nodes.tolist())) == 60
    assert 60 <= bounding_box(sides, nodes).volume <= 64


@pytest.mark.parametrize("strategy", list(Strategy))
def test_too_many_are_refused_and_nothing_is_lost(strategy: Strategy) -> None:
    selector = node_selector(strategy, 8, (2, 2, 2))
    held = selector.take(6)
    with pytest.raises(NotEnoughFreeNodes, match="3 nodes requested, 2 are free"):
        selector.take(3)
    with pytest.raises(NotEnoughFreeNodes):
        selector.grow(held, 3)
    with pytest.raises(ValueError, match="cannot release 7"):
        selector.shrink(held, 7)
    assert selector.free == 2
    assert len(selector.take(2)) == 2


@pytest.mark.parametrize("strategy", list(Strategy))
def test_none_is_a_number_too(strategy: Strategy) -> None:
    selector = node_selector(strategy, 8, (2, 2, 2))
    held = selector.take(3)
    assert len(selector.take(0)) == 0
    assert len(selector.grow(held, 0)) == 0
    kept, released = selector.shrink(held, 0)
    assert (len(kept), len(released)) == (3, 0)
    selector.give_back(released)
    with pytest.raises(ValueError, match="not be negative, got -1"):
        selector.take(-1)
    assert selector.free == 5


@pytest.mark.parametrize("strategy", [Strategy.FIRST, Strategy.COMPACT, Strategy.CUBOID])
def test_free_nodes_are_not_given_back_again(strategy: Strategy) -> None:
    selector = node_selector(strategy, 8, (2, 2, 2))
    held = selector.take(4)
    selector.give_back(held)
    with pytest.raises(ValueError, match=r"free|taken"):
        selector.give_back(held[:1])
    assert selector.free == 8


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_pickled_selector_goes_on_as_the_first(strategy: Strategy) -> None:
    selector = node_selector(strategy, 60, (3, 4, 5))
    held = selector.take(7)
    selector.take(5)
    selector.give_back(held)
    twin = pickle.loads(pickle.dumps(selector))
    assert twin.free == selector.free
    assert list(twin.take(9)) == list(selector.take(9))
