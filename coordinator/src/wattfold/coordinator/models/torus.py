"""Compactness of a set of nodes of a torus: hops between nodes, links across the middle.

Nodes are numbered row by row (the last side fastest). Each node is linked to its neighbours in
every direction, with wrap-around; two nodes of a side of 2 share one link. Boxes may wrap around an
end. Only the set's own links count, not routes that leave the set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Sides = tuple[int, ...]
NodeArray = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A cuboid of a torus: its first corner and its sides; it may wrap around."""

    origin: Sides
    shape: Sides

    @property
    def volume(self) -> int:
        """Number of nodes."""
        return math.prod(self.shape)


def box_nodes(sides: Sides, box: Box) -> NodeArray:
    """Return the nodes of a box, first layer first (not sorted if the box wraps around)."""
    flat = np.zeros(1, dtype=np.int32)
    for side, start, length in zip(sides, box.origin, box.shape, strict=True):
        along = (np.arange(start, start + length, dtype=np.int32)) % side
        flat = (flat[:, None] * np.int32(side) + along[None, :]).reshape(-1)
    return flat


def bounding_box(sides: Sides, nodes: npt.NDArray[Any]) -> Box:
    """Return the smallest box around a set, wrapping around if that is shorter.

    Raises ValueError for an empty set.
    """
    if not len(nodes):
        raise ValueError("a box needs nodes")
    spans = [
        _span(np.bincount(along, minlength=side))
        for side, along in zip(sides, np.unravel_index(nodes, sides), strict=True)
    ]
    return Box(origin=tuple(start for start, _ in spans), shape=tuple(n for _, n in spans))


def surface_links(sides: Sides, shape: Sides) -> int:
    """Return the number of links that leave a box; a side around the whole torus has none."""
    volume = math.prod(shape)
    return sum(
        2 * volume // length for side, length in zip(sides, shape, strict=True) if length < side
    )


def box_bisection(sides: Sides, shape: Sides) -> int:
    """Return the links between the halves of a whole box, at least 1, as in `bisection_links`.

    Across an axis of even length these are the links of one face, or of two faces if the box spans
    the whole side. An axis of odd length adds the links between the halves of its middle layer.
    """
    axes = list(zip(shape, sides, strict=True))
    cuts = [
        _halved([*sorted(axes[:axis] + axes[axis + 1 :]), axes[axis]])
        for axis, length in enumerate(shape)
        if length > 1
    ]
    return min(cuts, default=1)


def bisection_links(sides: Sides, nodes: npt.NDArray[Any] | Sequence[int]) -> int:
    """Return the links between the halves of any set of nodes, at least 1.

    The set is halved along each axis of its bounding box. The middle layer of an axis of odd length
    is halved along its own longest axis, and so on. The result is the smallest number of torus
    links between two halves; without wrap-around this is the cut across the longest axis of a box.
    It is our interpretation of the bandwidth for moving the data of a job. A fragmented set has few
    or no links of its own; the result is then at least 1.
    """
    members = np.asarray(nodes, dtype=np.int64)
    if len(members) < 2:
        return 1
    box = bounding_box(sides, members)
    cells = np.zeros(box.shape, dtype=np.bool_)
    along = np.unravel_index(members, sides)
    cells[
        tuple((at - start) % side for at, start, side in zip(along, box.origin, sides, strict=True))
    ] = True
    rounds = [_places(side, length) == 2 for side, length in zip(sides, box.shape, strict=True)]
    cuts = []
    for axis in range(len(sides)):
        if box.shape[axis] > 1:
            rest = sorted((n, sides[i], i) for i, n in enumerate(box.shape) if i != axis)
            order = [axis, *(i for _, _, i in reversed(rest))]
            cuts.append(_links_between_halves(cells.transpose(order), [rounds[i] for i in order]))
    return max(1, min(cuts))


def mean_hops(sides: Sides, nodes: npt.NDArray[Any] | Sequence[int]) -> float:
    """Return the mean hops between two different nodes of a set; 0 for a single node.

    The result is exact: hops add up over the axes. Along an axis only the number of nodes in each
    layer matters, so an autocorrelation of these numbers covers all pairs.
    """
    members = np.asarray(nodes, dtype=np.int64)
    count = len(members)
    if count < 2:
        return 0.0
    total = 0.0
    for side, along in zip(sides, np.unravel_index(members, sides), strict=True):
        spectrum = np.fft.rfft(np.bincount(along, minlength=side))
        pairs = np.rint(np.fft.irfft(np.abs(spectrum) ** 2, n=side))
        shift = np.arange(side)
        total += float(pairs @ np.minimum(shift, side - shift))
    return total / (count * (count - 1))


def ideal_bisection(nodes: int) -> float:
    """Return the links across the middle of a cube that is a torus itself (PARM, Eq. 20).

    This is twice the number for a cube within a larger torus, which has no wrap-around links.
    """
    # A cut through n^(2/3) rows crosses each of them twice, because of the wrap-around.
    return 2.0 * math.pow(nodes, 2.0 / 3.0)


def _span(layers: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return start and length of the shortest stretch of a ring with all occupied layers."""
    occupied = np.flatnonzero(layers)
    side = len(layers)
    gap_before = (occupied - np.roll(occupied, 1) - 1) % side
    widest = int(np.argmax(gap_before))
    return int(occupied[widest]), side - int(gap_before[widest])


def _places(side: int, length: int) -> int:
    """Return the number of places at which a plane that halves the stretch cuts the ring."""
    return 2 if length == side > 2 else 1


def _halved(lengths: list[tuple[int, int]]) -> int:
    """Return the links between the halves of a box along its last axis; axes as (length, side)."""
    length, side = lengths[-1]
    rest = lengths[:-1]
    links = math.prod(n for n, _ in rest) * _places(side, length) if length > 1 else 0
    return links + (_halved(rest) if rest and length % 2 else 0)


def _links_between_halves(cells: Mask, rounds: list[bool]) -> int:
    """Return the links between the first half of the cells, in order of position, and the rest."""
    flat = cells.reshape(-1)
    places = np.flatnonzero(flat)
    first = np.zeros_like(flat)
    first[places[: len(places) // 2]] = True
    lower = first.reshape(cells.shape)
    upper = cells & ~lower
    links = 0
    for axis, goes_round in enumerate(rounds):
        ahead, behind = np.moveaxis(lower, axis, 0), np.moveaxis(upper, axis, 0)
        pairs = [(ahead[:-1], behind[1:]), (behind[:-1], ahead[1:])]
        if goes_round:
            pairs += [(ahead[-1], behind[0]), (behind[-1], ahead[0])]
        links += sum(int(np.count_nonzero(one & other)) for one, other in pairs)
    return links
