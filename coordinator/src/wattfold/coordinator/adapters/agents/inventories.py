"""The inventory of an agent as the core's NodeSpec, checked where it comes in.

An agent of a newer version may have kinds of devices that this version does not know. These are
charged with their maximum power and not used. The rest of the node is used.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import EPOCH_MAX, NodeId, ZoneName, valid_name
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.agents.step_keys import steps_address
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.v1 import node_agent_pb2 as pb

ZONES_MAX = 64
CURVE_MAX = 1e6
"""Watts, gigahertz, and the coefficients of a power model."""
CURVE_A_MIN = 1e-9
"""W/GHz³. A power model without a cubic term has no frequency of minimum energy."""
NAMES_MAX = 1024
"""GPUs of a node, and features."""
_GPU_ACCESS = {
    pb.GPU_ACCESS_CGROUP_V1: "cgroup v1",
    pb.GPU_ACCESS_CGROUP_V2: "cgroup v2",
    pb.GPU_ACCESS_TOLD: "told",
}
CHARGED = {
    pb.ZONE_KIND_PACKAGE: ZoneKind.PACKAGE,
    pb.ZONE_KIND_DRAM: ZoneKind.DRAM,
    pb.ZONE_KIND_GPU: ZoneKind.GPU,
}
"""psys is left out: it contains the packages."""
_NOT_CHARGED = (pb.ZONE_KIND_PSYS,)
_MECHANISMS = {
    "mask_mechanism": pb.MaskMechanism,
    "throttle_mechanism": pb.ThrottleMechanism,
    "memory_mechanism": pb.MemoryMechanism,
    "gpu_access": pb.GpuAccess,
}


class MessageError(Exception):
    """An agent said something that cannot be; the message names field and value."""


def node_spec(message: pb.Inventory, expected: NodeId, address: str = "") -> NodeSpec:
    """The inventory of the agent at an address as the core's NodeSpec. Raises MessageError."""
    if message.node_id != expected:
        raise MessageError(f"the agent calls itself {message.node_id!r}, expected {expected!r}")
    if message.epoch > EPOCH_MAX:
        raise MessageError(f"its epoch {message.epoch} is above {EPOCH_MAX}")
    if len(message.zones) > ZONES_MAX:
        raise MessageError(f"{len(message.zones)} power zones exceed the limit of {ZONES_MAX}")
    cpus = cpus_of(message.cpus)
    if not cpus:
        raise MessageError("the agent offers no cores")
    return NodeSpec(
        node_id=expected,
        cpus=cpus,
        zones=tuple(_zone(z) for z in message.zones if z.kind in CHARGED),
        base_power_uw=message.base_power_uw + sum(z.cap_uw_max for z in _unknown_zones(message)),
        curve=_curve(message),
        emulated=message.emulated,
        mask_mechanism=_mechanism(message, "mask_mechanism"),
        throttle_mechanism=_mechanism(message, "throttle_mechanism"),
        topology=_topology(message, cpus),
        isolated_cpus=cpus_of(message.isolated_cpus),
        offline_cpus=cpus_of(message.offline_cpus),
        steps_address=steps_address(message.steps_address, address),
        memory_bytes=message.memory_bytes,
        gpus=_named(message.gpus, "GPU"),
        features=_named(message.features, "feature"),
        memory_mechanism=_memory(message),
        gpu_model=_gpu_model(message),
        gpu_access=_GPU_ACCESS.get(message.gpu_access, ""),
    )


def _named(names: Iterable[str], what: str) -> tuple[str, ...]:
    found = tuple(names)
    if len(found) > NAMES_MAX or len(set(found)) < len(found) or not all(map(valid_name, found)):
        raise MessageError(
            f"the {what} names must be at most {NAMES_MAX} different valid names, got {found[:5]}"
        )
    return found


def _gpu_model(message: pb.Inventory) -> str:
    if message.gpu_model and not valid_name(message.gpu_model):
        raise MessageError(f"the GPU model {message.gpu_model!r} is not a valid name")
    return message.gpu_model


