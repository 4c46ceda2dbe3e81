"""Conversion of inventories to the nodes of the core."""

from __future__ import annotations

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.agents.inventories import node_spec
from wattfold.v1 import node_agent_pb2 as pb

N = NodeId("n")


def inventory(*cpus: pb.Cpu) -> pb.Inventory:
    return pb.Inventory(node_id="n", cpus="0-3", topology=cpus, isolated_cpus="4", offline_cpus="5")


def test_topology_goes_to_the_core():
    told = [pb.Cpu(cpu=c, package=c % 2, siblings="0,2" if c % 2 == 0 else "1,3") for c in range(4)]
    spec = node_spec(inventory(*told), N)
    assert [str(group) for group in spec.topology.packages] == ["0,2", "1,3"]
    assert [str(group) for group in spec.topology.cores] == ["0,2", "1,3"]
    assert (str(spec.isolated_cpus), str(spec.offline_cpus)) == ("4", "5")


def test_siblings_of_an_older_agent_follow_from_its_core_numbers():
    told = [pb.Cpu(cpu=c, package=c // 2, core=0) for c in range(4)]
    assert [str(group) for group in node_spec(inventory(*told), N).topology.cores] == ["0-1", "2-3"]


def test_cpus_that_are_not_offered_are_in_no_group():
    told = [pb.Cpu(cpu=c, siblings="0-9") for c in range(10)]
    topology = node_spec(inventory(*told), N).topology
    assert [str(group) for group in topology.packages] == ["0-3"]
    assert [str(group) for group in topology.cores] == ["0-3"]


def test_nodes_that_are_alike_share_one_topology():
    told = [pb.Cpu(cpu=c, siblings=str(c)) for c in range(4)]
    assert node_spec(inventory(*told), N).topology is node_spec(inventory(*told), N).topology
