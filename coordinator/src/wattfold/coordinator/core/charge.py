"""What nodes and jobs are charged with: the one place that turns cores and levels into microwatts.

A level is a cap of a whole node's packages. A job on n of a node's C cores, chosen with level p,
adds

    n/C (p' - floor),   p' = p, but within floor..most: what the packages there can hold

to the charge of the idle node, rounded down. A node whose cores are all held at one level is thus
charged with exactly that level, as in PARM, and no job with more than its node can draw: a level
above that is worth on a small node what the small node can take.

Ledger, applier, policies and simulators all ask here, so that what fits for one fits for all. Like
nodes are one `NodeKind`; nothing below depends on a node by name. Caps of zones come from the same
sums in `targets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.job import Assignment, Share
from wattfold.coordinator.core.node import Node, NodeKind, NodeSpec, Zone, ZoneKind

CAP_STEP_UW = 125_000
"""RAPL limits are multiples of 1/8 W: a target is rounded down to one."""


def held_uw(kind: NodeKind, level_uw: int) -> int:
    """The level that really holds on such a node."""
    return max(min(level_uw, kind.most_uw), kind.floor_uw)


def share_uw(kind: NodeKind, cores: int, level_uw: int) -> int:
    """Power above the floor of ``cores`` cores of a node at a level, rounded down."""
    return cores * (held_uw(kind, level_uw) - kind.floor_uw) // kind.cores


def node_uw(kind: NodeKind, level_uw: int) -> int:
    """Power above the floor of a whole node at a level."""
    return share_uw(kind, kind.cores, level_uw)


def reached_uw(kind: NodeKind, cores: int, cap_uw: int) -> int:
    """The inverse of `share_uw`: the level of jobs that hold ``cores`` cores under a cap."""
    above_uw = (cap_uw - kind.floor_uw) * kind.cores // cores
    return min(kind.floor_uw + above_uw, kind.most_uw)


def assigned_uw(assignment: Assignment, nodes: Iterable[NodeSpec]) -> int:
    """Power above the floors that an assignment adds to these nodes."""
    return assigned_on_uw(assignment, {node.node_id: node for node in nodes})


def assigned_on_uw(assignment: Assignment, specs: Mapping[NodeId, NodeSpec]) -> int:
    """`assigned_uw` for nodes that are known by their id."""
    return shares_uw(assignment.shares, specs, assignment.cap_uw)


def shares_uw(shares: Iterable[Share], specs: Mapping[NodeId, NodeSpec], level_uw: int) -> int:
    """Power above the floors of these cores at a level; nodes that are not known count nothing."""
    return sum(
        share_uw(specs[share.node_id].kind, len(share.cpus), level_uw)
        for share in shares
        if share.node_id in specs
    )


def on_node_uw(node: NodeSpec, assignments: Iterable[Assignment]) -> int:
    """Power above the floors of one node that holds these assignments; never above its span."""
    kind = node.kind
    return sum(share_uw(kind, len(a.on(node.node_id)), a.cap_uw) for a in assignments)


def standing_cap_uw(zone: Zone, dram_cap_uw: int) -> int:
    """Cap of a zone that policies do not choose: W_mem for DRAM, the greatest for others."""
    if zone.kind is ZoneKind.DRAM and dram_cap_uw:
        return clipped_uw(zone, dram_cap_uw)
    return zone.cap_uw_max


def fixed_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """Charge of a node without jobs: base power, package floors, standing caps of other zones."""
    return node.base_power_uw + sum(_idle_uw(zone, dram_cap_uw) for zone in node.zones)


def _idle_uw(zone: Zone, dram_cap_uw: int) -> int:
    """What a zone of an idle node may draw."""
    if not zone.can_cap:
        return zone.cap_uw_max
    if zone.kind is ZoneKind.PACKAGE:
        return zone.floor_uw
    return max(standing_cap_uw(zone, dram_cap_uw), zone.floor_uw)


def node_fixed_uw(node: Node, spec: NodeSpec, dram_cap_uw: int) -> int:
    """`fixed_uw`, with what zones draw beyond that, whatever their caps."""
    # These are never below the highest cap: see `node_events.caps_not_held`.
    beyond_uw = sum(
        max(node.not_held_uw[zone.name] - _idle_uw(zone, dram_cap_uw), 0)
        for zone in spec.zones
        if zone.name in node.not_held_uw
    )
    return fixed_uw(spec, dram_cap_uw) + beyond_uw


def originals_uw(node: Node, spec: NodeSpec) -> dict[ZoneName, int]:
    """What every cappable zone may draw at its original limit; its greatest cap where not told."""
    told = node.original_uw
    return {
        zone.name: told.get(zone.name) or zone.cap_uw_max for zone in spec.zones if zone.can_cap
    }


def given_back_uw(node: Node, spec: NodeSpec) -> int:
    """Charge of a node whose original limits hold, microwatts."""
    fixed_zones_uw = sum(zone.cap_uw_max for zone in spec.zones if not zone.can_cap)
    return spec.base_power_uw + fixed_zones_uw + sum(originals_uw(node, spec).values())


def clipped_uw(zone: Zone, cap_uw: int) -> int:
    """The greatest cap a zone can hold that is not above ``cap_uw``, but at least its floor."""
    stepped_uw = cap_uw // CAP_STEP_UW * CAP_STEP_UW
    return max(min(stepped_uw, zone.cap_uw_max), zone.floor_uw)
