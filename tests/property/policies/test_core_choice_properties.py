"""Distribution of cores on any machine: disjoint, stable, siblings separated only if needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.coordinator.policies.placement.core_choice import NodeCores, Want, choose, distribute


@st.composite
def machines(draw):
    sockets, cores, smt = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    width = sockets * cores
    cpus = draw(st.permutations(range(width * smt)))
    places = []
    for core in range(width):
        siblings = CpuSet.of(cpus[core * smt : (core + 1) * smt])
        numa = draw(st.integers(0, 2))
        places += [
            CpuPlace(cpu=cpu, package=core // cores, numa_node=numa, siblings=siblings)
            for cpu in siblings
        ]
    offered = draw(st.sets(st.sampled_from(range(width * smt)), min_size=1))
    avoid = draw(st.sets(st.sampled_from(range(width * smt))))
    topology = Topology.of([place for place in places if place.cpu in offered])
    return CpuSet.of(offered), NodeCores(topology=topology, avoid=CpuSet.of(avoid))


@given(machines(), st.data())
def test_distribution(machine, data):
    cpus, node = machine
    owners = {cpu: data.draw(st.sampled_from(["", "a", "b", "c", "other"])) for cpu in cpus}
    held = {name: CpuSet.of(c for c in cpus if owners[c] == name) for name in ("a", "b", "c")}
    usable = CpuSet.of(c for c in cpus if owners[c] != "other")
    wants = []
    for name in held:
        size = data.draw(st.integers(1, len(cpus)))
        tasks = data.draw(st.integers(1, 4))
        wants.append(Want(job=JobId(name), size=size, held=held[name], tasks=tasks))
    given_ = distribute(wants, usable, node)
    seen = CpuSet()
    for want in wants:
        got = given_[want.job]
        assert got <= usable
        assert got.isdisjoint(seen)
        seen |= got
        # As few cores move as possible: no cores are exchanged.
        assert got <= want.held or want.held <= got
        assert len(got) <= want.size
    short = any(len(given_[w.job]) < w.size for w in wants)
    assert not short or seen == usable


@given(machines(), st.data())
def test_siblings_are_shared_with_another_job_only_without_other_room(machine, data):
    cpus, node = machine
    free = CpuSet.of(data.draw(st.sets(st.sampled_from(sorted(cpus)), min_size=1)))
    count = data.draw(st.integers(1, len(free)))
    others = cpus - free
    got = choose(count, free, CpuSet(), node)
    assert len(got) == count
    assert got <= free
    apart = [core for core in node.topology.cores if core.isdisjoint(others)]
    alone = CpuSet.of(cpu for core in apart for cpu in core)
    if count <= len(alone):
        assert got <= alone
    else:
        assert alone <= got
    if not node.avoid:
        # At most one of its cores is half used.
        assert sum(not core <= got and not core.isdisjoint(got) for core in apart) <= 1
