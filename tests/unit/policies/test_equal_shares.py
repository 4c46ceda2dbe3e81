"""The rule of equipartition against a literal implementation, on random instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.coordinator.policies.equipartition.shares import equal_shares

ENDS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
    max_size=8,
)


def handed_out_one_by_one(ends: list[tuple[int, int]], units: int) -> list[int]:
    """Literal form of the rule: one unit at a time to the job with the fewest above its minimum."""
    sizes = [low for low, _ in ends]
    for _ in range(units - sum(sizes)):
        open_ = [i for i, (_, high) in enumerate(ends) if sizes[i] < high]
        if not open_:
            break
        sizes[min(open_, key=lambda i: (sizes[i] - ends[i][0], i))] += 1
    return sizes


@given(ends=ENDS, more=st.integers(0, 100))
def test_it_is_as_if_units_were_handed_out_one_by_one(
    ends: list[tuple[int, int]], more: int
) -> None:
    units = sum(low for low, _ in ends) + more
    least, greatest = [low for low, _ in ends], [high for _, high in ends]
    assert equal_shares(least, greatest, units) == handed_out_one_by_one(ends, units)


@given(ends=ENDS, more=st.integers(0, 100), data=st.data())
def test_weights_share_all_there_is_within_the_bounds(
    ends: list[tuple[int, int]], more: int, data: st.DataObject
) -> None:
    weights = [data.draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in ends]
    units = sum(low for low, _ in ends) + more
    sizes = equal_shares([low for low, _ in ends], [high for _, high in ends], units, weights)
    assert all(low <= size <= high for (low, high), size in zip(ends, sizes, strict=True))
    assert sum(sizes) == min(units, sum(high for _, high in ends))


def test_a_weight_counts_for_what_is_left_over() -> None:
    assert equal_shares([2, 2], [64, 64], 64, [1.0, 3.0]) == [17, 47]


@pytest.mark.parametrize(("least", "greatest"), [([5], [9]), ([3], [2])])
def test_what_cannot_be_is_refused(least: list[int], greatest: list[int]) -> None:
    with pytest.raises(ValueError, match=r"are below the required \d, or a minimum"):
        equal_shares(least, greatest, 4)
