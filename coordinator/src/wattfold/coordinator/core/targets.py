"""From assignments to caps: what every zone of a node should hold.

The packages of a node share what its jobs are charged with (`charge`) in proportion to their
spans; an idle node keeps its floor, which is what Eq. 5 is charged with for it. DRAM stands between
its standing cap and the levels of the jobs there, by their cores. A GPU is of one job, and has its
level or its greatest limit; one that nobody has stands at its floor. Everything is rounded down, so
that no node gets more than was charged.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core.charge import (
    clipped_uw,
    dram_levels_uw,
    dram_zones,
    gpu_cap_uw,
    gpu_zones,
    on_node_uw,
    standing_cap_uw,
)
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.node import NodeSpec, ZoneKind


def zone_targets(
    node: NodeSpec,
    assignments: Iterable[Assignment],
    dram_cap_uw: int,
) -> dict[ZoneName, int]:
    """Caps for the cappable zones of a node that hold these assignments, microwatts."""
    assignments = list(assignments)
    above_floor_uw = on_node_uw(node, assignments)
    span_uw = node.kind.most_uw - node.kind.floor_uw
    targets: dict[ZoneName, int] = {}
    for zone in node.zones:
        if not zone.can_cap:
            continue
        if zone.kind is ZoneKind.PACKAGE:
            part_uw = above_floor_uw * (zone.cap_uw_max - zone.floor_uw) // max(span_uw, 1)
            targets[zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
        else:
            targets[zone.name] = standing_cap_uw(zone, dram_cap_uw)
    if any(assignment.levels.dram_uw for assignment in assignments):
        targets |= _dram_targets(node, assignments, dram_cap_uw)
    if node.gpus:
        targets |= _gpu_targets(node, assignments)
    return targets


def _dram_targets(
    node: NodeSpec, assignments: list[Assignment], dram_cap_uw: int
) -> dict[ZoneName, int]:
    levelled = [
        (len(one.on(node.node_id)), dram_levels_uw(node, one.levels.dram_uw))
        for one in assignments
        if one.levels.dram_uw
    ]
    targets: dict[ZoneName, int] = {}
    for zone in dram_zones(node):
        standing_uw = standing_cap_uw(zone, dram_cap_uw)
        above = sum(cores * (held[zone.name] - standing_uw) for cores, held in levelled)
        targets[zone.name] = clipped_uw(zone, standing_uw + above // node.kind.cores)
    return targets


def _gpu_targets(node: NodeSpec, assignments: list[Assignment]) -> dict[ZoneName, int]:
    return {
        zone.name: gpu_cap_uw(zone, one.levels.gpu_uw)
        for one in assignments
        for share in one.shares
        if share.node_id == node.node_id
        for zone in gpu_zones(node, share.gpus)
    }
