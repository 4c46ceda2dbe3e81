"""Nodes outside the ledger: their possible power, and the part that operators have accepted.

A node is outside the ledger if it was refused, waits for room, or answers after its removal. It
still draws its base power and the power of its caps. The part that no operator has accepted is
reserved in addition to committed power, as far as the floors of the other nodes leave room.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.node import Duty, Node
from wattfold.coordinator.core.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaccountedPower:
    """Power outside the ledger, in microwatts.

    Nodes outside the ledger may draw ``drawn_uw``; an operator accepted ``accepted_uw`` of it.
    ``over_uw`` is the excess of the remaining and the committed power over the budget, for any
    cause. ``unheard`` nodes have never answered, so their power is unknown.
    """

    drawn_uw: int = 0
    accepted_uw: int = 0
    over_uw: int = 0
    nodes: tuple[NodeId, ...] = ()
    unheard: tuple[NodeId, ...] = ()

    @property
    def counted_uw(self) -> int:
        """Power that counts against the budget."""
        return self.drawn_uw - self.accepted_uw


def draw_uw(node: Node) -> int:
    """Return the known maximum power of a node without an account, in microwatts."""
    if node.admitted or node.spec is None or node.duty is Duty.UNPOWERED:
        return 0
    total_uw = node.spec.base_power_uw
    for zone in node.spec.zones:
        standing_uw = zone.floor_uw if zone.can_cap else zone.cap_uw_max
        cap_uw = node.read_uw.get(zone.name, standing_uw) if zone.can_cap else standing_uw
        total_uw += max(cap_uw, node.not_held_uw.get(zone.name, 0))
    return total_uw


def counted_uw(node: Node) -> int:
    """Return `draw_uw`, or 0 for a node that an operator declared as outside the budget."""
    return 0 if node.duty is Duty.OUTSIDE else draw_uw(node)


def outsiders_uw(state: State) -> int:
    """Return the counted power of nodes outside the ledger that will not be admitted."""
    unadmitted = state.index.unadmitted.values()
    return sum(counted_uw(node) for node in unadmitted if not node.awaits_room)


def unaccounted_power(state: State) -> UnaccountedPower:
    """Return the total over all nodes outside the ledger."""
    nodes = list(state.index.unadmitted.values())
    drawn_uw = sum(draw_uw(node) for node in nodes)
    counted = sum(counted_uw(node) for node in nodes)
    accepted_uw = drawn_uw - counted + min(counted, state.accepted_outside_uw)
    total_uw = state.ledger.committed_uw + drawn_uw - accepted_uw
    return UnaccountedPower(
        drawn_uw=drawn_uw,
        accepted_uw=accepted_uw,
        over_uw=max(total_uw - state.ledger.budget_uw, 0),
        nodes=tuple(node.node_id for node in nodes if draw_uw(node)),
        unheard=tuple(n.node_id for n in nodes if n.spec is None and n.duty is not Duty.UNPOWERED),
    )
