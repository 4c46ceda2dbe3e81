"""Events that bring nodes up in a core, for benchmarks."""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node import NodeSpec, Zone, ZoneKind

S, W = 1_000_000_000, 1_000_000
ZONE = ZoneName("package-0")
AT_FLOOR = reports.ZoneReading(zone=ZONE, cap_uw=40 * W)


def coming_up(node_id: NodeId, cores: int, base_uw: int) -> tuple[ev.Event, ev.Event]:
    """Events that register a node with one package of 40 to 100 W."""
    zone = Zone(
        name=ZONE,
        kind=ZoneKind.PACKAGE,
        cap_uw_min=40 * W,
        cap_uw_max=100 * W,
        floor_uw=40 * W,
        window_ns=S,
    )
    cpus = CpuSet.of(range(cores))
    spec = NodeSpec(node_id=node_id, cpus=cpus, zones=(zone,), base_power_uw=base_uw)
    return (
        ev.NodeRegistered(node_id=node_id, address="x"),
        reports.NodeConnected(spec=spec, caps=(AT_FLOOR,), processes=()),
    )
