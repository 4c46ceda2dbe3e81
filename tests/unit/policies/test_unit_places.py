"""Selection of nodes for units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.policies.placement.unit_places import Fit, chosen, in_turn


def fits(*units: int) -> list[Fit]:
    """Nodes with room for exactly these numbers of units."""
    return [Fit(count, count, at) for at, count in enumerate(units)]


@pytest.mark.parametrize(
    ("spread", "size", "nodes", "places"),
    [
        (Spread.ANY, 2, (4, 2, 3), [(1, 2)]),
        (Spread.ANY, 6, (4, 2, 3), [(0, 4), (1, 2)]),
        (Spread.ANY, 5, (1, 2, 1, 2), [(0, 1), (1, 2), (3, 2)]),
        (Spread.ANY, 10, (4, 2, 3), None),
        (Spread.TOGETHER, 3, (4, 2, 3), [(2, 3)]),
        (Spread.TOGETHER, 5, (4, 2, 3), None),
        (Spread.APART, 2, (4, 2, 3), [(1, 1), (2, 1)]),
        (Spread.APART, 4, (4, 2, 3), None),
    ],
)
def test_nodes_are_filled_and_few(
    spread: Spread, size: int, nodes: tuple[int, ...], places: list[tuple[int, int]] | None
) -> None:
    assert chosen(spread, size, fits(*nodes)) == places


def test_in_turn_the_first_nodes_are_taken_whatever_is_left() -> None:
    assert in_turn(Spread.ANY, 5, fits(4, 2, 3)) == [(0, 4), (1, 1)]
    assert in_turn(Spread.TOGETHER, 2, fits(1, 4, 2)) == [(1, 2)]
    assert in_turn(Spread.APART, 2, fits(4, 2, 3)) == [(0, 1), (1, 1)]
    assert in_turn(Spread.ANY, 9, fits(4, 2, 2)) is None


@given(
    st.sampled_from(Spread),
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), max_size=6),
)
def test_all_units_have_room_and_there_is_a_place_where_there_can_be_one(
    spread: Spread, size: int, nodes: list[tuple[int, int]]
) -> None:
    there = [Fit(units, units + spare, at) for at, (units, spare) in enumerate(nodes)]
    most = {fit.at: 1 if spread is Spread.APART else fit.units for fit in there}
    able = max(most.values(), default=0) if spread is Spread.TOGETHER else sum(most.values())
    for places in (chosen(spread, size, there), in_turn(spread, size, there)):
        assert (places is not None) == (able >= size)
        if places is not None:
            assert sum(units for _, units in places) == size
            assert all(0 < units <= most[at] for at, units in places)
            assert len({at for at, _ in places}) == len(places)
            assert spread is not Spread.TOGETHER or len(places) == 1
