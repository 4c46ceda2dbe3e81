"""Residual work and node power, from telemetry to policies and clients."""

from __future__ import annotations

import logging

import pytest
from unit.policies.snapshots import held, job, node, snapshot

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.inventories import MessageError, node_spec
from wattfold.coordinator.adapters.agents.messages import sample
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations
from wattfold.coordinator.adapters.learning.residual import AlarmLog, with_residual
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.v1 import node_agent_pb2 as pb

S = 1_000_000_000
W = 1_000_000
N0 = NodeId("n0")
ZONES = (("package-0", pb.ZONE_KIND_PACKAGE), ("dram-0", pb.ZONE_KIND_DRAM))
INVENTORY = pb.Inventory(
    node_id="n0",
    cpus="0-3",
    base_power_uw=30 * W,
    zones=[
        pb.PowerZone(name=name, kind=kind, cap_uw_max=90 * W, can_cap=True) for name, kind in ZONES
    ],
)


def residual_of(*loads: tuple[int, float], alarm: bool = True) -> pb.JobUsage:
    cores = [pb.CoreResidual(cpu=cpu, cpu_ns=S, load=load) for cpu, load in loads]
    return pb.JobUsage(job_id="a", residual_cores=cores, residual_alarm=alarm)


def heard(*jobs: pb.JobUsage, psys: int = 0, energy_j: int = 0, at_s: int = 1) -> NodeSample:
    """A sample of packages that draw 40 W and memory that draws 10 W, with an optional platform
    meter.
    """
    message = pb.Telemetry(node_id="n0", jobs=jobs)
    for name, watts in (("package-0", 40), ("dram-0", 10)):
        message.zones.add(
            name=name, power_uw=watts * W, energy_uj=watts * W * at_s, cap_uw=90 * W, valid=True
        )
    if psys:
        message.node_power.source = pb.NodePower.SOURCE_PSYS
        message.node_power.power_uw = psys * W
        message.node_power.energy_uj = psys * W * at_s
    return sample(message, node_spec(INVENTORY, N0), at_s * S)


def test_policies_are_told_of_cores_with_residual_work():
    seen = Observations()
    plain = snapshot([node("n0", 4)], [])
    assert with_residual(plain, seen) is plain
    seen.take(heard(residual_of((1, 0.5), (2, 0.001))))
    assert [view.residual for view in with_residual(plain, seen).nodes] == [CpuSet.parse("1")]
    seen.drop(N0)
    assert with_residual(plain, seen) is plain


def test_the_next_job_gets_the_other_cores():
    seen = Observations()
    seen.take(heard(residual_of((1, 0.5))))
    jobs = [job("a", 1, 4, current=held("a", "n0:0")), job("b", 2, 2)]
    for view, cpus in (
        (snapshot([node("n0", 4)], jobs), "1-2"),
        (with_residual(snapshot([node("n0", 4)], jobs), seen), "2-3"),
    ):
        plan = FifoEasy().propose(view, 0, 1.0)
        given = {a.job_id: str(a.shares[0].cpus) for a in plan.assignments}
        assert given[JobId("b")] == cpus


def test_an_alarm_is_logged_when_it_begins_and_when_it_ends(caplog):
    caplog.set_level(logging.INFO)
    log = AlarmLog()
    for found in (
        residual_of((1, 0.5)),
        residual_of((1, 0.6)),
        residual_of((1, 0.01), alarm=False),
    ):
        log.take(heard(found))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "event=residual_alarm node=n0 job=a load_by_cpu=1:0.500",
        "event=residual_alarm_over node=n0 job=a",
    ]


@pytest.mark.parametrize(("cpu", "load"), [(70_000, 0.1), (1, float("inf")), (1, -0.1)])
def test_what_cannot_be_is_refused(cpu, load):
    with pytest.raises(MessageError, match="a residual load of"):
        heard(residual_of((cpu, load)))


def test_without_a_platform_meter_zones_and_base_power_are_added():
    assert heard().power_uw == (30 + 40 + 10) * W


def test_the_platform_meter_stands_for_the_node_and_is_added_to_nothing():
    assert heard(psys=95).power_uw == 95 * W
    seen = Observations()
    for second in range(1, 4):
        seen.take(heard(psys=95, at_s=second))
    assert seen.power_uw == 95 * W
    assert seen.energy_uj == 3 * 95 * W
