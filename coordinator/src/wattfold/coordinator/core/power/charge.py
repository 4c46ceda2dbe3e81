"""Power charges of nodes and jobs: the only module that turns cores and levels into microwatts.

A level is a cap of a whole node's packages. A job on n of a node's C cores with level p adds

    n/C (p' - floor),   p' = p, limited to floor..most, the range of the packages

to the charge of the idle node, rounded down. A node whose cores all have the same level is charged
with exactly that level, as in PARM. No job is charged more than its node can draw: a level above
the range of a small node counts as the maximum of that node.

An idle GPU is set to its floor, like packages. A job adds the difference between its GPU level and
this floor; without a level, the maximum limit counts.

DRAM may have a level as well (`levels`). Idle nodes are charged with its default caps. So a job
adds or subtracts the difference between its level and these caps, by its share of the cores. The
charge of a job is never negative, although its node may draw less than an idle node: otherwise the
end of a job would need power.

Ledger, applier, policies and simulators all use this module, so that all of them give the same
answers. Identical nodes have one `NodeKind`; nothing below depends on the name of a node. `targets`
computes the caps of zones from the same sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.node import Node, NodeKind, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.models.pass_model import SizeUnit

CAP_STEP_UW = 125_000
"""RAPL limits are multiples of 1/8 W. Caps are rounded down to such a multiple."""


def held_uw(kind: NodeKind, level_uw: int) -> int:
    """Return the level limited to the range of the node kind."""
    return max(min(level_uw, kind.most_uw), kind.lowest_uw)


def share_uw(kind: NodeKind, cores: int, level_uw: int, beyond_uw: int = 0) -> int:
    """Return the power above the floor of ``cores`` cores of a node at a level, rounded down.

    ``beyond_uw`` is the power of other zones of the whole node above their default caps. With it
    the sum is rounded up, because each part is rounded down when it becomes a cap.
    """
    if not beyond_uw:
        return cores * (held_uw(kind, level_uw) - kind.floor_uw) // kind.cores
    above_uw = max(min(level_uw, kind.most_uw) + beyond_uw - kind.floor_uw, 0)
    return -(-cores * above_uw // kind.cores)


def node_uw(kind: NodeKind, level_uw: int, beyond_uw: int = 0) -> int:
    """Return the power above the floor of a whole node at a level."""
    return share_uw(kind, kind.cores, level_uw, beyond_uw)


def reached_uw(kind: NodeKind, cores: int, cap_uw: int) -> int:
    """Return the level of jobs that hold ``cores`` cores under a cap: the inverse of `share_uw`."""
    above_uw = (cap_uw - kind.floor_uw) * kind.cores // cores
    return min(kind.floor_uw + above_uw, kind.most_uw)


def drawing_uw(spec: JobSpec, kind: NodeKind, power_uw: int) -> int:
    """Return the level that gives a job ``power_uw`` above the floors at its maximum size.

    The level is rounded up and limited to the range of the packages.
    """
    cores_of = {SizeUnit.NODES: kind.cores, SizeUnit.UNITS: spec.unit_cores, SizeUnit.CORES: 1}
    cores = max(spec.size_max * cores_of[spec.unit], 1)
    return held_uw(kind, kind.floor_uw - (-power_uw * kind.cores // cores))


def assigned_uw(assignment: Assignment, nodes: Iterable[NodeSpec], dram_cap_uw: int = 0) -> int:
    """Return the power above the floors that an assignment adds to these nodes."""
    return assigned_on_uw(assignment, {node.node_id: node for node in nodes}, dram_cap_uw)


def assigned_on_uw(
    assignment: Assignment, specs: Mapping[NodeId, NodeSpec], dram_cap_uw: int = 0
) -> int:
    """Return `assigned_uw` for nodes given by ID."""
    return shares_uw(assignment.shares, specs, assignment.cap_uw, assignment.levels, dram_cap_uw)


def shares_uw(
    shares: Iterable[Share],
    specs: Mapping[NodeId, NodeSpec],
    level_uw: int,
    levels: Levels = PLAIN,
    dram_cap_uw: int = 0,
) -> int:
    """Return the power above the floors of these shares at a level; unknown nodes count as 0."""
    total_uw = 0
    # Equal shares of nodes of one kind add the same, and a job on whole nodes has many of them.
    known: dict[tuple[int, int], int] = {}
    for share in shares:
        node = specs.get(share.node_id)
        if node is None:
            continue
        part = id(node.kind), len(share.cpus.cpus)
        power_uw = known.get(part)
        if power_uw is None:
            power_uw = cores_uw(node, part[1], level_uw, levels, dram_cap_uw)
            if not levels.dram_uw:
                known[part] = power_uw
        total_uw += power_uw
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
    """Return the power above the floor of some cores and any ``gpus`` GPUs of a node.

    If the GPUs of a node differ, the result may exceed the power of the GPUs that are chosen.
    """
    kind = node.kind
    taken_uw = kind_gpus_uw(kind, gpus, levels.gpu_uw) if gpus else 0
    if not levels.dram_uw:
        return share_uw(kind, cores, level_uw) + taken_uw
    beyond_uw = dram_beyond_uw(node, levels.dram_uw, dram_cap_uw)
    return share_uw(kind, cores, held_uw(kind, level_uw), beyond_uw) + taken_uw


def on_node_uw(node: NodeSpec, assignments: Iterable[Assignment]) -> int:
    """Return the package power of a node above the floors for these assignments.

    It never exceeds the span of the packages.
    """
    kind = node.kind
    return sum(share_uw(kind, len(a.on(node.node_id)), a.cap_uw) for a in assignments)


def dram_zones(node: NodeSpec) -> list[Zone]:
    """Return the DRAM zones of a node that can be capped."""
    return [zone for zone in node.zones if zone.kind is ZoneKind.DRAM and zone.can_cap]


def dram_range_uw(node: NodeSpec) -> tuple[int, int]:
    """Return the minimum and maximum DRAM level of a node; both 0 if its DRAM cannot be capped."""
    zones = dram_zones(node)
    return sum(zone.floor_uw for zone in zones), sum(zone.cap_uw_max for zone in zones)


def dram_levels_uw(node: NodeSpec, level_uw: int) -> dict[ZoneName, int]:
    """Return the caps of DRAM zones for a level: each at the same part of its range."""
    zones, (least_uw, most_uw) = dram_zones(node), dram_range_uw(node)
    above_uw = max(min(level_uw, most_uw) - least_uw, 0)
    span_uw = max(most_uw - least_uw, 1)
    return {
        zone.name: zone.floor_uw + above_uw * (zone.cap_uw_max - zone.floor_uw) // span_uw
        for zone in zones
    }


def dram_beyond_uw(node: NodeSpec, level_uw: int, dram_cap_uw: int) -> int:
    """Return a DRAM level of a whole node minus its default caps; negative below them."""
    if not level_uw:
        return 0
    held_all_uw = sum(dram_levels_uw(node, level_uw).values())
    return held_all_uw - dram_standing_uw(node, dram_cap_uw)


def dram_standing_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """Return the sum of the default caps of the DRAM zones of a node."""
    return sum(standing_cap_uw(zone, dram_cap_uw) for zone in dram_zones(node))


def gpu_zone(gpu: str) -> ZoneName:
    """Return the zone name of a GPU from its ID."""
    return ZoneName(f"gpu-{gpu.removeprefix('GPU-')}")


def gpu_zones(node: NodeSpec, gpus: Iterable[str]) -> list[Zone]:
    """Return the zones of these GPUs that can be capped."""
    names = {gpu_zone(gpu) for gpu in gpus}
    return [z for z in node.zones if z.kind is ZoneKind.GPU and z.can_cap and z.name in names]


def gpu_cap_uw(zone: Zone, level_uw: int) -> int:
    """Return the cap of an assigned GPU at a level; 0 = the maximum limit."""
    return clipped_uw(zone, level_uw) if level_uw else zone.cap_uw_max


def gpus_uw(node: NodeSpec, gpus: Iterable[str], level_uw: int) -> int:
    """Return the power of assigned GPUs above their floors at a level; 0 = no level."""
    return sum(gpu_cap_uw(zone, level_uw) - zone.floor_uw for zone in gpu_zones(node, gpus))


def kind_gpus_uw(kind: NodeKind, gpus: int, level_uw: int) -> int:
    """Return an upper bound of `gpus_uw` for ``gpus`` GPUs of a node kind."""
    level_uw = min(level_uw or kind.gpu_most_uw, kind.gpu_most_uw)
    return gpus * max(level_uw - kind.gpu_floor_uw, 0)


def gpus_lowered_uw(node: NodeSpec, gpus: Iterable[str], level_uw: int) -> int:
    """Return by how much a level lowers these GPUs below their maximum limits."""
    return sum(zone.cap_uw_max - gpu_cap_uw(zone, level_uw) for zone in gpu_zones(node, gpus))


def standing_cap_uw(zone: Zone, dram_cap_uw: int) -> int:
    """Return the cap of an unassigned zone: floor (GPU), W_mem (DRAM) or maximum (others)."""
    if zone.kind is ZoneKind.GPU:
        return zone.floor_uw
    if zone.kind is ZoneKind.DRAM and dram_cap_uw:
        return clipped_uw(zone, dram_cap_uw)
    return zone.cap_uw_max


def fixed_uw(node: NodeSpec, dram_cap_uw: int) -> int:
    """Return the charge of an idle node: base power, floors of packages and GPUs, default caps."""
    return node.base_power_uw + sum(_idle_uw(zone, dram_cap_uw) for zone in node.zones)


def _idle_uw(zone: Zone, dram_cap_uw: int) -> int:
    """Return the possible power of a zone of an idle node."""
    if not zone.can_cap:
        return zone.cap_uw_max
    if zone.kind is ZoneKind.PACKAGE:
        return zone.floor_uw
    return max(standing_cap_uw(zone, dram_cap_uw), zone.floor_uw)


def node_fixed_uw(node: Node, spec: NodeSpec, dram_cap_uw: int) -> int:
    """Return `fixed_uw` plus the power of zones that exceed their caps."""
    if not node.not_held_uw:
        return fixed_uw(spec, dram_cap_uw)
    # These powers are never below the maximum cap: see `cap_events.caps_not_held`.
    beyond_uw = sum(
        max(node.not_held_uw[zone.name] - _idle_uw(zone, dram_cap_uw), 0)
        for zone in spec.zones
        if zone.name in node.not_held_uw
    )
    return fixed_uw(spec, dram_cap_uw) + beyond_uw


def originals_uw(node: Node, spec: NodeSpec) -> dict[ZoneName, int]:
    """Return the original limit of every cappable zone; its maximum cap if not reported."""
    told = node.original_uw
    return {
        zone.name: told.get(zone.name) or zone.cap_uw_max for zone in spec.zones if zone.can_cap
    }


def given_back_uw(node: Node, spec: NodeSpec) -> int:
    """Return the charge of a node with its original limits, in microwatts.

    A zone that draws more than its limit is charged with its power.
    """
    back_uw = {zone.name: zone.cap_uw_max for zone in spec.zones} | originals_uw(node, spec)
    zones_uw = sum(max(uw, node.not_held_uw.get(name, 0)) for name, uw in back_uw.items())
    return spec.base_power_uw + zones_uw


def clipped_uw(zone: Zone, cap_uw: int) -> int:
    """Return the largest valid cap of a zone up to ``cap_uw``, but at least its floor."""
    stepped_uw = cap_uw // CAP_STEP_UW * CAP_STEP_UW
    return max(min(stepped_uw, zone.cap_uw_max), zone.floor_uw)
