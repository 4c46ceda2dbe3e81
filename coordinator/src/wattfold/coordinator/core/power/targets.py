"""Caps of the zones of a node, computed from its assignments.

The charge of the jobs of a node (`charge`) is divided among its packages in proportion to their
spans. An idle node stays at its floor, the power that Eq. 5 charges for it. A DRAM cap lies between
the default cap and the levels of the jobs there, weighted by their cores. An assigned GPU has its
level or its maximum limit; an idle GPU is set to its floor. All caps are rounded down, so that no
node gets more than was charged.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.node import NodeSpec, ZoneKind
from wattfold.coordinator.core.power.charge import (
    clipped_uw,
    dram_levels_uw,
    dram_zones,
    gpu_cap_uw,
    gpu_zones,
    on_node_uw,
    standing_cap_uw,
)


def zone_targets(
    node: NodeSpec,
    assignments: Iterable[Assignment],
    dram_cap_uw: int,
) -> dict[ZoneName, int]:
    """Return the caps of the cappable zones of a node with these assignments, in microwatts."""
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
