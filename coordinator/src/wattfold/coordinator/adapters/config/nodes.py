"""The [[node]] tables of the configuration, and the table [placement] about their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wattfold.contract.ids import NodeId, valid_name
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    Where,
    checked_values,
    whole_numbers,
)
from wattfold.coordinator.adapters.placing import (
    STRATEGIES,
    PlacementSettings,
    places_fault,
    torus_fault,
)
from wattfold.coordinator.policies.placement.selector import Strategy

_NODE = {
    "id": Setting(kind=str),
    "address": Setting(kind=str),
    "features": Setting(kind=list),
    "place": Setting(kind=list),
}
_PLACEMENT = {
    "strategy": Setting(kind=str, choices=STRATEGIES),
    "torus": Setting(kind=list),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """An agent to contact. ``place``: torus coordinates; ``features``: in addition to its own."""

    node_id: NodeId
    address: str
    features: tuple[str, ...] = ()
    place: tuple[int, ...] = ()


def nodes_from(source: Source, tables: Any, flags: list[str]) -> tuple[NodeEntry, ...]:
    """Return the nodes of the tables, then the nodes of the flags. Raises ConfigError."""
    if not isinstance(tables, list):
        raise ConfigError(f"{source.at('node')}: nodes must be [[node]] tables with id and address")
    entries = [checked_values(source, t, _NODE, "node.", index=n) for n, t in enumerate(tables)]
    for text in flags:
        node_id, equals, address = text.partition("=")
        if not equals:
            raise ConfigError(f"command line: --node {text!r} is not ID=ADDRESS")
        entries.append({"id": node_id, "address": address})
    out: dict[str, NodeEntry] = {}
    for index, entry in enumerate(entries):
        where: Where = source.at("id", "node", index) if index < len(tables) else "command line"
        node_id, address = entry.get("id", ""), entry.get("address", "")
        if not valid_name(node_id) or not address:
            raise ConfigError(
                f"{where}: node {node_id!r} at {address!r} needs a valid id and an address"
            )
        if node_id in out:
            raise ConfigError(f"{where}: node {node_id} is listed twice")
        features = entry.get("features", [])
        if not all(isinstance(name, str) and valid_name(name) for name in features):
            raise ConfigError(
                f"{where}: features {features!r} of node {node_id} must be a list of names"
            )
        out[node_id] = NodeEntry(
            node_id=NodeId(node_id),
            address=address,
            features=tuple(dict.fromkeys(features)),
            place=whole_numbers(where, "node.place", entry.get("place", [])),
        )
    return tuple(out.values())


def placement_from(source: Source, table: dict[str, Any]) -> PlacementSettings:
    """Return the strategy of placement and the sizes of the torus. Raises ConfigError."""
    given = checked_values(source, table, _PLACEMENT, "placement.")
    where = source.at("torus", "placement")
    torus = whole_numbers(where, "placement.torus", given.get("torus", []))
    strategy = Strategy(given.get("strategy", Strategy.FIRST))
    if (torus or strategy is Strategy.CUBOID) and (fault := torus_fault(torus)):
        where = where if torus else source.at("strategy", "placement")
        raise ConfigError(f"{where}: placement: {fault}")
    return PlacementSettings(strategy=strategy, torus=torus)


def checked_places(
    source: Source, placement: PlacementSettings, nodes: tuple[NodeEntry, ...]
) -> tuple[NodeEntry, ...]:
    """Return the nodes if the strategy can choose among them. Raises ConfigError."""
    if placement.strategy is Strategy.CUBOID:
        if not nodes:
            where = source.at("strategy", "placement")
            raise ConfigError(
                f"{where}: placement: strategy cuboid needs [[node]] tables with places"
            )
        fault = places_fault(placement.torus, ((node.node_id, node.place) for node in nodes))
        if fault is not None:
            index = [node.node_id for node in nodes].index(fault[0])
            key = "place" if nodes[index].place else "id"
            raise ConfigError(f"{source.at(key, 'node', index)}: {fault[1]}")
    return nodes
