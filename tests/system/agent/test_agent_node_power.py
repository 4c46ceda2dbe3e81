"""Reports of an agent on its whole node: the platform meter, and the sockets of its cores."""

import pytest
from contract.agent.behaving_trees import why_no_fuse
from system.agent.agent_process import agent
from system.agent.conftest import CPUS

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import node_agent_pb2 as pb


@pytest.mark.skipif(bool(why_no_fuse()), reason=why_no_fuse() or "FUSE works")
def test_psys_stands_for_the_node_and_is_added_to_nothing():
    with agent("--emulate", "sapphire-rapids-2s", "--masks", "affinity") as running:
        message = running.telemetry(lambda m: m.node_power.energy_uj > 0)
        energy_uj = {zone.name: zone.energy_uj for zone in message.zones}
        assert {"package-0", "package-1", "psys"} <= energy_uj.keys()
        assert message.node_power.source == pb.NodePower.SOURCE_PSYS
        assert message.node_power.energy_uj == energy_uj["psys"]


def test_without_psys_the_zones_are_the_node(plain_agent):
    message = plain_agent.telemetry(lambda m: m.node_power.energy_uj > 0)
    assert message.node_power.source == pb.NodePower.SOURCE_ZONES
    assert message.node_power.energy_uj == sum(zone.energy_uj for zone in message.zones)


def test_the_place_of_every_cpu_is_in_the_inventory(plain_agent):
    inventory = plain_agent.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)
    assert [entry.cpu for entry in inventory.topology] == CPUS
    for entry in inventory.topology:
        assert entry.cpu in CpuSet.parse(entry.siblings)
    kept = CpuSet.parse(inventory.isolated_cpus) | CpuSet.parse(inventory.offline_cpus)
    assert kept.isdisjoint(CpuSet.of(CPUS))
