"""Choice of whole nodes for jobs: the configured strategy and the positions of the nodes.

Nodes are numbered in configuration order or by their torus coordinates. The core does not know the
numbers; policies receive them with every snapshot.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.place import Place
from wattfold.coordinator.core.model.plan import Snapshot
from wattfold.coordinator.policies.placement.choice import STATELESS
from wattfold.coordinator.policies.placement.selector import Strategy

STRATEGIES = tuple(strategy.value for strategy in STATELESS)
SIDES_MAX, PLACES_MAX = 6, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementSettings:
    """Placement settings. ``torus``: its side lengths, for `cuboid`; empty = none."""

    strategy: Strategy = Strategy.FIRST
    torus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """A strategy and the number of every node that it chooses from."""

    strategy: str
    numbers: Mapping[NodeId, int]
    sides: tuple[int, ...] = ()


def placing(
    settings: PlacementSettings, nodes: Iterable[tuple[NodeId, tuple[int, ...]]]
) -> Placing | None:
    """Return how nodes are chosen, given their torus coordinates; None: in their order."""
    match settings.strategy:
        case Strategy.CUBOID:
            sides = settings.torus
            numbers = {node_id: _number(place, sides) for node_id, place in nodes}
        case Strategy.COMPACT:
            sides = ()
            numbers = {node_id: number for number, (node_id, _) in enumerate(nodes)}
        case _:
            return None
    return Placing(strategy=settings.strategy.value, numbers=numbers, sides=sides)


def with_places(snapshot: Snapshot, placing: Placing | None) -> Snapshot:
    """Return the snapshot with the positions of its nodes."""
    if placing is None:
        return snapshot
    strategy, sides = placing.strategy, placing.sides
    nodes = tuple(
        node
        if (number := placing.numbers.get(node.spec.node_id)) is None
        else dataclasses.replace(node, place=Place(strategy=strategy, number=number, sides=sides))
        for node in snapshot.nodes
    )
    return dataclasses.replace(snapshot, nodes=nodes)


def torus_fault(sides: tuple[int, ...]) -> str:
    """Return the error in the side lengths of a torus; empty if there is none."""
    if not sides:
        return "strategy cuboid needs torus = [X, Y, Z], the sides of the torus"
    if len(sides) > SIDES_MAX or min(sides) < 1 or math.prod(sides) > PLACES_MAX:
        return (
            f"torus = {list(sides)} must have 1..{SIDES_MAX} sides, each at least 1, and at "
            f"most {PLACES_MAX} places"
        )
    return ""


def places_fault(
    sides: tuple[int, ...], nodes: Iterable[tuple[NodeId, tuple[int, ...]]]
) -> tuple[NodeId, str] | None:
    """Return the first node with missing, invalid or duplicate coordinates, and the reason."""
    seen: dict[tuple[int, ...], NodeId] = {}
    for node_id, place in nodes:
        if not place:
            return node_id, f"node {node_id} has no place on the torus; give it place = [x, y, z]"
        inside = len(place) == len(sides) and all(
            0 <= at < side for at, side in zip(place, sides, strict=True)
        )
        if not inside:
            return node_id, (
                f"place = {list(place)} of node {node_id} is not on the torus {list(sides)}; "
                "places count from 0"
            )
        if place in seen:
            return (
                node_id,
                f"node {node_id} has the same place, {list(place)}, as node {seen[place]}",
            )
        seen[place] = node_id
    return None


def _number(place: tuple[int, ...], sides: tuple[int, ...]) -> int:
    number = 0
    for at, side in zip(place, sides, strict=True):
        number = number * side + at
    return number