def _memory(message: pb.Inventory) -> str:
    if message.memory_mechanism == pb.MEMORY_MECHANISM_UNSPECIFIED:
        return ""
    return _mechanism(message, "memory_mechanism")


def _topology(message: pb.Inventory, cpus: CpuSet) -> Topology:
    offered = [entry for entry in message.topology if entry.cpu in cpus]
    by_core = defaultdict[tuple[int, int], set[int]](set)
    for entry in offered:
        by_core[entry.package, entry.core].add(entry.cpu)
    places = {
        entry.cpu: CpuPlace(
            cpu=entry.cpu,
            package=entry.package,
            numa_node=entry.numa_node,
            # An agent of an earlier version reports no siblings.
            siblings=cpus_of(entry.siblings) or CpuSet.of(by_core[entry.package, entry.core]),
        )
        for entry in offered
    }
    return _shared(Topology.of(places.values()))


@functools.lru_cache(maxsize=1024)
def _shared(topology: Topology) -> Topology:
    """One object for nodes with equal topologies: snapshots are often sent to the worker."""
    return topology


def _mechanism(message: pb.Inventory, field: str) -> str:
    name = enum_name(_MECHANISMS[field], getattr(message, field))
    return name.split("_MECHANISM_", 1)[-1].lower().replace("_", " ")


def enum_name(kind: Any, number: int) -> str:
    """The name of an enum value, or ``unknown (N)`` for a value of a newer version."""
    return str(kind.Name(number)) if number in kind.values() else f"unknown ({number})"


def _unknown_zones(message: pb.Inventory) -> list[pb.PowerZone]:
    return [z for z in message.zones if z.kind not in CHARGED and z.kind not in _NOT_CHARGED]


def unknown_parts(message: pb.Inventory) -> tuple[str, ...]:
    """Describe the parts of a node that this version does not know; it does not use them."""
    zones = (
        f"zone {zone.name} of kind {zone.kind} with at most {w_from_uw(zone.cap_uw_max):g} W"
        for zone in _unknown_zones(message)
    )
    mechanisms = (
        f"{field} {getattr(message, field)}"
        for field, kind in _MECHANISMS.items()
        if getattr(message, field) not in kind.values()
    )
    return (*zones, *mechanisms)


def cpus_of(text: str) -> CpuSet:
    """The cores in a message. Raises MessageError."""
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise MessageError(str(error)) from error


def _curve(message: pb.Inventory) -> Curve | None:
    if not message.HasField("model"):
        return None
    m = message.model
    values = (m.a, m.b, m.c, m.f_low_ghz, m.f_high_ghz)
    possible = all(0 <= value <= CURVE_MAX for value in values) and m.a >= CURVE_A_MIN
    if not (possible and m.c > 0 and 0 < m.f_low_ghz < m.f_high_ghz):
        raise MessageError(f"its power model is invalid: {m}")
    return Curve(a=m.a, b=m.b, c=m.c, f_low_ghz=m.f_low_ghz, f_high_ghz=m.f_high_ghz)


def _zone(message: pb.PowerZone) -> Zone:
    low, high, floor = message.cap_uw_min, message.cap_uw_max, message.floor_uw
    if not valid_name(message.name):
        raise MessageError(f"zone name {message.name!r} is not valid")
    if message.can_cap and not low <= floor <= high:
        raise MessageError(
            f"zone {message.name}: floor of {w_from_uw(floor):g} W is outside its range of "
            f"{w_from_uw(low):g}..{w_from_uw(high):g} W",
        )
    if message.kind == pb.ZONE_KIND_GPU and not message.can_cap and not high:
        raise MessageError(
            f"zone {message.name} cannot be capped and its maximum power is unknown; set it "
            'in gpu_max_w of the agent, or set gpus = "off" and include it in base_power_w'
        )
    return Zone(
        name=ZoneName(message.name),
        kind=CHARGED[message.kind],
        cap_uw_min=low,
        cap_uw_max=high,
        floor_uw=floor,
        window_ns=message.window_ns,
        can_cap=message.can_cap,
    )
