"""Preemptions in plans: accepted parts, effects, and the jobs that wait for each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.core.stage import S, Stage, job_spec, on, planning_round, terminate

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.plan import Plan, Preemption
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.rules.snapshot import snapshot

QUEUES = (Queue(name="low"), Queue(name="high", preempts=("low",)))


def site(**fields: Any) -> Stage:
    """Job a of the low queue runs on all of n0; job h of the high queue waits."""
    stage = Stage()
    stage.up("n0")
    stage.send(ev.QueuesConfigured(queues=QUEUES))
    low: dict[str, Any] = {"queue": "low", "preemptable": True, **fields}
    stage.run_job("a", "n0:0-3", **low)
    stage.submit("h", job_spec(queue="high"))
    stage.need_plan()
    return stage


def preempt(
    stage: Stage, job: str = "a", for_job: str = "h", *kept: Assignment, **fields: Any
) -> list[act.Action]:
    wanted = Preemption(
        job_id=JobId(job), for_job=JobId(for_job), reason=f"preempted for job {for_job}", **fields
    )
    plan = Plan(assignments=kept, preemptions=(wanted,))
    event = ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving))
    return stage.send(event)


def test_a_pre_empted_job_is_ended_with_its_signal_and_its_grace() -> None:
    stage = site(snapshot_signal=10, snapshot_grace_ns=7 * S)
    target = stage.job("a").target
    assert target is not None
    (ending,) = [a for a in preempt(stage, "a", "h", target) if isinstance(a, act.Terminate)]
    assert (ending.job_id, ending.signal, ending.grace_ns) == ("a", 10, 7 * S)
    job = stage.job("a")
    assert (job.state, job.yields_to) == (JobState.ENDING, "h")
    assert job.reason == "requeueing: preempted for job h"
    stage.process_ended("n0", "a", 143)
    assert (job.state, job.attempt) == (JobState.PENDING, 2)
    assert job.attempts[0].why == "preempted for job h"


def test_a_grace_time_of_the_plan_comes_before_that_of_the_job() -> None:
    stage = site(snapshot_grace_ns=7 * S)
    (ending,) = [a for a in preempt(stage, grace_ns=3 * S) if isinstance(a, act.Terminate)]
    assert ending.grace_ns == 3 * S


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"preemptable": False}, "the job was submitted without --preemptable"),
        (
            {"preemptable": False, "restartable": True},
            "the job was submitted without --preemptable",
        ),
        ({"queue": "high"}, "queue 'high' does not preempt queue 'high'"),
        ({"queue": ""}, "queue 'high' does not preempt queue ''"),
    ],
)
def test_who_may_not_be_pre_empted(fields: dict[str, Any], why: str) -> None:
    stage = site(**fields)
    assert terminate("n0", "a") not in preempt(stage)
    assert stage.job("a").state is JobState.RUNNING
    assert stage.job("a").reason == f"omitted from the last plan: cannot be preempted: {why}"


def test_not_for_a_job_that_does_not_wait_any_more() -> None:
    for gone in (lambda s: s.cancel("h"), lambda s: s.send(ev.JobHeld(job_id=JobId("h")))):
        stage = site()
        gone(stage)
        stage.need_plan()
        preempt(stage)
        assert stage.job("a").state is JobState.RUNNING
        assert stage.job("a").reason.endswith("job h no longer waits")
    stage = site()
    stage.cancel("a")
    preempt(stage)
    assert stage.job("a").requeue is None


def test_not_where_the_queue_does_not_pre_empt_any_more() -> None:
    stage = site()
    stage.send(ev.QueuesConfigured(queues=(Queue(name="low"), Queue(name="high"))))
    preempt(stage)
    assert stage.job("a").state is JobState.RUNNING


def test_a_training_job_is_pre_empted_for_nobody_in_particular() -> None:
    stage = site(epochs=30)
    target = stage.job("a").target
    assert target is not None
    assert any(isinstance(one, act.Terminate) for one in preempt(stage, "a", "", target))
    job = stage.job("a")
    assert (job.state, job.yields_to) == (JobState.ENDING, "")
    assert not stage.job("h").preempts
    stage.process_ended("n0", "a", 143)
    assert (job.state, job.attempt) == (JobState.PENDING, 2)
    plan = Plan(assignments=(target,))
    stage.need_plan()
    stage.send(ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving)))
    assert job.state is JobState.STARTING, "it waits for nobody"


def test_other_jobs_are_not_pre_empted_for_nobody() -> None:
    stage = site()
    assert not any(isinstance(one, act.Terminate) for one in preempt(stage, "a", ""))
    assert "the job is not a training job" in stage.job("a").reason


def test_a_pre_empted_job_does_not_start_before_the_one_it_made_way_for() -> None:
    stage = site()
    preempt(stage)
    assert snapshot(stage.core.state, stage.now_ns).clearing == ("h",)
    stage.process_ended("n0", "a", 143)
    seen = snapshot(stage.core.state, stage.now_ns)
    assert seen.clearing == ()
    assert {view.job_id: view.yields_to for view in seen.jobs} == {"a": "h", "h": ""}
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    assert stage.job("a").state is JobState.PENDING
    assert stage.job("a").reason.endswith("the job was preempted for job h, which still waits")
    stage.need_plan()
    stage.plan(on("h", "n0:0-1"))
    assert stage.core.state.solving, "another round is due at once: others waited for this"
    assert {v.job_id: v.yields_to for v in snapshot(stage.core.state, 0).jobs}["a"] == ""
    stage.plan(on("h", "n0:0-1"), on("a", "n0:2-3"))
    assert stage.job("a").ranks
    assert stage.job("a").yields_to == ""


def test_it_waits_for_nobody_once_that_one_is_gone() -> None:
    stage = site()
    preempt(stage)
    stage.process_ended("n0", "a", 143)
    stage.cancel("h")
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    assert stage.job("a").ranks


def test_snapshots_say_who_may_be_pre_empted() -> None:
    for fields, able in (({}, True), ({"preemptable": False}, False)):
        seen = snapshot(site(**fields).core.state, 0)
        assert {v.job_id: v.preemptable for v in seen.jobs} == {"a": able, "h": False}


def test_what_was_taken_is_in_the_journal_and_old_ones_have_none() -> None:
    stage = site()
    preempt(stage)
    accepted = ev.PlanAccepted(
        round=planning_round(1),
        preemptions=(Preemption(job_id=JobId("a"), for_job=JobId("h"), reason="r"),),
    )
    kind, body = codec.dump_event(accepted)
    assert codec.load_event(kind, body) == accepted
    older = json.loads(body)
    del older["preemptions"]
    assert codec.load_event(kind, json.dumps(older)) == ev.PlanAccepted(round=planning_round(1))
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.jobs[JobId("a")].yields_to == "h"
    assert loaded.queues["high"].preempts == ("low",)


def test_a_replay_pre_empts_the_same() -> None:
    stage = site()
    preempt(stage)
    again = Stage(start=False)
    for event, now_ns in stage.history:
        again.now_ns = now_ns
        again.core.handle(event, now_ns)
    assert codec.dump_state(again.core.state) == codec.dump_state(stage.core.state)


def test_jobs_are_looked_at_again_when_their_queues_are_others() -> None:
    """The waits of a queue are part of the jobs in policy snapshots."""
    stage = site()
    stage.send(ev.QueuesConfigured(queues=QUEUES))
    assert {JobId("a"), JobId("h")} <= stage.core.touched.jobs
