"""Every policy returns cores lent under slowdown-driven to their owners."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import Stage, on
from unit.policies.snapshots import S, faults, held, job, node, reasons, sizes, snapshot
from unit.policies.test_slowdown_driven import runs as on_cores
from unit.policies.test_slowdown_driven_nodes import at, cores, runs, whole

from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan, Policy, Snapshot
from wattfold.coordinator.core.power.charge import assigned_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.registry import entries
from wattfold.coordinator.policies.slowdown_driven.lent_core_recovery import (
    may_lack_cores,
    with_cores_back,
)
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven

SHORT = {"resized_s": 50, "done": 0.5}


def planned(policy: Policy, seen: Snapshot) -> Plan:
    plan = policy.propose(seen, seen.now_ns, 1.0)
    return with_cores_back(plan, seen, seen.jobs, policy)


def others() -> list[Policy]:
    """Every policy of the service except slowdown-driven, with its own settings."""
    made = [entry.service({}) for entry in entries() if entry.variant.service is not None]
    return [policy for policy in made if policy.name != "slowdown-driven"]


@pytest.mark.parametrize("policy", others(), ids=lambda policy: policy.name)
def test_an_owner_of_whole_nodes_has_them_back(policy: Policy) -> None:
    owner = runs("a", "n0:0-3", "n1:0-3", **SHORT)
    assert cores(planned(policy, at([owner])))["a"] == {"n0": "0-7", "n1": "0-7"}
    # While its guest runs, the owner keeps the remaining cores.
    guest = runs("b", "n0:4-7", "n1:4-7", started_s=60)
    given = cores(planned(policy, at([owner, guest])))
    assert given == {"a": {"n0": "0-3", "n1": "0-3"}, "b": {"n0": "4-7", "n1": "4-7"}}


@pytest.mark.parametrize("policy", others(), ids=lambda policy: policy.name)
def test_a_mate_on_cores_has_them_back_where_nobody_else_resizes(policy: Policy) -> None:
    mate = on_cores("a", "n0:0-3", resized_s=50)
    mate = replace(mate, spec=replace(mate.spec, size_max=8))
    size = sizes(planned(policy, at([mate], 1)))["a"]
    assert size == 8 if not policy.resizes else size >= 1


def test_a_job_that_was_never_resized_keeps_the_size_it_was_given() -> None:
    mate = on_cores("a", "n0:0-3")
    mate = replace(mate, spec=replace(mate.spec, size_max=8))
    assert sizes(planned(FifoEasy(), at([mate], 1))) == {"a": 4}


def test_a_guest_gets_the_cores_of_an_owner_that_has_ended() -> None:
    guest = runs("b", "n0:4-7", started_s=60)
    assert cores(planned(FifoEasy(), at([guest], 1)))["b"] == {"n0": "0-7"}


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": JobKind.MOLDABLE},
        {"mode": ResizeMode.FIXED},
        {"mode": ResizeMode.RESTART},
        {"movable": False},
    ],
    ids=str,
)
def test_what_cannot_grow_does_not(fields: dict[str, object]) -> None:
    guest = runs("b", "n0:4-7", started_s=60, **fields)
    assert cores(planned(FifoEasy(), at([guest], 1)))["b"] == {"n0": "4-7"}


def test_they_come_back_before_anything_starts() -> None:
    owner = runs("a", "n0:0-3", **SHORT)
    waits = job("w", 4, 4, time_s=10, submitted_s=90)
    seen = at([owner, waits], 1)
    assert sizes(FifoEasy().propose(seen, seen.now_ns, 1.0)) == {"a": 1, "w": 4}
    plan = planned(FifoEasy(), seen)
    assert cores(plan) == {"a": {"n0": "0-7"}}
    assert reasons(plan)["w"] == "its planned cores return to a job that lent them"


def test_as_far_as_there_is_power() -> None:
    owner = runs("a", "n0:0-3", "n1:0-3", **SHORT)
    seen = at([owner], budget_w=2 * 26 + (45 - 16) * 13 / 8)
    for policy, most in ((FifoEasy(), 13), (Parm(), 16)):
        (given,) = planned(policy, seen).assignments
        assert 8 < sum(len(share.cpus) for share in given.shares) <= most
        assert assigned_uw(given, [view.spec for view in seen.nodes]) <= seen.spendable_uw
    # The budget drops below the power of the running jobs.
    seen = replace(seen, budget_uw=60 * 10**6)
    assert sum(len(s.cpus) for s in planned(FifoEasy(), seen).assignments[0].shares) == 8


def test_a_plan_in_which_nothing_lacks_is_left_alone() -> None:
    seen = at([runs("a", "n0"), whole("w", 2)])
    plan = FifoEasy().propose(seen, seen.now_ns, 1.0)
    assert with_cores_back(plan, seen, seen.jobs, FifoEasy()) is plan
    short = at([runs("a", "n0:0-3", **SHORT)])
    mine = SlowdownDriven().propose(short, short.now_ns, 1.0)
    assert with_cores_back(mine, short, short.jobs, SlowdownDriven()) is mine


def test_the_plan_stays_whole() -> None:
    owner = on_cores("a", "n0:0-3", resized_s=50)
    owner = replace(owner, spec=replace(owner.spec, size_max=8))
    seen: Snapshot = snapshot(
        [node("n0", 8), node("n1", 8)],
        [owner, held_alone("c"), job("w", 1, 8, time_s=10), job("v", 8, 8, time_s=10)],
        now_s=100,
    )
    plan = planned(FifoEasy(), seen)
    assert faults(plan, seen) == []
    assert sizes(plan)["a"] == 8


def held_alone(name: str) -> JobView:
    view = job(name, 2, 2, current=held(name, "n1:0-1"), started_s=0, unit=SizeUnit.CORES)
    return replace(view, submitted_ns=-S)


def test_a_glance_finds_the_jobs_that_may_lack_cores_and_no_more() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    job_a = stage.job("a")
    assert not may_lack_cores(job_a, FifoEasy()), "it has what it was given"
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    stage.mask_is("n0", "a", "0-1")
    assert may_lack_cores(job_a, FifoEasy())
    assert not may_lack_cores(job_a, Parm()), "which sizes it"
    assert not may_lack_cores(job_a, SlowdownDriven()), "which gives cores back itself"
    job_a.spec = replace(job_a.spec, unit=SizeUnit.NODES, sharing=CoreSharing.LEND)
    assert may_lack_cores(job_a, Parm()), "which changes no part of a node"
    job_a.spec = replace(job_a.spec, sharing=CoreSharing.NO)
    assert not may_lack_cores(job_a, FifoEasy())
