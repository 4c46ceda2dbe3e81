"""Nodes of a machine as policies see them, with names."""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.simulator.engine.machines.machine import NodePowers
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine


def node_views(machine: NodeMachine) -> tuple[NodeView, ...]:
    """Return the nodes of a machine as policies see them, in the order of their numbers."""
    return tuple(
        node_view(f"{one.name}-{number}", one, one)
        for one in machine.classes
        for number in range(one.count)
    )


def node_view(name: str, powers: NodePowers, has: NodeClass | None = None) -> NodeView:
    """Return a node as a policy sees it, with a single core if its resources are unknown."""
    package = Zone(
        name=ZoneName("package-0"),
        kind=ZoneKind.PACKAGE,
        cap_uw_min=powers.cap_uw_min,
        cap_uw_max=powers.cap_uw_max,
        # The part of a level that an idle node is charged as well. It is below the minimum cap if
        # an idle node draws less than one at its minimum cap.
        floor_uw=powers.idle_uw - powers.base_uw - powers.dram_uw,
        window_ns=NS_PER_S,
    )
    gpus = tuple(f"gpu{number}" for number in range(has.gpus if has else 0))
    spec = NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(has.cores if has else 1)),
        zones=(package, *(has.gpu_zone(gpu) for gpu in gpus if has and has.gpu_uw_max)),
        base_power_uw=powers.base_uw + powers.dram_uw,
        memory_bytes=has.memory_bytes if has else 0,
        gpus=gpus,
        gpu_model=has.gpu_model if has else "",
        features=has.features if has else (),
    )
    return NodeView(spec=spec, fixed_uw=fixed_uw(spec, 0), features=spec.features)
