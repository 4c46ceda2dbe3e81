"""From assignments to caps: what every zone of a node should hold.

A job on n of a node's C cores, chosen with cap level p, adds n/C (p - floor) to the floor of the
node's packages. A node whose cores are all held at one level gets exactly that level, as in PARM;
an idle node keeps its floor, which is what Eq. 5 is charged with for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.node import NodeSpec, Zone, ZoneKind

CAP_STEP_UW = 125_000
"""RAPL limits are multiples of 1/8 W: a target is rounded down to one."""


def dynamic_uw(node: NodeSpec, cores: int, cap_uw: int) -> int:
    """Power above the floor of ``cores`` cores of a node at a level, microwatts, rounded down."""
    return cores * max(cap_uw - node.package_floor_uw, 0) // len(node.cpus)


def assigned_uw(assignment: Assignment, nodes: Iterable[NodeSpec]) -> int:
    """Power above the floors that an assignment adds to these nodes, microwatts."""
    return assigned_on_uw(assignment, {node.node_id: node for node in nodes})


def assigned_on_uw(assignment: Assignment, specs: Mapping[NodeId, NodeSpec]) -> int:
    """`assigned_uw` for nodes that are known by their id."""
    return sum(
        dynamic_uw(specs[share.node_id], len(share.cpus), assignment.cap_uw)
        for share in assignment.shares
        if share.node_id in specs
    )


def zone_targets(
    node: NodeSpec,
    assignments: Iterable[Assignment],
    dram_cap_uw: int,
) -> dict[ZoneName, int]:
    """Caps for the cappable zones of a node that hold these assignments, microwatts."""
    above_floor_uw = sum(dynamic_uw(node, len(a.on(node.node_id)), a.cap_uw) for a in assignments)
    span_uw = sum(zone.cap_uw_max - zone.floor_uw for zone in node.packages)
    targets: dict[ZoneName, int] = {}
    for zone in node.zones:
        if not zone.can_cap:
            continue
        if zone.kind is ZoneKind.PACKAGE:
            part_uw = above_floor_uw * (zone.cap_uw_max - zone.floor_uw) // max(span_uw, 1)
            targets[zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
        else:
            targets[zone.name] = standing_cap_uw(zone, dram_cap_uw)
    return targets


def standing_cap_uw(zone: Zone, dram_cap_uw: int) -> int:
    """Cap of a zone that policies do not choose: W_mem for DRAM, the greatest for others."""
    if zone.kind is ZoneKind.DRAM and dram_cap_uw:
        return clipped_uw(zone, dram_cap_uw)
    return zone.cap_uw_max


def fixed_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """Charge of a node without jobs: base power, package floors, standing caps of other zones."""
    total_uw = node.base_power_uw
    for zone in node.zones:
        if not zone.can_cap:
            total_uw += zone.cap_uw_max
        elif zone.kind is ZoneKind.PACKAGE:
            total_uw += zone.floor_uw
        else:
            total_uw += max(standing_cap_uw(zone, dram_cap_uw), zone.floor_uw)
    return total_uw


def clipped_uw(zone: Zone, cap_uw: int) -> int:
    """The greatest cap a zone can hold that is not above ``cap_uw``, but at least its floor."""
    stepped_uw = cap_uw // CAP_STEP_UW * CAP_STEP_UW
    return max(min(stepped_uw, zone.cap_uw_max), zone.floor_uw)
