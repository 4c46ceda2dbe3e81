"""Search for free boxes on a torus, for all places at once, in 64-bit words.

One axis of at most 64 places lies within the words; the other axes form the array. To find every
corner of a free box, the map of free nodes is combined with itself, shifted by one, two, four, ...
places along each axis of the box. The number of steps is the number of binary digits of the sides,
each on 1,280 words for a torus of 40x32x32. A summed-area table would be eight times as large for
boxes that wrap around, and it would be read in eight places for each shape.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import Box, Mask, NodeArray, Sides

WORD_BITS = 64

Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.intp]


class FreeMap:
    """Free nodes of a torus, by number and as words."""

    def __init__(self, sides: Sides, nodes: int) -> None:
        if not sides or min(sides) < 1 or math.prod(sides) < nodes:
            raise ValueError(f"a torus of {sides} has fewer than {nodes} nodes")
        self.sides = sides
        self.rows, self.width, self._axes = _layout(sides)
        places = np.arange(math.prod(sides), dtype=np.int64).reshape(*sides, 1)
        by_row = np.moveaxis(places, self._axes[-1], -1).reshape(-1, self.width)
        self._place = np.empty(places.size, dtype=np.int64)
        self._place[by_row] = (
            np.arange(len(by_row))[:, None] * WORD_BITS + np.arange(self.width)[None, :]
        )
        self._bits = np.zeros(len(by_row) * WORD_BITS, dtype=np.bool_)
        self.nodes = nodes
        self.free = 0
        self.open(np.arange(nodes, dtype=np.int32))

    def is_free(self, nodes: NodeArray) -> Mask:
        """Return for each of these nodes whether it is free."""
        return self._bits[self._place[nodes]]

    def fill(self, nodes: NodeArray) -> None:
        """Take free nodes."""
        self._bits[self._place[nodes]] = False
        self.free -= len(nodes)

    def open(self, nodes: NodeArray) -> None:
        """Release nodes. Raises ValueError if a node is free or not a node."""
        if len(nodes) and not 0 <= int(nodes.min()) <= int(nodes.max()) < self.nodes:
            raise ValueError(f"the pool has nodes 0 to {self.nodes - 1}")
        places = self._place[nodes]
        if self._bits[places].any():
            raise ValueError("a released node is already free")
        self._bits[places] = True
        self.free += len(nodes)

    def search(self) -> BoxSearch:
        """Return a search on the current map."""
        words = np.packbits(self._bits, bitorder="little").view("<u8").astype(np.uint64)
        return BoxSearch(words, self.rows, self.width, self._axes, len(self.sides))


class BoxSearch:
    """Search for boxes of several shapes on one map; it caches results shared by shapes."""

    def __init__(
        self, words: Words, rows: Sides, width: int, axes: tuple[int, ...], rank: int
    ) -> None:
        self._rows, self._width, self._axes, self._rank = rows, width, axes, rank
        self._mask = np.uint64((1 << width) - 1)
        self._found: dict[tuple[int, ...], Words | None] = {(): words}

    def find(self, shape: Sides) -> Box | None:
        """Return the free box of this shape that is tightest between taken nodes, or None.

        Ties go to the lowest corner in the order of the words.
        """
        inner = tuple((*shape, 1)[axis] for axis in self._axes)
        # The axis within the words goes first: its step is the most expensive, and all shapes share
        # its lengths.
        corners = self._corners((inner[-1], *inner[:-1]))
        if corners is None:
            return None
        row, bit = self._lowest(self._tightest(corners, inner))
        places = [int(place) for place in np.unravel_index(row, self._rows)]
        origin = [0] * (self._rank + 1)
        for axis, place in zip(self._axes, (*places, bit), strict=True):
            origin[axis] = place
        return Box(origin=tuple(origin[: self._rank]), shape=shape)

    def _corners(self, lengths: tuple[int, ...]) -> Words | None:
        """Return the corners from which the first axes are free for these lengths, or None."""
        if lengths in self._found:
            return self._found[lengths]
        before = self._corners(lengths[:-1])
        found = None
        if before is not None:
            axis = len(lengths) - 2
            eroded = self._eroded(before, axis, lengths[-1])
            found = eroded if eroded.any() else None
        self._found[lengths] = found
        return found

    def _eroded(self, words: Words, axis: int, length: int) -> Words:
        reach = 1
        while reach < length:
            step = min(reach, length - reach)
            words = words & self._shifted(words, axis, step)
            reach += step
        return words

    def _shifted(self, words: Words, axis: int, step: int) -> Words:
        """Return the values ``step`` further along an axis; -1 is the axis within the words."""
        if axis >= 0:
            return words.take(_neighbour(self._rows, axis, step % self._rows[axis]))
        step %= self._width
        if not step:
            return words
        up = words << np.uint64(self._width - step)
        return (words >> np.uint64(step) | up) & self._mask

    def _tightest(self, corners: Words, inner: tuple[int, ...]) -> Words:
        """Return the corners whose box cannot move by one place, preferred side by side."""
        best = corners
        for axis, length in enumerate(inner):
            inside = axis == len(inner) - 1
            if length == (self._width if inside else self._rows[axis]):
                continue
            for step in (-1, 1):
                tight = best & ~self._shifted(corners, -1 if inside else axis, step)
                if tight.any():
                    best = tight
        return best

    @staticmethod
    def _lowest(words: Words) -> tuple[int, int]:
        row = int(np.argmax(words != 0))
        word = int(words[row])
        return row, (word & -word).bit_length() - 1


def _layout(sides: Sides) -> tuple[Sides, int, tuple[int, ...]]:
    """Return the sides outside and inside the words, and the axes with the inner axis last.

    An axis of one place is added for a torus without an axis that fits into a word.
    """
    extended = (*sides, 1)
    inner = max(
        (axis for axis, side in enumerate(extended) if side <= WORD_BITS),
        key=lambda axis: (extended[axis], axis),
    )
    outer = tuple(axis for axis in range(len(extended)) if axis != inner)
    return tuple(extended[axis] for axis in outer), extended[inner], (*outer, inner)


@lru_cache(maxsize=4096)
def _neighbour(rows: Sides, axis: int, step: int) -> Index:
    """Return for every word the index of the word ``step`` further along an axis."""
    index = np.arange(math.prod(rows), dtype=np.intp).reshape(rows)
    return np.roll(index, -step, axis=axis).reshape(-1)
