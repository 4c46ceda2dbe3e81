"""Placement in boxes of a torus that are nearly cubes, so jobs communicate over their own links.

A new job gets the free box with the fewest links to the outside that holds it; boxes may wrap
around. It takes the needed places of the box, or on request all of them, as on machines that are
wired in blocks. If no such box is free, it gets the shortest stretch of a Hilbert curve with enough
free nodes. Growth first fills the box of the job and adds layers to one face of it. If these are
not free, it uses the nearest free nodes. A shrinking job keeps a corner of its box.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.torus import (
    Box,
    NodeArray,
    Sides,
    bounding_box,
    box_nodes,
    surface_links,
)
from wattfold.coordinator.policies.placement.boxes import corner_first, shapes
from wattfold.coordinator.policies.placement.free_boxes import FreeMap
from wattfold.coordinator.policies.placement.hilbert import curve_order
from wattfold.coordinator.policies.placement.selector import check_released, check_wanted


class CuboidSelector:
    """Free nodes of a torus; it returns sorted int32 arrays.

    If there are fewer ``nodes`` than places in the torus, the last places are empty. With
    ``whole_boxes``, `take` may return more nodes than requested: all nodes of the box. Boxes with
    more than ``surface_limit`` times the links of the best box are not considered. They are long or
    flat, and no better than a stretch of the curve. Raises ValueError if the torus is too small.
    """

    def __init__(
        self,
        sides: Sides,
        nodes: int | None = None,
        *,
        whole_boxes: bool = False,
        surface_limit: float = 1.1,
    ) -> None:
        self._sides = sides
        self._map = FreeMap(sides, math.prod(sides) if nodes is None else nodes)
        self._curve = curve_order(sides)
        self._whole_boxes = whole_boxes
        self._surface_limit = surface_limit

    @property
    def free(self) -> int:
        """Number of free nodes."""
        return self._map.free

    def take(self, count: int) -> NodeArray:
        """Take a box, or a stretch of the curve. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        if not count:
            return np.zeros(0, dtype=np.int32)
        box = self._free_box(count)
        if box is None:
            nodes = self._stretch(count)
        else:
            inside = box_nodes(self._sides, box)
            used = box.volume if self._whole_boxes else count
            nodes = corner_first(self._sides, inside, used)
        self._map.fill(nodes)
        return nodes

    def grow(self, held: NodeArray, count: int) -> NodeArray:
        """Take nodes in the box of the job and next to it. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        if not count:
            return np.zeros(0, dtype=np.int32)
        if not len(held):
            return self.take(count)
        box = bounding_box(self._sides, held)
        inside = box_nodes(self._sides, box)
        inside = inside[self._map.is_free(inside)]
        layers = self._layers(box, count - len(inside)) if len(inside) < count else None
        if layers is None:
            nodes = self._nearest(box, count)
        else:
            beside = layers[: count - len(inside)]
            nodes = np.sort(np.concatenate([inside, beside]))
        self._map.fill(nodes)
        return nodes

    def shrink(self, held: NodeArray, count: int) -> tuple[NodeArray, NodeArray]:
        """Keep the nodes nearest to a corner of the job's box. Raises ValueError for too many."""
        check_released(count, len(held))
        kept = corner_first(self._sides, held, len(held) - count)
        released = np.setdiff1d(held, kept, assume_unique=True).astype(np.int32, copy=False)
        released.sort()
        self._map.open(released)
        return kept, released

    def give_back(self, nodes: NodeArray) -> None:
        """Release the nodes of a job. Raises ValueError if a node was free."""
        self._map.open(nodes)

    def _free_box(self, count: int) -> Box | None:
        search = self._map.search()
        for shape in shapes(self._sides, count, self._surface_limit):
            if math.prod(shape) <= self.free:
                box = search.find(shape)
                if box is not None:
                    return box
        return None

    def _stretch(self, count: int) -> NodeArray:
        """Return the ``count`` free nodes that are closest on the curve; the first of equals."""
        places = np.flatnonzero(self._map.is_free(self._curve))
        spans = places[count - 1 :] - places[: len(places) - count + 1]
        first = int(np.argmin(spans))
        return np.sort(self._curve[places[first : first + count]])

    def _layers(self, box: Box, count: int) -> NodeArray | None:
        """Return free layers on a face of a box for ``count`` nodes, nearest first, or None.

        Among the faces, the longer box with the fewest links to the outside wins.
        """
        options: list[tuple[int, int, bool, Box]] = []
        for axis, (side, length) in enumerate(zip(self._sides, box.shape, strict=True)):
            deep = -(-count * length // box.volume)
            if length + deep > side:
                continue
            links = surface_links(self._sides, _replaced(box.shape, axis, length + deep))
            for before in (False, True):
                start = box.origin[axis] + (-deep if before else length)
                layers = Box(
                    origin=_replaced(box.origin, axis, start % side),
                    shape=_replaced(box.shape, axis, deep),
                )
                options.append((links, axis, before, layers))
        for _, axis, before, layers in sorted(options, key=lambda option: option[:3]):
            nodes = box_nodes(self._sides, layers)
            if self._map.is_free(nodes).all():
                by_layer = np.moveaxis(nodes.reshape(layers.shape), axis, 0)
                return (by_layer[::-1] if before else by_layer).reshape(-1)
        return None

    def _nearest(self, box: Box, count: int) -> NodeArray:
        """Return free nodes by hops to the box, then to its middle, then by number."""
        turns = self._distances(box)
        free = np.flatnonzero(self._map.is_free(np.arange(self._map.nodes, dtype=np.int32)))
        mine = turns[free]
        last = np.partition(mine, count - 1)[count - 1]
        nearer = free[mine < last]
        equal = free[mine == last][: count - len(nearer)]
        return np.sort(np.concatenate([nearer, equal])).astype(np.int32)

    def _distances(self, box: Box) -> npt.NDArray[np.int64]:
        """Return a sort key for every place: distance to the box, then to its middle."""
        turns = np.zeros(1, dtype=np.int64)
        weight = 2 * sum(self._sides) + 1
        for side, start, length in zip(self._sides, box.origin, box.shape, strict=True):
            away = (np.arange(side) - start) % side
            outside = np.where(away < length, 0, np.minimum(away - length + 1, side - away))
            # The unit is half a step, because the middle of an even side lies between two places.
            off = np.abs(2 * away - (length - 1))
            along = outside * weight + np.minimum(off, 2 * side - off)
            turns = (turns[:, None] + along[None, :]).reshape(-1)
        return turns


def _replaced(values: Sides, axis: int, value: int) -> Sides:
    return (*values[:axis], value, *values[axis + 1 :])
