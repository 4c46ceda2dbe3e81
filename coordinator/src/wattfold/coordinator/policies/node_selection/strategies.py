"""Makes a selector by the name of its strategy."""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.policies.node_selection.any_free import AnySelector
from wattfold.coordinator.policies.node_selection.first import FirstSelector
from wattfold.coordinator.policies.node_selection.selector import NodeSelector, Strategy


def node_selector(strategy: Strategy, nodes: int, sides: tuple[int, ...] = ()) -> NodeSelector[Any]:
    """A selector with all nodes free.

    ``sides`` of the torus are needed for `Strategy.CUBOID` only; a torus may have more places than
    there are nodes. Raises ValueError for a torus that cannot hold the nodes.
    """
    match strategy:
        case Strategy.ANY:
            return AnySelector(nodes)
        case Strategy.FIRST:
            return FirstSelector(nodes)
        case Strategy.COMPACT:
            from wattfold.coordinator.policies.node_selection.compact import CompactSelector

            return CompactSelector(nodes)
        case Strategy.CUBOID:
            from wattfold.coordinator.policies.node_selection.cuboid import CuboidSelector

            return CuboidSelector(sides, nodes)
