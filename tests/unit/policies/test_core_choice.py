"""Choice of the cores of a node for its jobs."""

from __future__ import annotations

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.coordinator.policies.placement.core_choice import (
    NodeCores,
    Want,
    choose,
    distribute,
    keep,
)

NONE = CpuSet()


def machine(sockets: int, cores: int, smt: int = 1, numa: int = 1, avoid: str = "") -> NodeCores:
    """CPU numbers as on Linux: all first threads, then all second threads."""
    places = []
    for cpu in range(sockets * cores * smt):
        core = cpu % (sockets * cores)
        siblings = CpuSet.of(core + i * sockets * cores for i in range(smt))
        places.append(
            CpuPlace(
                cpu=cpu,
                package=core // cores,
                numa_node=core * numa // cores,
                siblings=siblings,
            )
        )
    return NodeCores(topology=Topology.of(places), avoid=CpuSet.parse(avoid))


def taken(count: int, free: str, node: NodeCores, mine: str = "", tasks: int = 1) -> str:
    return str(choose(count, CpuSet.parse(free), CpuSet.parse(mine), node, tasks))


def given(wants: dict[str, tuple[str, int]], usable: str, node: NodeCores) -> dict[str, str]:
    listed = [Want(job=JobId(n), size=s, held=CpuSet.parse(h)) for n, (h, s) in wants.items()]
    return {j: str(c) for j, c in distribute(listed, CpuSet.parse(usable), node).items()}


def test_without_topology_the_lowest_cpus_are_taken():
    assert taken(3, "1-7", NodeCores(topology=Topology())) == "1-3"


def test_jobs_are_in_separate_sockets_while_there_are_some():
    node = machine(2, 4)
    assert given({"a": ("", 3), "b": ("", 2)}, "0-7", node) == {"a": "0-2", "b": "4-5"}


def test_with_every_socket_in_use_the_one_that_is_filled_best_is_taken():
    assert taken(1, "2-3,7", machine(2, 4)) == "7"
    assert taken(2, "1-3,6-7", machine(2, 4)) == "6-7"


def test_a_job_grows_in_its_own_socket_first():
    assert taken(2, "0-3,6-7", machine(2, 4), mine="4-5") == "6-7"
    assert taken(3, "0-3,6-7", machine(2, 4), mine="4-5") == "0,6-7"


def test_half_a_node_that_shrinks_leaves_a_whole_socket():
    node = machine(2, 4)
    assert given({"a": ("0-7", 4), "b": ("", 4)}, "0-7", node) == {"a": "0-3", "b": "4-7"}


def test_siblings_stay_together():
    node = machine(1, 4, smt=2)
    assert taken(2, "0-7", node) == "0,4"
    assert taken(3, "0-7", node) == "0-1,4"
    # CPU 4 is the sibling of another job's CPU 0.
    assert taken(2, "1-7", node) == "1,5"
    assert taken(6, "1-7", node) == "1-3,5-7"
    assert taken(1, "2-7", node, mine="1") == "5"


def test_siblings_are_split_only_when_nothing_else_is_left():
    node = machine(2, 2, smt=2)
    # The free CPUs are siblings of cores in use, and one whole core of the other socket.
    assert taken(2, "3-5,7", node, mine="") == "3,7"
    assert taken(3, "3-5,7", node, mine="") == "3-4,7"


def test_a_job_that_shrinks_gives_up_the_core_it_shares_first():
    node = machine(1, 4, smt=2)
    assert str(keep(2, CpuSet.parse("0-1,5"), CpuSet.parse("2-3,6-7"), node)) == "1,5"
    # Its own cores stay whole.
    assert str(keep(2, CpuSet.parse("0-1,4-5"), NONE, node)) == "0,4"


def test_numa_nodes_count_within_a_socket():
    node = machine(1, 8, numa=2)
    assert taken(3, "2-7", node) == "4-6"
    assert taken(2, "2-7", node) == "4-5"


def test_a_job_larger_than_a_socket_takes_whole_tasks():
    node = machine(2, 4)
    assert taken(6, "0-7", node) == "0-5"
    assert taken(6, "0-7", node, tasks=2) == "0-2,4-6"
    # Six tasks of one core each can fill a socket.
    assert taken(6, "0-7", node, tasks=6) == "0-5"
    # A task larger than any socket has to be split.
    assert len(choose(7, CpuSet.parse("0-7"), NONE, node, 1)) == 7
    # Tasks of three cores do not fit into the free cores of either socket.
    assert len(choose(6, CpuSet.parse("0-2,4-6"), NONE, node, 2)) == 6
    assert taken(5, "0-2,4-5", node, tasks=3) == "0-2,4-5"


def test_cores_with_residual_work_are_taken_last():
    node = machine(2, 4, avoid="0-1")
    assert taken(2, "0-3", node) == "2-3"
    assert taken(3, "0-3", node) == "0,2-3"
    # In preference to a core that is half used by another job.
    smt = machine(1, 2, smt=2, avoid="1")
    assert taken(1, "1-3", smt) == "3"
    assert taken(2, "1-3", smt) == "1,3"
    assert taken(2, "0-3", NodeCores(topology=Topology(), avoid=CpuSet.parse("0"))) == "1-2"


def test_who_cannot_grow_as_far_gets_what_there_is():
    assert given({"a": ("0", 4), "b": ("1", 1)}, "0-2", machine(1, 4)) == {"a": "0,2", "b": "1"}


def test_too_few_cores_are_refused():
    with pytest.raises(ValueError, match="cannot take 3 of 2 CPUs"):
        taken(3, "0-1", machine(1, 4))
