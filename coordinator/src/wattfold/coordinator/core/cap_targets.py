"""The caps wanted on every node, scaled so that they fit what the nodes out of reach leave.

A plan fits its budget; scaling is for what happened since: a lower budget, a node lost. The sums
that decide on it are kept (`cap_sums`); here is what a node adds to them.
"""

from __future__ import annotations

from collections.abc import Collection

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.cap_sums import Caps, NodeCaps
from wattfold.coordinator.core.charge import node_fixed_uw, standing_cap_uw
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.leave import reserve_uw
from wattfold.coordinator.core.node import IN_SERVICE, Node, NodeSpec, ZoneKind
from wattfold.coordinator.core.outside import counted_uw
from wattfold.coordinator.core.state import State
from wattfold.coordinator.core.targets import zone_targets


def update(state: State, nodes: Collection[NodeId]) -> bool:
    """Takes in what changed about some nodes; True if the caps of all others did as well."""
    sums = state.cap_sums
    for node_id in nodes:
        sums.put(node_id, _node_caps(state, state.nodes[node_id]))
    state.ledger.outside_uw = max(sums.drawn_outside_uw - state.accepted_outside_uw, 0)
    for node_id, node in state.index.leaving.items():
        # Whether it will ever fit depends on all others.
        sums.put(node_id, _node_caps(state, node))
    return sums.rescale(state.ledger.limit_uw, state.accepted_outside_uw)


def _wanted(state: State, node_id: NodeId) -> list[Assignment]:
    """What jobs on a node are assigned, once a process of one is there.

    Not before: power is for programs that are there, and a launch may fail.
    """
    jobs = [job for job in state.on_node(node_id) if job.target is not None]
    if not any(node_id in job.ranks and job.ranks[node_id].running for job in jobs):
        return []
    return [job.target for job in jobs if job.target is not None]


_AS_THEY_STAND: tuple[Caps, int] = {}, 0


def _beside_standing(node: Node, spec: NodeSpec, caps: Caps, dram_cap_uw: int) -> tuple[Caps, int]:
    """Of DRAM and GPUs: the standing caps of those above them, and by how much all others are below
    theirs."""
    raised: Caps = {}
    lowered_uw = 0
    for zone in spec.zones:
        if zone.kind is ZoneKind.PACKAGE or not zone.can_cap or zone.name in node.not_held_uw:
            continue
        standing_uw = standing_cap_uw(zone, dram_cap_uw)
        if caps[zone.name] > standing_uw:
            raised[zone.name] = standing_uw
        else:
            lowered_uw += standing_uw - caps[zone.name]
    return raised, lowered_uw


def _node_caps(state: State, node: Node) -> NodeCaps:
    account = state.ledger.accounts.get(node.node_id)
    spec, dram_cap_uw = node.spec, state.settings.dram_cap_uw
    if node.usable and node.reachable and spec is not None and not node.dead_zones:
        wanted = _wanted(state, node.node_id)
        caps = zone_targets(spec, wanted, dram_cap_uw)
        levelled = any(assignment.levels or spec.gpus for assignment in wanted)
        beside = _beside_standing(node, spec, caps, dram_cap_uw) if levelled else _AS_THEY_STAND
        raised, lowered_uw = beside
        fixed_uw = node_fixed_uw(node, spec, dram_cap_uw) - lowered_uw
        return NodeCaps(
            caps=caps,
            scalable=True,
            fixed_uw=max(fixed_uw, reserve_uw(state, node)),
            dynamic_uw=sum(
                caps[zone.name] - zone.floor_uw
                for zone in spec.packages
                # Charged with the most it can draw: its cap adds nothing to that.
                if zone.name not in node.not_held_uw
            )
            + sum(caps[name] - standing_uw for name, standing_uw in raised.items()),
            raised=raised,
        )
    if account is not None:
        floors = None
        if node.reachable and spec is not None and node.duty in IN_SERVICE:
            # A zone there does not obey: the others go down, and it is asked again.
            floors = {zone.name: zone.floor_uw for zone in spec.zones if zone.can_cap}
        return NodeCaps(caps=floors, taken_uw=account.charge_uw)
    drawn_uw = counted_uw(node)
    if node.awaits_room and spec is not None:
        fixed = node_fixed_uw(node, spec, dram_cap_uw)
        return NodeCaps(taken_uw=fixed, entering_uw=drawn_uw)
    return NodeCaps(outside_uw=drawn_uw)
