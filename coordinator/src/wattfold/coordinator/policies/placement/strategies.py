"""Factory of selectors."""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.policies.placement.any_free import AnySelector
from wattfold.coordinator.policies.placement.first import FirstSelector
from wattfold.coordinator.policies.placement.selector import NodeSelector, Strategy


def node_selector(strategy: Strategy, nodes: int, sides: tuple[int, ...] = ()) -> NodeSelector[Any]:
    """Return a selector of this strategy with all nodes free.

    Only `Strategy.CUBOID` needs the ``sides`` of the torus. A torus may have more places than
    nodes. Raises ValueError for a torus that cannot hold the nodes.
    """
    match strategy:
        case Strategy.ANY:
            return AnySelector(nodes)
        case Strategy.FIRST:
            return FirstSelector(nodes)
        case Strategy.COMPACT:
            from wattfold.coordinator.policies.placement.compact import CompactSelector

            return CompactSelector(nodes)
        case Strategy.CUBOID:
            from wattfold.coordinator.policies.placement.cuboid import CuboidSelector

            return CuboidSelector(sides, nodes)
