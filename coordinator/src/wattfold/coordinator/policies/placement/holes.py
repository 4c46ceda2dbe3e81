"""Free nodes as holes: maximal runs of consecutive free numbers.

Holes are stored in two sorted orders, by position and by length, so finding, splitting and merging
take a binary search. A pool of 55,248 nodes has at most half as many holes, in practice a few
hundred. For such numbers, moving the tail of a list is cheaper than a tree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import NodeArray

Run = tuple[int, int]
"""Range of consecutive numbers; the second number is excluded."""


class Holes:
    """The holes of a pool; initially a single hole."""

    __slots__ = ("_by_length", "_nodes", "_starts", "_stops", "free")

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._starts = [0] if nodes else []
        self._stops = [nodes] if nodes else []
        self._by_length = [(nodes, 0)] if nodes else []
        self.free = nodes

    def lowest(self) -> Run:
        """Return the first hole; there must be one."""
        return self._starts[0], self._stops[0]

    def largest(self) -> Run:
        """Return the longest hole, the last of equals; there must be one."""
        length, start = self._by_length[-1]
        return start, start + length

    def best_fit(self, length: int) -> Run | None:
        """Return the shortest hole of at least ``length``, the first of equals, or None."""
        index = bisect_left(self._by_length, (length, -1))
        if index == len(self._by_length):
            return None
        size, start = self._by_length[index]
        return start, start + size

    def starting_at(self, node: int) -> Run | None:
        """Return the hole that begins with this node, or None."""
        index = bisect_left(self._starts, node)
        if index < len(self._starts) and self._starts[index] == node:
            return node, self._stops[index]
        return None

    def ending_at(self, node: int) -> Run | None:
        """Return the hole that ends just before this node, or None."""
        index = bisect_left(self._stops, node)
        if index < len(self._stops) and self._stops[index] == node:
            return self._starts[index], node
        return None

    def fill(self, start: int, stop: int) -> None:
        """Take a run that lies within one hole. Raises ValueError if it does not."""
        index = bisect_right(self._starts, start) - 1
        if index < 0 or stop > self._stops[index] or start >= stop:
            raise ValueError(f"nodes {start} to {stop - 1} are not all free")
        first, last = self._starts[index], self._stops[index]
        self._unlist(first, last)
        rest = [run for run in ((first, start), (stop, last)) if run[0] < run[1]]
        self._starts[index : index + 1] = [run[0] for run in rest]
        self._stops[index : index + 1] = [run[1] for run in rest]
        for run in rest:
            insort(self._by_length, (run[1] - run[0], run[0]))
        self.free -= stop - start

    def open(self, start: int, stop: int) -> None:
        """Release a run and merge it with adjacent holes. Raises ValueError if any node is free."""
        index = bisect_left(self._starts, start)
        free_before = index > 0 and self._stops[index - 1] > start
        free_behind = index < len(self._starts) and self._starts[index] < stop
        if free_before or free_behind or not 0 <= start < stop <= self._nodes:
            raise ValueError(f"nodes {start} to {stop - 1} are not all taken nodes of the pool")
        first, last, low, high = start, stop, index, index
        if index > 0 and self._stops[index - 1] == start:
            low, first = index - 1, self._starts[index - 1]
            self._unlist(first, start)
        if index < len(self._starts) and self._starts[index] == stop:
            high, last = index + 1, self._stops[index]
            self._unlist(stop, last)
        self._starts[low:high] = [first]
        self._stops[low:high] = [last]
        insort(self._by_length, (last - first, first))
        self.free += stop - start

    def _unlist(self, start: int, stop: int) -> None:
        del self._by_length[bisect_left(self._by_length, (stop - start, start))]


def runs_of(nodes: npt.NDArray[np.int32]) -> list[Run]:
    """Return the runs of a set of nodes in any order, by position."""
    if not len(nodes):
        return []
    ordered = np.sort(nodes)
    breaks = np.flatnonzero(np.diff(ordered) != 1)
    starts = [int(ordered[0]), *ordered[breaks + 1].tolist()]
    stops = [*ordered[breaks].tolist(), int(ordered[-1])]
    return [(start, stop + 1) for start, stop in zip(starts, stops, strict=True)]


def nodes_of(runs: Iterable[Run]) -> NodeArray:
    """Return the nodes of disjoint runs, sorted."""
    pieces = [np.arange(start, stop, dtype=np.int32) for start, stop in sorted(runs)]
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int32)


class HoleSelector:
    """Base class of strategies that store free nodes as holes and return sorted arrays."""

    __slots__ = ("_holes",)

    def __init__(self, nodes: int) -> None:
        self._holes = Holes(nodes)

    @property
    def free(self) -> int:
        """Number of free nodes."""
        return self._holes.free

    def give_back(self, nodes: NodeArray) -> None:
        """Release the nodes of a job. Raises ValueError if a node was free."""
        for start, stop in runs_of(nodes):
            self._holes.open(start, stop)
