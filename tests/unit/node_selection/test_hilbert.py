"""The order of nodes along the Hilbert curve."""

import numpy as np
import pytest

from wattfold.coordinator.policies.placement.hilbert import curve_order


@pytest.mark.parametrize("sides", [(8, 8), (4, 4, 4), (16, 16, 16), (4, 4, 4, 4)])
def test_on_a_cube_of_a_power_of_two_the_next_place_is_a_neighbour(sides: tuple[int, ...]) -> None:
    order = curve_order(sides)
    along = np.stack(np.unravel_index(order, sides))
    assert (np.abs(np.diff(along, axis=1)).sum(axis=0) == 1).all()


@pytest.mark.parametrize("sides", [(1,), (7,), (5, 3), (40, 32, 3), (1, 1, 1)])
def test_every_place_comes_once(sides: tuple[int, ...]) -> None:
    assert np.array_equal(np.sort(curve_order(sides)), np.arange(np.prod(sides)))
