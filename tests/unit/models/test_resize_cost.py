"""Eq. 20, 21 and the rule for shrinking against hand-computed values."""

import pytest

from wattfold.coordinator.models.resize_cost import Resize, charge_s


def resize(nodes_from: int, nodes_to: int) -> Resize:
    return Resize(data_mb=6400.0, nodes_from=nodes_from, nodes_to=nodes_to, link_mb_per_s=50.0)


def test_growth() -> None:
    # (6400/64 - 6400/128) * 64 / (2 * 50 * 16) = 3200 / 1600
    grown = resize(64, 128)
    assert grown.transfer_s == pytest.approx(2.0)
    # 64 * 0.01904 + 72.73
    assert grown.boot_s == pytest.approx(73.94856)
    assert grown.total_s == pytest.approx(75.94856)


def test_shrink_moves_what_leaves_through_what_stays_and_boots_nothing() -> None:
    # 6400/128 * 64 = 3200 MB through 2 * 50 * 16 MB/s
    shrunk = resize(128, 64)
    assert shrunk.transfer_s == pytest.approx(2.0)
    assert shrunk.boot_s == 0.0


def test_no_change_costs_nothing() -> None:
    assert resize(64, 64).total_s == 0.0


def test_a_decision_charges_twice_the_longest() -> None:
    assert charge_s([resize(64, 128), resize(128, 64)]) == pytest.approx(2 * 75.94856)
    assert charge_s([]) == 0.0


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        resize(0, 4)
