"""Which boxes to look for on a torus, and which nodes of a box to use.

A job of n nodes may sit in any box of at least n places. Only the least ones are listed (no side
can be shortened), those with the fewest links to the outside first: these are nearest to cubes, or
go all the way round.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import (
    Box,
    NodeArray,
    Sides,
    bounding_box,
    box_bisection,
    surface_links,
)


@lru_cache(maxsize=4096)
def shapes(sides: Sides, count: int, surface_limit: float) -> tuple[Sides, ...]:
    """Shapes of boxes for so many nodes, best first; at least one.

    Order: links to the outside, then links across the middle (more is better), then places, then
    the shape. Those with more than ``surface_limit`` times the links of the first are left out.
    """
    found = [tuple(shape) for shape in _least_shapes(sides, count).tolist()]
    keyed = sorted(
        (surface_links(sides, shape), -box_bisection(sides, shape), math.prod(shape), shape)
        for shape in found
    )
    # A shape that fills the torus has no links to the outside; a cube's surface is never below n^
    # (2/3) by much, so that it stands in for the first where that is smaller.
    most = surface_limit * max(keyed[0][0], 2.0 * len(sides) * math.pow(count, 1 - 1 / len(sides)))
    return tuple(shape for links, _, _, shape in keyed if links <= most)


def corner_first(sides: Sides, nodes: npt.NDArray[Any], count: int) -> NodeArray:
    """``count`` of these nodes, sorted: as near to a cube in a corner of their box as there are.

    A node's turn is its greatest distance along an axis from the corner, so that what is left over
    is a part of the last layers.
    """
    if count == len(nodes):
        return np.sort(nodes).astype(np.int32, copy=False)
    if not count:
        return np.zeros(0, dtype=np.int32)
    box = bounding_box(sides, nodes)
    return np.sort(nodes[_turns(sides, nodes, box).argpartition(count - 1)[:count]]).astype(
        np.int32, copy=False
    )


def _turns(sides: Sides, nodes: npt.NDArray[Any], box: Box) -> npt.NDArray[np.int64]:
    along = np.stack(np.unravel_index(nodes, sides)).astype(np.int64)
    lengths = np.array(sides)[:, None]
    away = (along - np.array(box.origin)[:, None]) % lengths
    # One face after the other within a shell, the nodes of a face row by row: no two turns equal.
    turn: npt.NDArray[np.int64] = away.max(axis=0) * len(sides) + away.argmax(axis=0)
    for row, side in zip(away, sides, strict=True):
        turn = turn * side + row
    return turn


def _least_shapes(sides: Sides, count: int) -> npt.NDArray[np.int64]:
    """All shapes within the torus that hold ``count`` and no longer do with a side shortened."""
    fronts = np.indices(sides[:-1]).reshape(len(sides) - 1, -1) + 1
    face = fronts.prod(axis=0) if len(fronts) else np.ones(1, dtype=np.int64)
    last = -(-count // face)
    every = np.concatenate([fronts, last[None, :]]).T
    volume = every.prod(axis=1)
    least = (volume - volume // every.T < count).all(axis=0) & (last <= sides[-1])
    return np.asarray(every[least], dtype=np.int64)
