"""The nodes and the power of a snapshot as schedulers see them."""

from __future__ import annotations

from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import (
    Snapshot,
)
from wattfold.coordinator.policies.port import (
    Site,
)


def site_of(world: Snapshot) -> Site:
    """Return the nodes of a snapshot for a scheduler."""
    nodes = world.nodes
    kinds: dict[int, NodeKind] = {id(node.spec.kind): node.spec.kind for node in nodes}
    alike = len(kinds) == 1 and not any(node.blocked for node in nodes)
    # Reservations and preemption depend on jobs and nodes that cannot be counted.
    apart = world.reservations or any(queue.preempts for queue in world.queues)
    return Site(
        count=len(nodes),
        spendable_uw=world.spendable_uw,
        kind=nodes[0].spec.kind if alike and not apart else None,
        most_uw=world.spendable_uw + world.reserved_uw,
        names=tuple(node.spec.node_id for node in nodes),
        nodes=nodes,
        reservations=world.reservations,
        queues=world.queues,
        clearing=world.clearing,
        leaving_uw=world.leaving_uw,
        away=world.away,
        away_uw=world.away_uw,
        away_held_uw=world.away_held_uw,
        ahead=tuple(
            (one.from_ns, world.spendable_uw + one.budget_uw - world.budget_uw)
            for one in world.ahead
        ),
        origin_s=world.origin_s,
    )
