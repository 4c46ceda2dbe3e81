"""Placement on the lowest free numbers, the default of most resource managers.

It keeps the used part of the machine together, but not the nodes of a job.
"""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.models.torus import NodeArray
from wattfold.coordinator.policies.placement.holes import HoleSelector, Run, nodes_of
from wattfold.coordinator.policies.placement.selector import check_released, check_wanted


class FirstSelector(HoleSelector):
    """Holes filled from the lowest number."""

    __slots__ = ()

    def take(self, count: int) -> NodeArray:
        """Take the lowest free nodes. Raises NotEnoughFreeNodes."""
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
        """Same as `take`: the lowest free nodes, regardless of the other nodes of the job."""
        return self.take(count)

    def shrink(self, held: NodeArray, count: int) -> tuple[NodeArray, NodeArray]:
        """Release the job's highest nodes. Raises ValueError if it has fewer."""
        check_released(count, len(held))
        ordered = np.sort(held)
        kept, released = np.split(ordered, [len(ordered) - count])
        self.give_back(released)
        return kept, released
