"""From assignments to caps: what every zone of a node should hold.

The packages of a node share what its jobs are charged with (`charge`) in proportion to their
spans; an idle node keeps its floor, which is what Eq. 5 is charged with for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core.charge import clipped_uw, on_node_uw, standing_cap_uw
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.node import NodeSpec, ZoneKind


def zone_targets(
    node: NodeSpec,
    assignments: Iterable[Assignment],
    dram_cap_uw: int,
) -> dict[ZoneName, int]:
    """Caps for the cappable zones of a node that hold these assignments, microwatts."""
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
    return targets
