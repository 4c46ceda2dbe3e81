"""Target caps of every node, scaled to the power left by unreachable nodes.

A plan fits its budget. Scaling handles later changes, such as a lower budget or a lost node. The
sums behind this decision are stored in `cap_sums`; this module computes the part of each node.
"""

from __future__ import annotations

from collections.abc import Collection

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.node import IN_SERVICE, Node, NodeSpec, ZoneKind
from wattfold.coordinator.core.power.cap_sums import Caps, NodeCaps
from wattfold.coordinator.core.power.charge import node_fixed_uw, standing_cap_uw
from wattfold.coordinator.core.power.targets import zone_targets
from wattfold.coordinator.core.rules.nodes import sleep
from wattfold.coordinator.core.rules.nodes.leave import reserve_uw
from wattfold.coordinator.core.rules.power.unaccounted_power import counted_uw
from wattfold.coordinator.core.state.state import State


def update(state: State, nodes: Collection[NodeId]) -> bool:
    """Update the sums for some nodes; True if the caps of all other nodes changed as well."""
    sums = state.cap_sums
    for node_id in nodes:
        sums.put(node_id, _node_caps(state, state.nodes[node_id]))
    state.ledger.outside_uw = max(sums.drawn_outside_uw - state.accepted_outside_uw, 0)
    for node_id, node in state.index.leaving.items():
        # Whether it will ever fit depends on all other nodes.
        sums.put(node_id, _node_caps(state, node))
    for node_id, node in state.index.switching.items():
        if node.dark:
            sums.put(node_id, _node_caps(state, node))
    return sums.rescale(state.ledger.limit_uw, state.accepted_outside_uw)


def _wanted(state: State, node_id: NodeId) -> list[Assignment]:
    """Return the assignments on a node, once a process of any of the jobs runs there.

    Power is not assigned before, because a launch may fail.
    """
    jobs = [job for job in state.on_node(node_id) if job.target is not None]
    if not any(node_id in job.ranks and job.ranks[node_id].running for job in jobs):
        return []
    return [job.target for job in jobs if job.target is not None]


def _protected(state: State, node_id: NodeId) -> bool:
    """Whether a job on a node is protected in the emergency that is in force."""
    emergency = state.emergency
    return emergency is not None and any(
        emergency.order.protects(job.spec) for job in state.on_node(node_id)
    )


_AS_THEY_STAND: tuple[Caps, int] = {}, 0


def _beside_standing(node: Node, spec: NodeSpec, caps: Caps, dram_cap_uw: int) -> tuple[Caps, int]:
    """Return raised DRAM and GPU zones with their default caps, and how much others are lowered."""
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
                # Zones that exceed their caps are charged with their maximum power already.
                if zone.name not in node.not_held_uw
            )
            + sum(caps[name] - standing_uw for name, standing_uw in raised.items()),
            raised=raised,
            protected=_protected(state, node.node_id),
        )
    if account is not None and node.dark:
        return NodeCaps(taken_uw=sleep.reserve_uw(state, node))
    if account is not None:
        floors = None
        if node.reachable and spec is not None and node.duty in IN_SERVICE:
            # A zone does not obey: the other zones are lowered, and the zone is sent its cap again.
            floors = {zone.name: zone.floor_uw for zone in spec.zones if zone.can_cap}
        return NodeCaps(caps=floors, taken_uw=account.charge_uw)
    drawn_uw = counted_uw(node)
    if node.awaits_room and spec is not None:
        fixed = node_fixed_uw(node, spec, dram_cap_uw)
        return NodeCaps(taken_uw=fixed, entering_uw=drawn_uw)
    return NodeCaps(outside_uw=drawn_uw)
