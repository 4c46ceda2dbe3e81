"""What nodes and jobs are charged with: the one place that turns cores and levels into microwatts.

A level is a cap of a whole node's packages. A job on n of a node's C cores, chosen with level p,
adds

    n/C (p' - floor),   p' = p, but within floor..most: what the packages there can hold

to the charge of the idle node, rounded down. A node whose cores are all held at one level is thus
charged with exactly that level, as in PARM, and no job with more than its node can draw: a level
above that is worth on a small node what the small node can take.

A GPU that nobody has stands at its floor, as packages do: its owner adds what its level is above
that, and without a level what its greatest limit is.

DRAM may have a level as well (`levels`). Idle nodes are charged with its standing caps, so a job
adds by how much the level is above them, or less by how much it is below, by its share of the
cores. It never adds less than nothing, though its node may draw less than an idle one: what ends
must not need power for its end.

Ledger, applier, policies and simulators all ask here, so that what fits for one fits for all. Like
nodes are one `NodeKind`; nothing below depends on a node by name. Caps of zones come from the same
sums in `targets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.job import Assignment, JobSpec, Share, SizeUnit
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.node import Node, NodeKind, NodeSpec, Zone, ZoneKind

CAP_STEP_UW = 125_000
"""RAPL limits are multiples of 1/8 W: a target is rounded down to one."""


def held_uw(kind: NodeKind, level_uw: int) -> int:
    """The level that really holds on such a node."""
    return max(min(level_uw, kind.most_uw), kind.floor_uw)


def share_uw(kind: NodeKind, cores: int, level_uw: int, beyond_uw: int = 0) -> int:
    """Power above the floor of ``cores`` cores of a node at a level, rounded down.

    ``beyond_uw`` is what other zones of the whole node take beyond their standing caps; with it the
    sum is rounded up, as parts of it are rounded down one by one where caps are made of them.
    """
    if not beyond_uw:
        return cores * (held_uw(kind, level_uw) - kind.floor_uw) // kind.cores
    above_uw = max(min(level_uw, kind.most_uw) + beyond_uw - kind.floor_uw, 0)
    return -(-cores * above_uw // kind.cores)


def node_uw(kind: NodeKind, level_uw: int, beyond_uw: int = 0) -> int:
    """Power above the floor of a whole node at a level."""
    return share_uw(kind, kind.cores, level_uw, beyond_uw)


def reached_uw(kind: NodeKind, cores: int, cap_uw: int) -> int:
    """The inverse of `share_uw`: the level of jobs that hold ``cores`` cores under a cap."""
    above_uw = (cap_uw - kind.floor_uw) * kind.cores // cores
    return min(kind.floor_uw + above_uw, kind.most_uw)


def drawing_uw(spec: JobSpec, kind: NodeKind, power_uw: int) -> int:
    """The level at which a job on such nodes has so much above their floors, at its greatest size.

    Rounded up, and within what the packages can hold.
    """
    cores_of = {SizeUnit.NODES: kind.cores, SizeUnit.UNITS: spec.unit_cores, SizeUnit.CORES: 1}
    cores = max(spec.size_max * cores_of[spec.unit], 1)
    return held_uw(kind, kind.floor_uw - (-power_uw * kind.cores // cores))


def assigned_uw(assignment: Assignment, nodes: Iterable[NodeSpec], dram_cap_uw: int = 0) -> int:
    """Power above the floors that an assignment adds to these nodes."""
    return assigned_on_uw(assignment, {node.node_id: node for node in nodes}, dram_cap_uw)


def assigned_on_uw(
    assignment: Assignment, specs: Mapping[NodeId, NodeSpec], dram_cap_uw: int = 0
) -> int:
    """`assigned_uw` for nodes that are known by their id."""
    return shares_uw(assignment.shares, specs, assignment.cap_uw, assignment.levels, dram_cap_uw)


def shares_uw(
    shares: Iterable[Share],
    specs: Mapping[NodeId, NodeSpec],
    level_uw: int,
    levels: Levels = PLAIN,
    dram_cap_uw: int = 0,
) -> int:
    """Power above the floors of these cores at a level; nodes that are not known count nothing."""
    total_uw = 0
    for share in shares:
        node = specs.get(share.node_id)
        if node is not None:
            total_uw += cores_uw(node, len(share.cpus), level_uw, levels, dram_cap_uw)
            if share.gpus:
                total_uw += gpus_uw(node, share.gpus, levels.gpu_uw)
    return total_uw


def cores_uw(
    node: NodeSpec,
    cores: int,
    level_uw: int,
    levels: Levels = PLAIN,
    dram_cap_uw: int = 0,
    gpus: int = 0,
) -> int:
    """Power above the floor of some cores of a node, and of so many of its GPUs, whichever.

    Where the GPUs of a node are unlike it may be more than what some of them take.
    """
    kind = node.kind
    taken_uw = kind_gpus_uw(kind, gpus, levels.gpu_uw) if gpus else 0
    if not levels.dram_uw:
        return share_uw(kind, cores, level_uw) + taken_uw
    beyond_uw = dram_beyond_uw(node, levels.dram_uw, dram_cap_uw)
    return share_uw(kind, cores, held_uw(kind, level_uw), beyond_uw) + taken_uw


def on_node_uw(node: NodeSpec, assignments: Iterable[Assignment]) -> int:
    """Power of the packages of a node above their floors that holds these assignments; never above
    their span."""
    kind = node.kind
    return sum(share_uw(kind, len(a.on(node.node_id)), a.cap_uw) for a in assignments)


def dram_zones(node: NodeSpec) -> list[Zone]:
    """The DRAM zones of a node that can be capped."""
    return [zone for zone in node.zones if zone.kind is ZoneKind.DRAM and zone.can_cap]


def dram_range_uw(node: NodeSpec) -> tuple[int, int]:
    """The least and the greatest DRAM level of a node; both 0 where its DRAM cannot be capped."""
    zones = dram_zones(node)
    return sum(zone.floor_uw for zone in zones), sum(zone.cap_uw_max for zone in zones)


def dram_levels_uw(node: NodeSpec, level_uw: int) -> dict[ZoneName, int]:
    """What its DRAM zones hold at a level of the node: each as far up its range as the others."""
    zones, (least_uw, most_uw) = dram_zones(node), dram_range_uw(node)
    above_uw = max(min(level_uw, most_uw) - least_uw, 0)
    span_uw = max(most_uw - least_uw, 1)
    return {
        zone.name: zone.floor_uw + above_uw * (zone.cap_uw_max - zone.floor_uw) // span_uw
        for zone in zones
    }


def dram_beyond_uw(node: NodeSpec, level_uw: int, dram_cap_uw: int) -> int:
    """By how much a DRAM level of a whole node is above its standing caps; below zero if under."""
    if not level_uw:
        return 0
    held_all_uw = sum(dram_levels_uw(node, level_uw).values())
    return held_all_uw - dram_standing_uw(node, dram_cap_uw)


def dram_standing_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """What the DRAM zones of a node that can be capped hold without levels."""
    return sum(standing_cap_uw(zone, dram_cap_uw) for zone in dram_zones(node))


def gpu_zone(gpu: str) -> ZoneName:
    """The zone of a GPU that jobs know by this id."""
    return ZoneName(f"gpu-{gpu.removeprefix('GPU-')}")


def gpu_zones(node: NodeSpec, gpus: Iterable[str]) -> list[Zone]:
    """The zones of these GPUs that can be capped."""
    names = {gpu_zone(gpu) for gpu in gpus}
    return [z for z in node.zones if z.kind is ZoneKind.GPU and z.can_cap and z.name in names]


def gpu_cap_uw(zone: Zone, level_uw: int) -> int:
    """What the GPU of an owner with a level holds; 0 = without one: its greatest limit."""
    return clipped_uw(zone, level_uw) if level_uw else zone.cap_uw_max


def gpus_uw(node: NodeSpec, gpus: Iterable[str], level_uw: int) -> int:
    """Power of these GPUs of an owner above their floors; 0 = no level."""
    return sum(gpu_cap_uw(zone, level_uw) - zone.floor_uw for zone in gpu_zones(node, gpus))


def kind_gpus_uw(kind: NodeKind, gpus: int, level_uw: int) -> int:
    """`gpus_uw` of so many GPUs of a node of a kind, at most."""
    level_uw = min(level_uw or kind.gpu_most_uw, kind.gpu_most_uw)
    return gpus * max(level_uw - kind.gpu_floor_uw, 0)


def gpus_lowered_uw(node: NodeSpec, gpus: Iterable[str], level_uw: int) -> int:
    """By how much a level holds these GPUs below their greatest limits."""
    return sum(zone.cap_uw_max - gpu_cap_uw(zone, level_uw) for zone in gpu_zones(node, gpus))


def standing_cap_uw(zone: Zone, dram_cap_uw: int) -> int:
    """Cap of a zone beside the packages that no job has: the floor of a GPU, W_mem of DRAM, the
    greatest of others."""
    if zone.kind is ZoneKind.GPU:
        return zone.floor_uw
    if zone.kind is ZoneKind.DRAM and dram_cap_uw:
        return clipped_uw(zone, dram_cap_uw)
    return zone.cap_uw_max


def fixed_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """Charge of a node without jobs: base power, floors of packages and GPUs, standing caps."""
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
    if not node.not_held_uw:
        return fixed_uw(spec, dram_cap_uw)
    # These are never below the highest cap: see `cap_events.caps_not_held`.
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
