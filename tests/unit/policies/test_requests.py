"""Jobs that request more than cores: starts, waits and reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.policies.snapshots import faults, held, job, node, reasons, sizes, snapshot, starts_s

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.amounts import Amounts, memory_text
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Policy
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.reasons.explain import explain
from wattfold.coordinator.policies.registry import entries
from wattfold.coordinator.policies.resources.stock import Stock

GIB = 1 << 30
POLICIES = [FifoEasy(), Parm(ParmSettings(solver="greedy"))]
RIGID = {"kind": JobKind.RIGID}


def plan(nodes: list[NodeView], jobs: list[JobView], policy: Policy) -> Plan:
    seen = snapshot(nodes, jobs)
    out = policy.propose(seen, 0, 5.0)
    assert faults(out, seen) == []
    return out


def with_share(view: JobView) -> JobView:
    """A running job whose share has the requested resources, with the first GPUs."""
    assert view.current is not None
    gpus = tuple(map(str, range(view.spec.gpus)))
    shares = tuple(
        replace(share, memory_bytes=view.spec.memory_bytes, gpus=gpus)
        for share in view.current.shares
    )
    return replace(view, current=replace(view.current, shares=shares))


def runs(name: str, place: str, **fields: object) -> JobView:
    asked: dict[str, object] = {**RIGID, **fields}
    return with_share(job(name, 1, 1, current=held(name, place), started_s=0, **asked))


@pytest.mark.parametrize("policy", POLICIES)
def test_memory_is_not_given_twice(policy: Policy) -> None:
    machine = [node("n0", memory=4 * GIB)]
    jobs = [job(name, 1, 1, memory_bytes=3 * GIB, **RIGID) for name in "ab"]
    out = plan(machine, jobs, policy)
    assert list(sizes(out)) == ["a"]
    later = plan(machine, [runs("a", "n0:0", memory_bytes=3 * GIB), jobs[1]], policy)
    assert reasons(later)["b"].endswith("needs 3 GiB of memory on a node: 1 GiB free on n0")


@pytest.mark.parametrize("policy", POLICIES)
def test_gpus_have_one_owner(policy: Policy) -> None:
    machine = [node("n0", gpus=3)]
    jobs = [runs("a", "n0:0", gpus=2), job("b", 1, 1, gpus=1, **RIGID)]
    out = plan(machine, jobs, policy)
    assert {a.job_id: a.shares[0].gpus for a in out.assignments} == {"a": ("0", "1"), "b": ("2",)}
    more = plan(machine, [jobs[0], job("b", 1, 1, gpus=2, **RIGID)], policy)
    assert reasons(more)["b"].endswith("needs 2 GPUs on a node: 1 free on n0")


SERVED = [one.service({}) for one in entries() if one.variant.service is not None]


@pytest.mark.parametrize("policy", SERVED, ids=lambda policy: policy.name)
def test_names_choose_the_nodes(policy: Policy) -> None:
    """Jobs that differ only in the nodes they name get these nodes, under every policy."""
    machine = [node(f"n{number}", 4) for number in range(4)]
    names = {"a": ("n3",), "b": ("n1", "n2"), "c": ("n3", "n2")}
    fields = {"unit": SizeUnit.NODES, "time_s": 10, **RIGID}
    jobs = [
        job(name, 1, 1, among=tuple(map(NodeId, among)), **fields) for name, among in names.items()
    ]
    out = plan(machine, jobs, policy)
    given = {one.job_id: one.shares[0].node_id for one in out.assignments}
    assert given["a"] == "n3"
    assert all(given[name] in names[name] for name in given)
    two = job("d", 2, 2, among=(NodeId("n1"),), **fields)
    none = plan(machine, [two], policy)
    told = "requests one of the nodes n1, but only 1 reachable node can provide it"
    assert reasons(none)["d"] == told or none.waiting[0].never


@pytest.mark.parametrize("policy", POLICIES)
def test_features_choose_the_node(policy: Policy) -> None:
    machine = [node("n0", 2), node("n1", 4, features=("big", "new"))]
    out = plan(machine, [job("a", 1, 1, features=("new", "big"), **RIGID)], policy)
    assert out.assignments[0].shares[0].node_id == "n1"
    none = plan(machine, [job("a", 1, 1, features=("gone",), **RIGID)], policy)
    assert reasons(none) == {
        "a": "requests the features gone, but no reachable node can provide it"
    }
    assert none.waiting[0].never


@pytest.mark.parametrize("policy", POLICIES)
def test_whole_nodes_with_memory_on_each(policy: Policy) -> None:
    machine = [node("n0", memory=GIB), node("n1", memory=4 * GIB), node("n2", memory=4 * GIB)]
    wide = job("a", 2, 2, unit=SizeUnit.NODES, memory_bytes=2 * GIB, **RIGID)
    out = plan(machine, [wide], policy)
    assert [share.node_id for share in out.assignments[0].shares] == ["n1", "n2"]
    assert {share.memory_bytes for share in out.assignments[0].shares} == {2 * GIB}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_lacks_memory_keeps_no_cores_from_others(policy: Policy) -> None:
    machine = [node("n0", 4, memory=4 * GIB)]
    busy = runs("a", "n0:0", memory_bytes=3 * GIB, time_s=10)
    jobs = [busy, job("b", 3, 3, memory_bytes=2 * GIB, **RIGID), job("c", 3, 3, time_s=5, **RIGID)]
    out = plan(machine, jobs, policy)
    if isinstance(policy, Parm):
        assert sizes(out) == {"a": 1, "c": 3}
    assert reasons(out)["b"].endswith("needs 2 GiB of memory on a node: 1 GiB free on n0")


def test_cores_beside_the_gpu_must_be_free() -> None:
    machine = [node("n0", 2, gpus=1), node("n1", 2)]
    jobs = [runs("a", "n0:0"), runs("b", "n0:1"), job("c", 1, 1, gpus=1, **RIGID), job("d", 2, 2)]
    out = plan(machine, jobs, Parm(ParmSettings(solver="greedy")))
    assert sizes(out) == {"a": 1, "b": 1, "d": 2}
    assert reasons(out) == {"c": "needs 1 core free on the nodes with 1 GPU"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_resize_keeps_memory_and_gpus(policy: Policy) -> None:
    big = with_share(
        job("a", 1, 4, current=held("a", "n0:0-1"), started_s=0, memory_bytes=GIB, gpus=1)
    )
    out = plan([node("n0", memory=4 * GIB, gpus=2)], [big], policy)
    share = out.assignments[0].shares[0]
    assert (share.memory_bytes, share.gpus) == (GIB, ("0",))


def test_a_job_without_requests_gets_the_same_plan_beside_one_with() -> None:
    machine = [node("n0", 4, memory=GIB), node("n1", 4, memory=GIB)]
    plain = [job(name, 1, 4) for name in "ab"]
    for policy in POLICIES:
        alone = policy.propose(snapshot(machine, plain), 0, 5.0)
        rich = job("z", 1, 1, memory_bytes=9 * GIB, submitted_s=0, **RIGID)
        beside = policy.propose(snapshot(machine, [*plain, rich]), 0, 5.0)
        assert beside.assignments == alone.assignments
        assert [w for w in beside.waiting if w.job_id != "z"] == list(alone.waiting)


def test_what_is_missing_is_explained() -> None:
    machine = [node("n0", memory=2 * GIB), node("n1", memory=5 * GIB // 2 + 4 * GIB)]
    jobs = [runs("a", "n1:0", memory_bytes=4 * GIB), job("b", 1, 1, memory_bytes=4 * GIB, **RIGID)]
    out = explain(snapshot(machine, jobs), JobId("b"), FifoEasy(), "no plan")
    assert out.lines[0] == "It needs 4 GiB of memory on a node: 2.5 GiB free on n1."
    told = explain(snapshot(machine, jobs), JobId("a"), FifoEasy(), "")
    assert "Also on n1: 4 GiB of memory." in told.lines


def test_amounts_are_counted_all_at_once() -> None:
    some, more = Amounts(cores=1, gpus=2), Amounts(cores=3, memory_bytes=5, gpus=2)
    assert some + more == Amounts(cores=4, memory_bytes=5, gpus=4)
    assert more - some == Amounts(cores=2, memory_bytes=5)
    assert some <= more
    assert not more <= some
    assert not Amounts(memory_bytes=6) <= more
    assert [bool(a) for a in (Amounts(), Amounts(gpus=1), more - more)] == [False, True, False]
    assert [memory_text(n) for n in (GIB * 5 // 2, 300 << 20)] == ["2.5 GiB", "300 MiB"]


def test_nodes_that_are_alike_but_for_their_memory_are_not_counted() -> None:
    machine = [node("n0", memory=GIB), node("n1", memory=4 * GIB)]
    jobs = [
        job(name, 1, 1, unit=SizeUnit.NODES, memory_bytes=2 * GIB, **RIGID) for name in ("a", "b")
    ]
    out = plan(machine, jobs, FifoEasy())
    assert [a.shares[0].node_id for a in out.assignments] == ["n1"]
    assert reasons(out) == {"b": "first in the queue"}
    assert starts_s(out) == {"b": 3600}


def test_units_lack_what_the_nodes_they_name_do_not_have() -> None:
    """A job of two units of 2 GiB names nodes of which only one has room for one unit."""
    nodes = [node("n0", memory=2 * GIB), node("n1", memory=8 * GIB)]
    asks: dict[str, Any] = {"unit": SizeUnit.UNITS, "unit_cores": 1, "memory_bytes": 2 * GIB}
    stock = Stock(nodes)
    free, named = (
        job("u", 2, 2, **RIGID, **asks, among=among).spec for among in ((), (NodeId("n0"),))
    )
    assert stock.missing(free) == ""
    assert stock.missing(named).endswith("the reachable nodes can hold 1")
