"""Placement strategies without state: choose the nodes of a job from the free nodes alone.

`first`, `compact` and `cuboid` depend only on the set of free nodes, so a new selector gives the
same answer as a persistent selector. `any` depends on the order in which nodes were released and
requires a persistent selector.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.place import Place
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.policies.placement.selector import Strategy
from wattfold.coordinator.policies.placement.strategies import node_selector

STATELESS = (Strategy.FIRST, Strategy.COMPACT, Strategy.CUBOID)


def chosen(
    strategy: Strategy, free: Collection[int], count: int, sides: tuple[int, ...] = ()
) -> list[int]:
    """Return the numbers of ``count`` free nodes for a job, sorted.

    Raises NotEnoughFreeNodes.
    """
    ordered = np.array(sorted(free), dtype=np.int32)
    every = math.prod(sides) if sides else max(free, default=-1) + 1
    selector = node_selector(strategy, every, sides)
    selector.take(every)
    selector.give_back(ordered)
    return [int(number) for number in np.sort(selector.take(count))]


class Chooser:
    """Chooses nodes by their places in the network; without places, the first nodes."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._places: dict[NodeId, Place] = {
            node.spec.node_id: node.place for node in nodes if node.place is not None
        }

    def choose(self, free: list[NodeId], count: int) -> list[NodeId]:
        """Return ``count`` of the free nodes, or fewer if there are not enough.

        Nodes without a place are chosen only if the nodes with a place do not suffice.
        """
        if not self._places:
            return free[:count]
        placed = {self._places[n].number: n for n in free if n in self._places}
        if len(placed) < count or not count:
            return free[:count]
        place = self._places[next(iter(placed.values()))]
        numbers = chosen(Strategy(place.strategy), placed, count, place.sides)
        return [placed[number] for number in numbers]
