"""Any sequence of calls on any strategy: no node is held twice or lost, and nothing is random."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.models.torus import (
    Box,
    bisection_links,
    bounding_box,
    box_bisection,
    box_nodes,
    mean_hops,
)
from wattfold.coordinator.policies.placement.boxes import shapes
from wattfold.coordinator.policies.placement.compact import CompactSelector
from wattfold.coordinator.policies.placement.cuboid import CuboidSelector
from wattfold.coordinator.policies.placement.free_boxes import FreeMap
from wattfold.coordinator.policies.placement.selector import (
    NodeSelector,
    NotEnoughFreeNodes,
    Strategy,
    joined,
)
from wattfold.coordinator.policies.placement.strategies import node_selector

Call = tuple[str, int, int]

tori = st.one_of(
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 70), st.integers(1, 4)),
    st.tuples(*[st.integers(1, 3)] * 4),
)
calls = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "grow", "shrink", "give_back"]),
        st.integers(0, 7),
        st.integers(0, 40),
    ),
    max_size=30,
)


def carry_out(selector: NodeSelector[Any], nodes: int, todo: list[Call]) -> list[list[int]]:
    """Make the calls, check the state after each, and return the selected nodes of every call."""
    jobs: list[Any] = []
    given_out = []
    for kind, which, count in todo:
        free = selector.free
        index = which % len(jobs) if jobs else 0
        if kind == "take" or not jobs:
            try:
                jobs.append(selector.take(count))
            except NotEnoughFreeNodes:
                assert free < count
                continue
            assert len(jobs[-1]) == count <= free
            given_out.append([int(node) for node in jobs[-1]])
        elif kind == "grow":
            try:
                added = selector.grow(jobs[index], count)
            except NotEnoughFreeNodes:
                assert free < count
                continue
            assert len(added) == count <= free
            given_out.append([int(node) for node in added])
            jobs[index] = joined(jobs[index], added)
        elif kind == "shrink":
            leaving = min(count, len(jobs[index]))
            before = {int(node) for node in jobs[index]}
            kept, released = selector.shrink(jobs[index], leaving)
            assert len(released) == leaving
            assert {int(node) for node in joined(kept, released)} == before
            assert selector.free == free + leaving
            jobs[index] = kept
        else:
            selector.give_back(jobs.pop(index))
        held = [int(node) for job in jobs for node in job]
        assert len(set(held)) == len(held) == nodes - selector.free
        assert all(0 <= node < nodes for node in held)
    rest = [int(node) for node in selector.take(selector.free)]
    held = [int(node) for job in jobs for node in job]
    assert sorted(held + rest) == list(range(nodes))
    return given_out


@given(sides=tori, missing=st.integers(0, 5), todo=calls, strategy=st.sampled_from(Strategy))
def test_nothing_overlaps_nothing_is_lost_and_nothing_is_left_to_chance(
    sides: tuple[int, ...], missing: int, todo: list[Call], strategy: Strategy
) -> None:
    nodes = max(1, int(np.prod(sides)) - missing)
    first = carry_out(node_selector(strategy, nodes, sides), nodes, todo)
    assert carry_out(node_selector(strategy, nodes, sides), nodes, todo) == first


@given(sides=tori, data=st.data())
def test_a_free_box_is_found_exactly_where_there_is_one(
    sides: tuple[int, ...], data: st.DataObject
) -> None:
    places = int(np.prod(sides))
    share = data.draw(st.sampled_from([0.05, 0.2, 0.5]))
    seed = data.draw(st.integers(0, 99))
    shape = tuple(data.draw(st.integers(1, min(side, 4))) for side in sides)
    taken = np.flatnonzero(np.random.default_rng(seed).random(places) < share).astype(np.int32)
    state = FreeMap(sides, places)
    state.fill(taken)
    found = state.search().find(shape)
    free = np.ones(places, dtype=np.bool_)
    free[taken] = False
    possible = any(
        free[box_nodes(sides, Box(origin=origin, shape=shape))].all()
        for origin in np.ndindex(*sides)
    )
    assert (found is not None) == possible
    if found is not None:
        assert found.shape == shape
        assert all(0 <= at < side for at, side in zip(found.origin, sides, strict=True))
        assert free[box_nodes(sides, found)].all()


@given(sides=tori, data=st.data())
def test_shapes_hold_the_job_fit_the_torus_and_cannot_be_cut(
    sides: tuple[int, ...], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, int(np.prod(sides))))
    listed = shapes(sides, count, 1.5)
    assert listed
    for shape in listed:
        volume = int(np.prod(shape))
        assert all(1 <= length <= side for length, side in zip(shape, sides, strict=True))
        assert volume >= count
        assert all(
            length == side or volume - volume // length < count
            for length, side in zip(shape, sides, strict=True)
        )


@given(sides=tori, data=st.data())
def test_a_job_on_an_empty_torus_lies_in_a_box_of_a_listed_shape(
    sides: tuple[int, ...], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, int(np.prod(sides))))
    nodes = CuboidSelector(sides).take(count)
    best = shapes(sides, count, 1.2)[0]
    box = bounding_box(sides, nodes)
    assert all(length <= most for length, most in zip(box.shape, best, strict=True))


@given(sides=st.tuples(*[st.integers(8, 12)] * 3), part=st.floats(0.0, 0.25))
def test_boxes_of_up_to_a_quarter_of_the_torus_have_at_least_half_the_links_of_runs(
    sides: tuple[int, ...], part: float
) -> None:
    # The box is chosen for its links to the outside. A run that happens to fill rings can have more
    # internal links, because these count twice in a cut: up to a third more in the searched cases.
    places = int(np.prod(sides))
    count = max(1, round(part * places))
    cuboid = bisection_links(sides, CuboidSelector(sides).take(count))
    compact = bisection_links(sides, CompactSelector(places).take(count))
    assert 2 * cuboid >= compact


@given(sides=tori, data=st.data())
def test_hops_are_those_of_all_pairs(sides: tuple[int, ...], data: st.DataObject) -> None:
    places = int(np.prod(sides))
    nodes = (
        data.draw(st.lists(st.integers(0, places - 1), min_size=2, max_size=20, unique=True))
        if places > 1
        else [0]
    )
    along = np.stack(np.unravel_index(nodes, sides))
    apart = np.abs(along[:, :, None] - along[:, None, :])
    lengths = np.array(sides)[:, None, None]
    total = np.minimum(apart, lengths - apart).sum()
    pairs = len(nodes) * (len(nodes) - 1)
    assert mean_hops(sides, nodes) == (total / pairs if pairs else 0.0)


@given(sides=tori, data=st.data())
def test_links_of_a_box_are_counted_alike_as_box_and_as_set(
    sides: tuple[int, ...], data: st.DataObject
) -> None:
    shape = tuple(data.draw(st.integers(1, side)) for side in sides)
    origin = tuple(data.draw(st.integers(0, side - 1)) for side in sides)
    nodes = box_nodes(sides, Box(origin=origin, shape=shape))
    assert bisection_links(sides, nodes) == box_bisection(sides, shape)
