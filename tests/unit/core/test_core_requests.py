"""Memory and GPUs in the core: ownership, release, and contradictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import Stage, job_spec, node_spec, on, planning_round, running

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.applier import accept
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.core.rules.invariants import check_invariants
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.core.state.state import InvariantError
from wattfold.coordinator.models.pass_model import SizeUnit

GPUS = ("0", "1")


def site(**fields: Any) -> Stage:
    stage = Stage()
    stage.register("n0")
    stage.connect(node_spec("n0", memory_bytes=8, gpus=GPUS, **fields))
    stage.leased("n0")
    return stage


def given(job: str, place: str, memory: int = 0, gpus: tuple[str, ...] = ()) -> Assignment:
    plain = on(job, place)
    share = replace(plain.shares[0], memory_bytes=memory, gpus=gpus)
    return replace(plain, shares=(share,))


def asks(stage: Stage, job: str, **fields: Any) -> None:
    stage.submit(job, job_spec(1, 1, kind=JobKind.RIGID, **fields))


def refusal(stage: Stage, *assignments: Assignment) -> str:
    found = accept(Plan(assignments=assignments), stage.core.state, stage.now_ns).refusals
    return {r.job_id: r.reason for r in found}.get(assignments[-1].job_id, "")


def test_the_launch_says_what_the_job_has() -> None:
    stage = site()
    asks(stage, "a", memory_bytes=3, gpus=1)
    out = stage.plan(given("a", "n0:0", 3, ("1",)))
    launch = next(action for action in out if isinstance(action, act.Launch))
    assert (launch.spec.memory_bytes, launch.gpus) == (3, ("1",))


@pytest.mark.parametrize(
    ("assignment", "why"),
    [
        (given("a", "n0:0", 3), "3 bytes"),
        (given("a", "n0:0", 2, ("0",)), "2 bytes"),
        (given("a", "n0:0", 3, ("9",)), "node n0 has no GPU 9"),
    ],
)
def test_what_an_assignment_must_give(assignment: Assignment, why: str) -> None:
    stage = site()
    asks(stage, "a", memory_bytes=3, gpus=1)
    expected = why if "node" in why else "differ from the requested"
    assert expected in refusal(stage, assignment)


def test_a_feature_that_the_node_has_not() -> None:
    stage = site(features=("new",))
    asks(stage, "a", features=("new", "big"))
    assert refusal(stage, given("a", "n0:0")) == "node n0 lacks the feature big"
    stage.send(ev.NodeRegistered(node_id=NodeId("n0"), address="test", features=("big",)))
    assert refusal(stage, given("a", "n0:0")) == ""


def test_memory_and_gpus_have_one_owner_until_that_has_ended() -> None:
    stage = site()
    asks(stage, "a", memory_bytes=6, gpus=1)
    stage.plan(given("a", "n0:0", 6, ("0",)))
    stage.launched("n0", "a")
    asks(stage, "b", memory_bytes=3)
    asks(stage, "c", gpus=1)
    short = given("b", "n0:1", 3)
    double = given("c", "n0:2", 0, ("0",))
    assert "are free on n0" in refusal(stage, short)
    assert refusal(stage, double) == "GPU 0 of n0 is assigned to another job"
    stage.cancel("a")
    assert stage.job("a").state is JobState.ENDING
    assert "are free on n0" in refusal(stage, short)
    assert refusal(stage, double) == "GPU 0 of n0 is assigned to another job"
    seen = snapshot(stage.core.state, stage.now_ns).nodes[0]
    assert (seen.blocked_bytes, seen.blocked_gpus) == (6, ("0",))
    stage.process_ended("n0", "a")
    assert refusal(stage, short) == ""
    assert refusal(stage, double) == ""


def test_a_node_that_a_job_has_left_is_free_of_it_while_it_ends_elsewhere() -> None:
    stage = site()
    stage.register("n1")
    stage.connect(node_spec("n1", memory_bytes=8, gpus=GPUS))
    stage.leased("n1")
    stage.submit("a", job_spec(2, 2, unit=SizeUnit.NODES, memory_bytes=6, gpus=1))
    shares = [given("a", f"{node}:0-3", 6, ("0",)).shares[0] for node in ("n0", "n1")]
    stage.plan(replace(on("a", "n0", "n1"), shares=tuple(shares)))
    for node in ("n0", "n1"):
        stage.launched(node, "a")
    stage.process_ended("n0", "a", 1)
    assert stage.job("a").state is JobState.ENDING
    seen = snapshot(stage.core.state, stage.now_ns).nodes
    assert [(node.blocked_bytes, node.blocked_gpus) for node in seen] == [(0, ()), (6, ("0",))]


def test_two_starts_of_one_plan() -> None:
    stage = site()
    asks(stage, "a", memory_bytes=5)
    asks(stage, "b", memory_bytes=5)
    assert "are free on n0" in refusal(stage, given("a", "n0:0", 5), given("b", "n0:1", 5))


def test_a_running_job_keeps_its_own() -> None:
    stage = site()
    stage.submit("a", job_spec(memory_bytes=3, gpus=1))
    stage.plan(given("a", "n0:0-1", 3, ("0",)))
    stage.launched("n0", "a")
    assert refusal(stage, given("a", "n0:0", 3, ("0",))) == ""
    assert refusal(stage, given("a", "n0:0", 3, ("1",))) == (
        "a running job keeps its memory and its GPUs"
    )


def test_no_gpu_is_given_away_beside_a_process_nobody_knows() -> None:
    stage = Stage()
    stage.register("n0")
    stage.connect(node_spec("n0", memory_bytes=8, gpus=GPUS), 10, (running("x", "0"),))
    asks(stage, "a", gpus=1)
    assert refusal(stage, given("a", "n0:1", 0, ("1",))) == "GPU 1 of n0 is assigned to another job"


def test_a_node_that_came_back_with_less_is_no_contradiction() -> None:
    stage = site()
    asks(stage, "a", memory_bytes=6, gpus=1)
    stage.plan(given("a", "n0:0", 6, ("0",)))
    stage.launched("n0", "a")
    less = node_spec("n0", memory_bytes=4, gpus=("1",))
    stage.connect(less, 10, (running("a", "0"),))
    check_invariants(stage.core.state)
    node = stage.core.state.nodes[NodeId("n0")]
    assert (node.lacking_bytes, node.lacking_gpus) == (2, ("0",))


@pytest.mark.parametrize(
    ("memory", "gpus", "text"),
    [
        (9, (), "use 12 bytes of memory; the node has 8"),
        (0, ("0",), "a GPU of n0 has two owners: 0, 0"),
        (0, ("7",), r"GPUs \['7'\], but n0 does not have them"),
    ],
)
def test_contradictions_are_found(memory: int, gpus: tuple[str, ...], text: str) -> None:
    stage = site()
    for job, cpu in (("a", "0"), ("b", "1")):
        asks(stage, job, memory_bytes=3, gpus=1)
        held = [j.target for j in stage.core.state.placed() if j.target]
        stage.need_plan()
        stage.plan(*held, given(job, f"n0:{cpu}", 3, (cpu,)))
        stage.launched("n0", job)
    check_invariants(stage.core.state)
    rank = stage.job("b").ranks[NodeId("n0")]
    rank.memory_bytes, rank.gpus = memory or 3, gpus or rank.gpus
    with pytest.raises(InvariantError, match=text):
        check_invariants(stage.core.state)


@pytest.mark.parametrize(("memory", "gpus"), [(6, ()), (0, ("0",))])
def test_a_launch_waits_until_they_are_free(memory: int, gpus: tuple[str, ...]) -> None:
    """The start was accepted anyway: in an older journal, or before a stray process was seen."""
    stage = site()
    for job in ("a", "b"):
        asks(stage, job, memory_bytes=memory, gpus=len(gpus))
    stage.plan(given("a", "n0:0", memory, gpus))
    stage.launched("n0", "a")
    stage.need_plan()
    accepted = ev.PlanAccepted(
        round=planning_round(stage.core.state.solving), starts=(given("b", "n0:1", memory, gpus),)
    )
    out = stage.send(accepted)
    assert not any(isinstance(action, act.Launch) for action in out)
    out = stage.process_ended("n0", "a")
    assert [a.job_id for a in out if isinstance(a, act.Launch)] == ["b"]
