"""The strategies for who keeps no selector: which of the free nodes a job gets, from these alone.

`first`, `compact` and `cuboid` go by which nodes are free and by nothing that was before, so that a
selector made for one question answers as one that is kept. `any` goes by the order in which nodes
came back, and is for those who keep one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.place import Place
from wattfold.coordinator.core.plan import NodeView
from wattfold.coordinator.policies.node_selection.selector import Strategy
from wattfold.coordinator.policies.node_selection.strategies import node_selector

STATELESS = (Strategy.FIRST, Strategy.COMPACT, Strategy.CUBOID)


def chosen(
    strategy: Strategy, free: Collection[int], count: int, sides: tuple[int, ...] = ()
) -> list[int]:
    """The numbers of the nodes for a job of ``count``, of those that are free; sorted.

    Raises NotEnoughFreeNodes.
    """
    ordered = np.array(sorted(free), dtype=np.int32)
    every = math.prod(sides) if sides else max(free, default=-1) + 1
    selector = node_selector(strategy, every, sides)
    selector.take(every)
    selector.give_back(ordered)
    return [int(number) for number in np.sort(selector.take(count))]


class Chooser:
    """Chooses among nodes that have places; without places it takes the first ones."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._places: dict[NodeId, Place] = {
            node.spec.node_id: node.place for node in nodes if node.place is not None
        }

    def choose(self, free: list[NodeId], count: int) -> list[NodeId]:
        """``count`` of the free nodes, fewer if there are fewer.

        A node without a place is chosen only where those with one do not suffice.
        """
        if not self._places:
            return free[:count]
        placed = {self._places[n].number: n for n in free if n in self._places}
        if len(placed) < count or not count:
            return free[:count]
        place = self._places[next(iter(placed.values()))]
        numbers = chosen(Strategy(place.strategy), placed, count, place.sides)
        return [placed[number] for number in numbers]
