"""Nodes outside the ledger: what they may draw, and how much of it an operator has accepted.

A node that was refused, waits for room, or was forgotten and answers is in no sum of the ledger,
and still draws its base power and what its zones are set to. What of that nobody has accepted is
kept free beside the committed power, as far as the floors of the other nodes leave room.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.node import Duty, Node
from wattfold.coordinator.core.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Power beside the ledger, microwatts.

    ``drawn_uw`` may be drawn by nodes outside the ledger, ``accepted_uw`` of it by an operator's
    word. ``over_uw``: by so much the rest and what is committed exceed the budget. ``unheard``
    nodes have never answered: what they draw is not known.
    """

    drawn_uw: int = 0
    accepted_uw: int = 0
    over_uw: int = 0
    nodes: tuple[NodeId, ...] = ()
    unheard: tuple[NodeId, ...] = ()

    @property
    def counted_uw(self) -> int:
        """What counts against the budget."""
        return self.drawn_uw - self.accepted_uw


def draw_uw(node: Node) -> int:
    """The most a node without an account may draw, as far as it is known; microwatts."""
    if node.admitted or node.spec is None or node.duty is Duty.UNPOWERED:
        return 0
    total_uw = node.spec.base_power_uw
    for zone in node.spec.zones:
        standing_uw = zone.floor_uw if zone.can_cap else zone.cap_uw_max
        cap_uw = node.read_uw.get(zone.name, standing_uw) if zone.can_cap else standing_uw
        total_uw += max(cap_uw, node.not_held_uw.get(zone.name, 0))
    return total_uw


def counted_uw(node: Node) -> int:
    """`draw_uw`, 0 for a node that an operator has declared to be no part of this budget."""
    return 0 if node.duty is Duty.OUTSIDE else draw_uw(node)


def outside(state: State) -> Outside:
    """All nodes outside the ledger together."""
    nodes = list(state.index.unadmitted.values())
    drawn_uw = sum(draw_uw(node) for node in nodes)
    counted = sum(counted_uw(node) for node in nodes)
    accepted_uw = drawn_uw - counted + min(counted, state.accepted_outside_uw)
    total_uw = state.ledger.committed_uw + drawn_uw - accepted_uw
    over_uw = max(total_uw - state.ledger.budget_uw, 0) if drawn_uw > accepted_uw else 0
    return Outside(
        drawn_uw=drawn_uw,
        accepted_uw=accepted_uw,
        over_uw=over_uw,
        nodes=tuple(node.node_id for node in nodes if draw_uw(node)),
        unheard=tuple(n.node_id for n in nodes if n.spec is None and n.duty is not Duty.UNPOWERED),
    )
