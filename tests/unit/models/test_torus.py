"""Hops, boxes and links against values counted by hand, and boxes against general sets."""

import numpy as np
import pytest

from wattfold.coordinator.models.resize_cost import Resize
from wattfold.coordinator.models.torus import (
    Box,
    bisection_links,
    bounding_box,
    box_bisection,
    box_nodes,
    ideal_bisection,
    mean_hops,
    surface_links,
)


def test_the_shortest_box_may_wrap_around() -> None:
    # Rows 3 and 0, columns 4, 0 and 1.
    box = bounding_box((4, 5), np.array([19, 15, 1]))
    assert box == Box(origin=(3, 4), shape=(2, 3))
    assert sorted(box_nodes((4, 5), box).tolist()) == [0, 1, 4, 15, 16, 19]
    assert bounding_box((4, 5), np.arange(20)) == Box(origin=(0, 0), shape=(4, 5))


def test_no_nodes_have_no_box() -> None:
    with pytest.raises(ValueError, match="a box needs nodes"):
        bounding_box((4, 5), np.array([], dtype=np.int32))


def test_hops_along_a_ring() -> None:
    # 0-1, 0-2, 0-3, 1-2, 1-3, 2-3 on a ring of four: 1, 2, 1, 1, 2, 1.
    assert mean_hops((4,), [0, 1, 2, 3]) == pytest.approx(8 / 6)
    assert mean_hops((10,), [0, 9]) == 1.0
    assert mean_hops((10,), [3]) == 0.0


@pytest.mark.parametrize(
    ("shape", "links"),
    [
        ((2, 2, 2), 4),
        ((4, 4, 4), 16),
        ((2, 2, 8), 8),  # all the way round the last side: twice the face of 4
        ((2, 2, 6), 4),
        ((8, 8, 8), 128),
        ((1, 1, 1), 1),
    ],
)
def test_links_across_a_box(shape: tuple[int, int, int], links: int) -> None:
    sides = (8, 8, 8)
    assert box_bisection(sides, shape) == links
    nodes = box_nodes(sides, Box(origin=(5, 6, 7), shape=shape))
    assert bisection_links(sides, nodes) == links


def test_a_side_of_two_has_one_link() -> None:
    assert box_bisection((2, 2, 2), (2, 2, 2)) == 4
    assert bisection_links((2, 2, 2), range(8)) == 4


def test_scattered_nodes_share_a_link() -> None:
    assert bisection_links((8, 8, 8), [0, 100, 300]) == 1


def test_links_to_the_outside() -> None:
    assert surface_links((8, 8, 8), (2, 3, 4)) == 2 * (12 + 8 + 6)
    assert surface_links((8, 8, 8), (2, 8, 8)) == 2 * 64
    assert surface_links((8, 8, 8), (8, 8, 8)) == 0


def test_a_cube_that_is_a_torus_has_the_published_links() -> None:
    assert box_bisection((4, 4, 4), (4, 4, 4)) == pytest.approx(ideal_bisection(64))


def test_a_resize_goes_through_the_links_it_is_given() -> None:
    def transfer_s(links: float | None) -> float:
        return Resize(
            data_mb=6400.0,
            nodes_from=64,
            nodes_to=128,
            link_mb_per_s=50.0,
            bisection_links=links,
        ).transfer_s

    # 3200 MB through 16 links of 50 MB/s; 32 links are the ideal cube's.
    assert transfer_s(16.0) == pytest.approx(4.0)
    assert transfer_s(32.0) == pytest.approx(transfer_s(None))
    with pytest.raises(ValueError, match="needs a link"):
        transfer_s(0.0)
