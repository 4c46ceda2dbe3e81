"""Admission of nodes: a node is charged in the ledger if its minimum power fits the budget."""

from __future__ import annotations

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node import FORGOTTEN, Node, NodeSpec, NodeState
from wattfold.coordinator.core.power.charge import node_fixed_uw
from wattfold.coordinator.core.rules.nodes import leave
from wattfold.coordinator.core.state.state import State


def admit(state: State, node: Node) -> None:
    """Admit a node to the ledger if its floor fits the budget, now or once room was made.

    It is charged with its last read caps, which may be above its floor.
    """
    spec = node.spec
    if spec is None or not node.reachable:
        return
    if node.duty in FORGOTTEN:
        _refuse(
            node,
            "the node was removed with `wattfold node forget`; `wattfold node resume` returns "
            "it to service",
        )
        return
    fixed = node_fixed_uw(node, spec, state.settings.dram_cap_uw)
    others_uw = state.index.fixed_uw
    if not spec.packages:
        _refuse(node, "the node has no power zone that can be capped")
    elif others_uw + fixed > state.ledger.limit_uw:
        _refuse(
            node,
            f"its base power and floors of {fixed / 1e6:.1f} W exceed the free budget: the "
            f"budget is {state.ledger.limit_uw / 1e6:.1f} W and other nodes need "
            f"{others_uw / 1e6:.1f} W",
        )
    else:
        _open_account(state, node, spec)


def _refuse(node: Node, reason: str) -> None:
    node.state, node.message = NodeState.REFUSED, reason


def _open_account(state: State, node: Node, spec: NodeSpec) -> None:
    charges_uw = _charges(spec, node.read_uw)
    most_uw = sum(max(cap, node.not_held_uw.get(name, 0)) for name, cap in charges_uw.items())
    if spec.base_power_uw + most_uw > state.ledger.room_uw:
        node.state = NodeState.CONNECTING
        node.message = "waits until other nodes free enough power for it"
        return
    state.ledger.open(node.node_id, spec.base_power_uw, charges_uw)
    state.ledger.overdraw(node.node_id, node.not_held_uw, 0)
    node.admitted, node.state, node.message = True, NodeState.UP, ""
    node.read_uw = {}
    state.index.unadmitted.pop(node.node_id, None)
    count_fixed(state, node, spec)
    state.index.touch(node.node_id)
    state.plan_needed = "node admitted"


def renew_account(state: State, node: Node, event: reports.NodeConnected) -> None:
    """Update the charge of a node that came back with other zones or another base power."""
    account = state.ledger.accounts.get(node.node_id)
    if account is None or node.spec is None or node.spec == event.spec:
        return
    read_uw = {reading.zone: reading.cap_uw for reading in event.caps}
    charges_uw = _charges(event.spec, read_uw)
    state.ledger.reopen(node.node_id, event.spec.base_power_uw, charges_uw)


def _charges(spec: NodeSpec, read_uw: dict[ZoneName, int]) -> dict[ZoneName, int]:
    return {
        zone.name: read_uw.get(zone.name, zone.cap_uw_max) if zone.can_cap else zone.cap_uw_max
        for zone in spec.zones
    }


def recount_fixed(state: State) -> None:
    """Recompute the minimum charges of all admitted nodes."""
    for node in state.nodes.values():
        if node.admitted and node.spec is not None:
            count_fixed(state, node, node.spec)


def count_fixed(state: State, node: Node, spec: NodeSpec) -> None:
    """Store the minimum charge of an admitted node."""
    state.index.set_fixed(node.node_id, leave.least_uw(state, node, spec))
