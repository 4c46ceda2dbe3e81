"""Candidate boxes on a torus, and the choice of nodes in a box.

A job of n nodes may use any box of at least n places. Only minimal boxes are listed: shortening any
side would add links to the outside. They are sorted by the number of links to the outside. The
first boxes are nearly cubes or wrap around the torus.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import (
    NodeArray,
    Sides,
    bounding_box,
    surface_links,
)


@lru_cache(maxsize=4096)
def shapes(
    sides: Sides, count: int, surface_limit: float, within: Sides | None = None
) -> tuple[Sides, ...]:
    """Return shapes of boxes for ``count`` nodes, best first; at least one shape.

    All shapes fit into ``within``. Order: links to the outside, then places, then the longest side,
    then the shape. Shapes with more than ``surface_limit`` times the links of the first are
    omitted.
    """
    found = [tuple(shape) for shape in _least_shapes(sides, within or sides, count).tolist()]
    keyed = sorted(
        (surface_links(sides, shape), math.prod(shape), max(shape), shape) for shape in found
    )
    # A shape that fills the torus has no links to the outside, so a cube is the minimum reference.
    cube_links = 2.0 * len(sides) * math.pow(count, 1 - 1 / len(sides))
    most = surface_limit * max(keyed[0][0], cube_links)
    return tuple(shape for links, _, _, shape in keyed if links <= most)


def corner_first(sides: Sides, nodes: npt.NDArray[Any], count: int) -> NodeArray:
    """Return ``count`` of these nodes, sorted: a corner of their box, in the best shape.

    The unused places of that shape are the end of its last layer and no part of a ring, so an axis
    that wraps around keeps its links around the end.
    """
    if count == len(nodes):
        return np.sort(nodes).astype(np.int32, copy=False)
    if not count:
        return np.zeros(0, dtype=np.int32)
    turns = _turns(sides, nodes, count)
    return np.sort(nodes[turns.argpartition(count - 1)[:count]]).astype(np.int32, copy=False)


def _turns(sides: Sides, nodes: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """Return different numbers that order the nodes by preference."""
    box = bounding_box(sides, nodes)
    shape = shapes(sides, count, 1.0, box.shape)[0]
    along = np.unravel_index(nodes, sides)
    away = [(at - start) % side for at, start, side in zip(along, box.origin, sides, strict=True)]
    turn = np.zeros(len(nodes), dtype=np.int64)
    for steps, length in zip(away, shape, strict=True):
        np.maximum(turn, steps // length, out=turn)
    for axis in sorted(range(len(sides)), key=lambda a: (shape[a] == sides[a], -shape[a])):
        turn = turn * sides[axis] + away[axis]
    return turn


def _least_shapes(sides: Sides, within: Sides, count: int) -> npt.NDArray[np.int64]:
    """Return the minimal shapes for ``count`` places: with any shorter side they are too small.

    A side that wraps around the torus may be longer, because cutting it adds two ends.
    """
    fronts = np.indices(within[:-1]).reshape(len(within) - 1, math.prod(within[:-1])) + 1
    face = fronts.prod(axis=0)
    last = -(-count // face)
    ends = [last, np.full_like(last, within[-1])] if within[-1] == sides[-1] else [last]
    every = np.concatenate([np.concatenate([fronts, end[None, :]]) for end in ends], axis=1)
    volume = every.prod(axis=0)
    needed = volume - volume // every < count
    rings = every == np.array(sides)[:, None]
    least = (needed | rings).all(axis=0) & (needed.all(axis=0) | ~rings.all(axis=0))
    holds = (volume >= count) & (every[-1] <= within[-1])
    return np.unique(every[:, least & holds].T, axis=0).astype(np.int64, copy=False)
