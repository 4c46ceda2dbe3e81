"""Jobs that count in units, from submission to end in the core."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import Stage, job_spec, node_spec, on, running

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.codec import dump_event, load_event
from wattfold.coordinator.core.applier import accept
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.core.model.queue import NO_WAITS, Queue, Waits
from wattfold.coordinator.core.rules.invariants import check_invariants
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.core.state.state import InvariantError
from wattfold.coordinator.models.pass_model import SizeUnit


def units(size: int = 3, **fields: Any) -> JobSpec:
    """Fields of a job with units of two cores, two bytes and a GPU."""
    chosen = {"unit_cores": 2, "memory_bytes": 2, "gpus": 1, "kind": JobKind.RIGID, **fields}
    return job_spec(size, size, unit=SizeUnit.UNITS, **chosen)


def given(job: str, **shares: tuple[str, int, str]) -> Assignment:
    """``given("a", n0=("0-3", 4, "01"))``: cores, bytes and GPUs of a node."""
    plain = on(job, *(f"{name}:{cpus}" for name, (cpus, _, _) in shares.items()))
    full = tuple(
        replace(share, memory_bytes=size, gpus=tuple(gpus))
        for share, (_, size, gpus) in zip(plain.shares, shares.values(), strict=True)
    )
    return replace(plain, shares=full, size=plain.size // 2)


GOOD = given("a", n0=("0-3", 4, "01"), n1=("0-1", 2, "0"))


def site(*names: str, cores: int = 8) -> Stage:
    stage = Stage()
    for name in names or ("n0", "n1", "n2"):
        stage.register(name)
        stage.connect(node_spec(name, cores=cores, memory_bytes=8, gpus=("0", "1")))
        stage.leased(name)
    return stage


def refusal(stage: Stage, assignment: Assignment) -> str:
    found = accept(Plan(assignments=(assignment,)), stage.core.state, stage.now_ns).refusals
    return {r.job_id: r.reason for r in found}.get(assignment.job_id, "")


def test_it_starts_on_each_node_with_all_that_its_units_have_there() -> None:
    stage = site()
    stage.submit("a", units())
    launches = [one for one in stage.plan(GOOD) if isinstance(one, act.Launch)]
    assert [(str(one.cpus), one.launch_cpus, one.gpus) for one in launches] == [
        ("0-3", 4, ("0", "1")),
        ("0-1", 2, ("0",)),
    ]
    assert [one.rank for one in launches] == [0, 1]
    ranks = stage.job("a").ranks
    assert [rank.memory_bytes for rank in ranks.values()] == [4, 2]
    for name in ("n0", "n1"):
        stage.launched(name, "a")
    assert stage.job("a").state is JobState.RUNNING
    for name in ("n0", "n1"):
        stage.process_ended(name, "a")
    assert stage.job("a").state is JobState.COMPLETED


@pytest.mark.parametrize(
    ("assignment", "spread", "why"),
    [
        (GOOD, Spread.ANY, ""),
        (given("a", n0=("0-3", 4, "01")), Spread.ANY, "size 2 is outside 3..3"),
        (replace(GOOD, shares=GOOD.shares[:1]), Spread.ANY, "does not match the assigned 2 units"),
        (
            given("a", n0=("0-2", 2, "0"), n1=("0-2", 2, "0")),
            Spread.ANY,
            "not a multiple of the unit size, 2 cores",
        ),
        (
            given("a", n0=("0-3", 2, "01"), n1=("0-1", 2, "0")),
            Spread.ANY,
            "on n0 differ from the requested 3.815e-06 MiB and 2 GPUs",
        ),
        (
            given("a", n0=("0-3", 4, "0"), n1=("0-1", 2, "0")),
            Spread.ANY,
            "differ from the requested",
        ),
        (
            GOOD,
            Spread.TOGETHER,
            "its units are on 2 nodes, but the job requires all units on one node",
        ),
        (GOOD, Spread.APART, "2 units are on n0, but the job requires one unit per node"),
        (
            given("a", n0=("0-1", 2, "0"), n1=("0-1", 2, "0"), n2=("0-1", 2, "1")),
            Spread.APART,
            "",
        ),
    ],
)
def test_a_plan_is_taken_only_as_units_are_asked_for(
    assignment: Assignment, spread: Spread, why: str
) -> None:
    stage = site()
    stage.submit("a", units(spread=spread))
    said = refusal(stage, assignment)
    assert why in said
    assert bool(why) == bool(said)


def test_a_target_that_contradicts_its_units_is_a_defect() -> None:
    stage = site()
    stage.submit("a", units())
    stage.plan(GOOD)
    check_invariants(stage.core.state)
    job = stage.job("a")
    job.target = replace(GOOD, size=2)
    with pytest.raises(InvariantError, match="does not match the assigned 3 units"):
        check_invariants(stage.core.state)
    job.target = replace(GOOD, shares=(GOOD.shares[0], replace(GOOD.shares[1], gpus=())))
    with pytest.raises(InvariantError, match="on n1 do not match its units"):
        check_invariants(stage.core.state)


def test_units_stay_where_they_are() -> None:
    stage = site()
    stage.submit("a", units())
    stage.plan(GOOD)
    for name in ("n0", "n1"):
        stage.launched(name, "a")
    assert "keeps its cores while it runs" in refusal(
        stage, given("a", n0=("4-7", 4, "01"), n1=("0-1", 2, "0"))
    )
    stage.send(ev.JobResizeRequested(job_id=JobId("a"), size=3))
    assert stage.job("a").size_asked == 0


def test_lost_with_a_node_it_starts_anew_somewhere_else() -> None:
    stage = site()
    stage.submit("a", units(requeue_max=1))
    stage.plan(GOOD)
    for name in ("n0", "n1"):
        stage.launched(name, "a")
    stage.process_ended("n1", "a", lost=True)
    stage.process_ended("n0", "a", exit_code=-15)
    assert stage.job("a").state is JobState.PENDING
    stage.need_plan()
    again = given("a", n2=("0-3", 4, "01"), n0=("0-1", 2, "0"))
    assert [one.attempt for one in stage.plan(again) if isinstance(one, act.Launch)] == [2, 2]


@pytest.mark.parametrize(
    ("spec", "adopted"),
    [
        (units(gpus=0), True),
        (units(4, gpus=0), False),
        (units(gpus=0, spread=Spread.TOGETHER), False),
        (replace(units(2, gpus=0), kind=JobKind.MOLDABLE, size_max=3), False),
    ],
)
def test_processes_from_before_are_its_own_where_they_are_all_its_units(
    spec: JobSpec, adopted: bool
) -> None:
    stage = Stage()
    stage.register("n0", "n1")
    stage.submit("a", spec)
    stage.start(2)
    for name, cpus in (("n0", "0-3"), ("n1", "0-1")):
        there = node_spec(name, cores=8, memory_bytes=8)
        stage.connect(there, processes=(running("a", cpus),))
    job = stage.job("a")
    assert (job.target is not None) == adopted
    if adopted:
        assert job.target is not None
        assert [share.memory_bytes for share in job.target.shares] == [4, 2]
        assert job.target.size == 3
    else:
        # The stray process keeps the memory of its units, whatever job it belongs to.
        seen = {view.spec.node_id: view for view in snapshot(stage.core.state, 0).nodes}
        assert [seen[NodeId(name)].blocked_bytes for name in ("n0", "n1")] == [4, 2]


def test_what_a_queue_says_of_waits_reaches_policies() -> None:
    stage = site()
    stage.submit("a", units(queue="q"))
    stage.submit("b", units(queue="gone"))
    told = {view.job_id: view.waits for view in snapshot(stage.core.state, 0).jobs}
    assert set(told.values()) == {NO_WAITS}
    for queue, waits in (
        (Queue(name="q", wait_expected_ns=5, wait_max_ns=9), Waits(5, 9)),
        (Queue(name="q", wait_max_ns=9), Waits(9, 9)),
        (Queue(name="q", wait_expected_ns=5), Waits(5, 5)),
    ):
        stage.send(ev.QueuesConfigured(queues=(queue,)))
        told = {view.job_id: view.waits for view in snapshot(stage.core.state, 0).jobs}
        assert told == {"a": waits, "b": NO_WAITS}


def test_a_submission_of_before_has_no_units() -> None:
    kind, body = dump_event(ev.JobSubmitted(job_id=JobId("a"), spec=job_spec()))
    for field in ('"unit_cores": 0', '"spread": "any"'):
        assert field in body
        body = body.replace(f", {field}", "")
        assert field not in body
    read = load_event(kind, body)
    assert isinstance(read, ev.JobSubmitted)
    assert (read.spec.unit_cores, read.spec.spread) == (0, Spread.ANY)
