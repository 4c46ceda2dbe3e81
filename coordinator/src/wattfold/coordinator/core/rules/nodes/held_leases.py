"""Lease renewals of a starting coordinator for nodes that it has not contacted yet.

The journal of a killed coordinator charges every node with the highest caps that it may hold. A
renewal changes no cap but extends these caps. So the charge has to last longer, too
(`CoordinatorStarted.held`). If caps have to fall, because of the current or an announced budget, no
lease is renewed: a lease that ends lowers the caps for certain.
"""

from __future__ import annotations

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.announced import begun
from wattfold.coordinator.core.model.node import Duty, Node, NodeState
from wattfold.coordinator.core.rules.power import budget_events
from wattfold.coordinator.core.state.state import State

LEASES = 2
HOLD_NS_MAX = 30_000_000_000
_KNOWN = frozenset({Duty.SERVING, Duty.DRAINING})
"""In any other state a node may have been ordered to leave. A lease would return it to service."""


def hold_ns(state: State) -> int:
    """Return how long after the start leases of uncontacted nodes are renewed."""
    return min(LEASES * state.lease_ns, HOLD_NS_MAX)


def may_hold(state: State, now_ns: int) -> bool:
    """Whether all charged caps may stay for the time of `hold_ns` and a lease."""
    if state.ledger.room_uw < 0:
        return False
    until_ns = now_ns + hold_ns(state) + budget_events.lead_ns(state)
    return not begun(state.announced, until_ns)


def holdable(state: State, now_ns: int) -> list[NodeId]:
    """Return the nodes whose leases may run and be renewed after the replay of the journal."""
    if not may_hold(state, now_ns):
        return []
    return [node.node_id for node in state.nodes.values() if _may_run(node, now_ns)]


def still_held(state: State, node_id: NodeId) -> bool:
    """Whether the lease of a node before its first contact may be renewed again."""
    node = state.nodes.get(node_id)
    waits = node is not None and node.state is NodeState.SILENT and not node.retired
    return waits and state.ledger.room_uw >= 0 and state.nodes[node_id].duty in _KNOWN


def _may_run(node: Node, now_ns: int) -> bool:
    leased = node.state in (NodeState.UP, NodeState.SILENT) and now_ns < node.lease_until_ns
    return leased and node.admitted and not node.retired and node.duty in _KNOWN
