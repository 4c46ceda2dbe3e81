"""The lowest free numbers: what most resource managers do by default.

Keeps the used part of the machine together, not the nodes of one job.
"""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.models.torus import NodeArray
from wattfold.coordinator.policies.node_selection.holes import Holes, Run, nodes_of, runs_of
from wattfold.coordinator.policies.node_selection.selector import check_released, check_wanted


class FirstSelector:
    """Free nodes as holes, filled from the lowest; hands out sorted int32 arrays."""

    __slots__ = ("_holes",)

    def __init__(self, nodes: int) -> None:
        self._holes = Holes(nodes)

    @property
    def free(self) -> int:
        """Number of free nodes."""
        return self._holes.free

    def take(self, count: int) -> NodeArray:
        """The lowest free nodes. Raises NotEnoughFreeNodes."""
        check_wanted(count, self.free)
        runs: list[Run] = []
        missing = count
        while missing:
            start, stop = self._holes.lowest()
            stop = min(stop, start + missing)
            self._holes.fill(start, stop)
            runs.append((start, stop))
            missing -= stop - start
        return nodes_of(runs)

    def grow(self, held: NodeArray, count: int) -> NodeArray:  # noqa: ARG002
        """As `take`: the lowest free nodes, wherever the others are."""
        return self.take(count)

    def shrink(self, held: NodeArray, count: int) -> tuple[NodeArray, NodeArray]:
        """Releases the job's highest nodes. Raises ValueError if it has fewer."""
        check_released(count, len(held))
        ordered = np.sort(held)
        kept, released = np.split(ordered, [len(ordered) - count])
        self.give_back(released)
        return kept, released

    def give_back(self, nodes: NodeArray) -> None:
        """A job's nodes are free again. Raises ValueError if one already was."""
        for start, stop in runs_of(nodes):
            self._holes.open(start, stop)
