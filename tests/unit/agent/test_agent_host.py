"""Topology as the kernel shows it, read from a tree of files."""

import os
from pathlib import Path

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.topology import Topology
from wattfold.nodeagent.adapters import host


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def two_sockets(tmp_path):
    """Two sockets of two cores with two threads each; CPU 7 is offline, CPU 6 isolated."""
    for cpu in range(7):
        folder = tmp_path / f"cpu/cpu{cpu}/topology"
        core = cpu % 4
        write(folder / "physical_package_id", str(core // 2))
        # Core numbers start at zero in every package.
        write(folder / "core_id", str(core % 2))
        write(folder / "core_cpus_list", str(core) if core == 3 else f"{core},{core + 4}")
    write(tmp_path / "cpu/present", "0-7")
    write(tmp_path / "cpu/online", "0-6")
    write(tmp_path / "cpu/isolated", "6")
    write(tmp_path / "node/node0/cpulist", "0-1,4-5")
    write(tmp_path / "node/node1/cpulist", "2-3,6")
    write(tmp_path / "node/node2/cpulist", "")
    return tmp_path


def test_sockets_nodes_and_siblings_are_read(two_sockets):
    places = host.topology(CpuSet.parse("0-6"), two_sockets)
    found = Topology.of(places)
    assert [str(group) for group in found.packages] == ["0-1,4-5", "2-3,6"]
    assert [str(group) for group in found.numa_nodes] == ["0-1,4-5", "2-3,6"]
    assert [str(group) for group in found.cores] == ["0,4", "1,5", "2,6", "3"]
    assert (found.smt, found.flat) == (2, False)
    assert [host.core_id(cpu, two_sockets) for cpu in range(4)] == [0, 1, 0, 1]


def test_only_cpus_asked_for_are_in_the_groups(two_sockets):
    found = Topology.of(host.topology(CpuSet.parse("0,2-3"), two_sockets))
    assert [str(group) for group in found.cores] == ["0", "2", "3"]


def test_offline_and_isolated_cpus_are_told(two_sockets):
    assert str(host.offline_cpus(two_sockets)) == "7"
    assert str(host.isolated_cpus(two_sockets)) == "6"


@pytest.mark.parametrize("why", ["isolated", "offline"])
def test_a_cpu_of_this_process_is_not_offered_then(tmp_path, why):
    own = CpuSet.of(os.sched_getaffinity(0))
    gone = own.take(1)
    write(tmp_path / "cpu/present", str(own))
    write(tmp_path / "cpu/online", str(own - gone if why == "offline" else own))
    write(tmp_path / "cpu/isolated", str(gone if why == "isolated" else ""))
    assert host.schedulable_cpus(tmp_path) == own - gone


def test_an_older_kernel_names_siblings_otherwise(tmp_path):
    write(tmp_path / "cpu/cpu0/topology/thread_siblings_list", "0-1")
    write(tmp_path / "cpu/cpu0/topology/physical_package_id", "-1")
    place = host.topology(CpuSet.parse("0"), tmp_path)[0]
    assert (str(place.siblings), place.package) == ("0-1", 0)


def test_a_kernel_that_tells_nothing_is_a_flat_machine(tmp_path):
    found = Topology.of(host.topology(CpuSet.parse("0-3"), tmp_path))
    assert found.flat
    assert [str(group) for group in found.packages] == ["0-3"]
    assert str(host.isolated_cpus(tmp_path) | host.offline_cpus(tmp_path)) == ""


def test_the_real_tree_is_read():
    cpus = host.schedulable_cpus()
    found = Topology.of(host.topology(cpus))
    assert CpuSet.of(cpu for group in found.cores for cpu in group) == cpus
    assert CpuSet.of(cpu for group in found.packages for cpu in group) == cpus
