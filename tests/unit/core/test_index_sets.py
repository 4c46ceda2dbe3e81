"""Indices of arrays: their text, their order, and parts of them."""

from __future__ import annotations

import pytest

from wattfold.contract.ids import array_of, task_of
from wattfold.contract.index_set import parse_array, parse_indices


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0-3", [0, 1, 2, 3]),
        ("7", [7]),
        ("1,3,7-12:2", [1, 3, 7, 9, 11]),
        ("0-4:2,1-5:2", [0, 2, 4, 1, 3, 5]),
        ("9,1-2", [1, 2, 9]),
    ],
)
def test_indices_in_their_order(text: str, indices: list[int]) -> None:
    found = parse_indices(text)
    assert [found[position] for position in range(len(found))] == indices
    assert [found.position(index) for index in indices] == list(range(len(indices)))
    assert parse_indices(str(found)) == found
    assert (found.lowest, found.highest) == (min(indices), max(indices))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is not an index"),
        ("a", "'a' is not an index"),
        ("1-", "'1-' is not an index"),
        ("3-1", "the last index is below the first"),
        ("1-5:0", "the step must be at least 1"),
        ("1,1", "index 1 is given twice"),
        ("0-10,4-20:3", "index 4 is given twice"),
        ("4000001", "exceeds the limit of 4000000"),
        ("0-1000000", "1000001 tasks exceed the limit of 1000000"),
        ("1%0", "limit '0' of concurrent tasks"),
        ("1%x", "limit 'x' of concurrent tasks"),
        ("1" * 5000, "index list of 5000 characters"),
    ],
)
def test_wrong_texts_are_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_array(text)


def test_a_limit_follows_the_indices() -> None:
    indices, limit = parse_array("0-99%10")
    assert (str(indices), limit) == ("0-99", 10)


def test_parts_of_a_set() -> None:
    found = parse_indices("0-9,20-29")
    assert str(found.after(12)) == "22-29"
    assert str(found.without([0, 5, 29])) == "1-4,6-9,20-28"
    assert str(found.after(2).with_indices([1, 0])) == "0-9,20-29"


def test_ids_of_tasks() -> None:
    assert task_of("12_7") == ("12", 7)
    assert array_of("12_7") == "12"
    assert [task_of(text) for text in ("12", "a_7", "12_07", "0_1", "12_7_1", "12_-1")] == [
        None
    ] * 6
