"""Conditions of the first start: ends of other jobs, and a begin time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import CHECKED, S, Stage, job_spec, on, planning_round, solve

from wattfold.contract.ids import Epoch, JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.conditions import (
    UNCONDITIONAL,
    Dependency,
    DependencyState,
    StartConditions,
)
from wattfold.coordinator.core.model.plan import Preemption
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.rules.invariants import check_derived
from wattfold.coordinator.core.rules.jobs import preemption
from wattfold.coordinator.core.rules.jobs.start_conditions import NOT_PLANNED, dependency_state


def after(*jobs: str, success: bool = True, begin_s: float = -1) -> StartConditions:
    wanted = tuple(Dependency(job_id=JobId(job), success=success) for job in jobs)
    return StartConditions(after=wanted, begin_ns=round(begin_s * S) if begin_s >= 0 else -1)


def running_stage(**fields: Any) -> Stage:
    """A node on which job `a` runs; budget and cores are left for another job."""
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1", **fields)
    return stage


def planned(stage: Stage) -> list[str]:
    """The jobs that a policy sees."""
    return [str(view.job_id) for view in stage.core.snapshot(stage.now_ns).jobs]


def replayed(stage: Stage) -> CoordinatorCore:
    core = CoordinatorCore(1000 * 10**6, CHECKED)
    for event, now_ns in stage.history:
        core.handle(codec.load_event(*codec.dump_event(event)), now_ns)
    return core


def test_a_job_waits_for_success_and_is_planned_then() -> None:
    stage = running_stage()
    stage.after(5)
    assert stage.submit("b", conditions=after("a")) == [], "it needs no plan"
    job = stage.job("b")
    assert (job.state, job.reason) == (JobState.WAITING, "waits for success of job a")
    assert planned(stage) == ["a"]
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3"))
    assert (job.state, job.target) == (JobState.WAITING, None), "no plan can start it"
    stage.after(5)
    stage.process_ended("n0", "a", 0)
    assert stage.core.state.plan_needed == "job may start", "after the current round"
    assert (job.state, job.reason) == (JobState.PENDING, NOT_PLANNED)
    view = stage.core.snapshot(stage.now_ns).jobs[0]
    assert (view.job_id, view.submitted_ns) == ("b", stage.now_ns), "its wait begins now"
    stage.plan(on("b", "n0:0-1"))
    stage.launched("n0", "b")
    assert job.state is JobState.RUNNING


@pytest.mark.parametrize("code", [0, 1])
def test_any_end_is_enough_for_another_job(code: int) -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a", success=False))
    assert stage.job("b").reason == "waits for the end of job a"
    stage.process_ended("n0", "a", code)
    assert stage.job("b").state is JobState.PENDING


def test_a_job_waits_for_all_of_several_jobs() -> None:
    stage = running_stage()
    for job in ("c", "d", "e", "f", "g", "h"):
        stage.submit(job, held=True)
    both = StartConditions(
        after=(*after("a", "c").after, *after("d", "e", "f", "g", "h", success=False).after),
    )
    stage.submit("b", conditions=both)
    assert stage.job("b").reason == (
        "waits for success of jobs a, c and the end of jobs d, e, f, g and 1 more"
    )
    stage.process_ended("n0", "a", 0)
    for job in ("d", "e", "f", "g", "h"):
        stage.cancel(job)
    assert stage.job("b").reason == "waits for success of job c"


def test_a_job_that_waits_in_vain_says_so_and_lets_others_start() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a"))
    stage.submit("c", conditions=after("b"))
    stage.submit("d", conditions=after("c", success=False))
    stage.submit("e")
    stage.process_ended("n0", "a", 3)
    assert stage.job("b").reason == (
        "waits in vain: it needs success of job a, which ended otherwise"
    )
    for job, before in (("c", "b"), ("d", "c")):
        waits = f"waits in vain: it waits for job {before}, and this waits in vain"
        assert (stage.job(job).state, stage.job(job).reason) == (JobState.WAITING, waits)
    assert planned(stage) == ["e"]
    # The end of a hopeless job frees the jobs that only need its end.
    stage.cancel("b")
    assert stage.job("b").state is JobState.CANCELLED
    assert stage.job("c").reason == (
        "waits in vain: it needs success of job b, which ended otherwise"
    )
    stage.cancel("c")
    assert stage.job("d").state is JobState.PENDING


def test_a_requeued_predecessor_counts_by_its_final_end() -> None:
    stage = running_stage(requeue_max=1, requeue_on_failure=True)
    stage.submit("b", conditions=after("a"))
    stage.submit("c", conditions=after("a", success=False))
    stage.process_ended("n0", "a", 1)
    assert stage.job("a").attempt == 2
    assert [stage.job(job).state for job in "bc"] == [JobState.WAITING] * 2
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    stage.launched("n0", "a")
    stage.process_ended("n0", "a", 0)
    assert [stage.job(job).state for job in "bc"] == [JobState.PENDING] * 2


def test_a_failed_predecessor_that_is_requeued_revives_the_jobs_behind_it() -> None:
    stage = running_stage(epochs=9, restartable=True)
    stage.submit("b", conditions=after("a"))
    stage.submit("c", conditions=after("b"))
    stage.submit("d", conditions=after("a", success=False))
    stage.send(ev.EpochsTold(job_id=JobId("a"), attempt=1, saved=4))
    stage.process_ended("n0", "a", 1, epochs_saved=4)
    assert [stage.job(job).hopeless for job in "bcd"] == [True, True, False]
    assert stage.job("d").state is JobState.PENDING
    stage.send(ev.JobRequeueRequested(job_id=JobId("a")))
    assert stage.job("a").state is JobState.PENDING
    assert [stage.job(job).hopeless for job in "bcd"] == [False] * 3
    assert [stage.job(job).state for job in "bcd"] == [JobState.WAITING] * 3
    assert stage.job("c").reason == "waits for success of job b"


def test_a_job_that_started_once_does_not_wait_again() -> None:
    stage = running_stage()
    stage.submit("b", job_spec(requeue_max=2), conditions=after("a", begin_s=0))
    stage.process_ended("n0", "a", 0)
    stage.need_plan()
    stage.plan(on("b", "n0:0-1"))
    stage.launched("n0", "b")
    stage.send(ev.JobRequeueRequested(job_id=JobId("b"), hold=True))
    stage.process_ended("n0", "b", 143)
    assert stage.job("b").state is JobState.HELD
    stage.send(ev.CalendarStepped(by_ns=-600 * S))
    assert stage.job("b").conditions.begin_ns > stage.now_ns
    stage.send(ev.JobReleased(job_id=JobId("b")))
    assert stage.job("b").state is JobState.PENDING


def test_a_held_job_is_hopeless_and_revived_like_others() -> None:
    stage = running_stage(epochs=9, restartable=True)
    stage.submit("b", held=True, conditions=after("a"))
    stage.submit("c", conditions=after("b"))
    stage.send(ev.EpochsTold(job_id=JobId("a"), attempt=1, saved=4))
    stage.process_ended("n0", "a", 1, epochs_saved=4)
    assert stage.job("c").reason.startswith("waits in vain: it waits for job b")
    assert stage.job("b").state is JobState.HELD
    stage.send(ev.JobRequeueRequested(job_id=JobId("a")))
    assert stage.job("c").reason == "waits for success of job b"


def test_hold_and_release_keep_the_conditions() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a"))
    stage.submit("c", held=True, conditions=after("a"))
    stage.send(ev.JobHeld(job_id=JobId("b")))
    assert stage.job("b").state is JobState.HELD
    for job in "bc":
        stage.send(ev.JobReleased(job_id=JobId(job)))
        assert stage.job(job).reason == "waits for success of job a"
    stage.send(ev.JobHeld(job_id=JobId("b")))
    stage.process_ended("n0", "a", 0)
    assert stage.job("b").state is JobState.HELD
    stage.send(ev.JobReleased(job_id=JobId("b")))
    assert [stage.job(job).state for job in "bc"] == [JobState.PENDING] * 2


def test_a_begin_time_wakes_the_core_and_shows_the_start() -> None:
    stage = running_stage()
    begin_s = stage.now_ns / S + 100
    stage.submit("b", conditions=after(begin_s=begin_s))
    job = stage.job("b")
    assert (job.state, job.reason) == (JobState.WAITING, "waits for its begin time")
    assert job.expected_start_ns == round(begin_s * S)
    stage.after(99.5)
    assert stage.wake_ns == round(begin_s * S)
    assert job.state is JobState.WAITING
    assert solve(stage.core.state.rounds + 1) in stage.after(0.5)
    assert (job.state, job.expected_start_ns) == (JobState.PENDING, 0)


def test_a_begin_time_and_a_job_must_both_come() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a", begin_s=100))
    assert stage.job("b").reason == "waits for success of job a"
    assert stage.job("b").expected_start_ns == 0, "unknown"
    stage.process_ended("n0", "a", 0)
    assert stage.job("b").reason == "waits for its begin time"
    stage.submit("c", held=True)
    stage.submit("d", conditions=after("c", success=False, begin_s=100))
    stage.after(100)
    assert stage.job("b").state is JobState.PENDING
    assert stage.job("d").reason == "waits for the end of job c"
    stage.cancel("c")
    assert stage.job("d").state is JobState.PENDING


def test_a_step_of_the_calendar_moves_begin_times() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after(begin_s=100))
    stage.send(ev.CalendarStepped(by_ns=60 * S))
    assert stage.job("b").conditions.begin_ns == 40 * S
    assert stage.job("b").expected_start_ns == 40 * S
    stage.after(40)
    assert stage.job("b").state is JobState.PENDING
    stage.send(ev.CalendarStepped(by_ns=-60 * S))
    assert stage.job("b").state is JobState.WAITING, "its begin time is in the future again"
    assert stage.job("b").expected_start_ns == 100 * S
    stage.after(60)
    assert stage.job("b").state is JobState.PENDING
    stage.need_plan()
    stage.plan(on("b", "n0:2-3"), *[job.target for job in stage.core.state.placed() if job.target])
    stage.launched("n0", "b")
    stage.send(ev.CalendarStepped(by_ns=-600 * S))
    assert stage.job("b").state is JobState.RUNNING, "a start is not undone"


def test_a_released_job_still_waits_for_its_begin_time() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after(begin_s=50))
    stage.send(ev.JobHeld(job_id=JobId("b")))
    stage.after(10)
    stage.send(ev.JobReleased(job_id=JobId("b")))
    assert stage.job("b").state is JobState.WAITING
    stage.after(40)
    assert stage.job("b").state is JobState.PENDING


def test_deleted_jobs_leave_their_ends_behind() -> None:
    stage = running_stage()
    stage.core.state.settings = replace(CHECKED, kept_ended_jobs=1)
    for job, code in (("good", 0), ("bad", 1)):
        stage.run_job(job, "n0:2-3")
        stage.submit(f"after {job}", held=True, conditions=after(job))
        stage.submit(f"any {job}", held=True, conditions=after(job, success=False))
        stage.process_ended("n0", job, code)
    stage.submit("x")
    stage.cancel("x")
    stage.submit("y", conditions=after("good", "bad", success=False))
    assert not {"good", "bad"} & set(stage.core.state.jobs)
    assert stage.job("y").state is JobState.PENDING
    for job in ("after good", "any good", "after bad", "any bad"):
        stage.send(ev.JobReleased(job_id=JobId(job)))
    assert stage.job("after good").state is JobState.PENDING
    assert stage.job("any good").state is JobState.PENDING
    assert stage.job("any bad").state is JobState.PENDING
    assert stage.job("after bad").reason == (
        "waits in vain: it needs success of job bad, which ended otherwise"
    )
    settled = [stage.job(job).conditions.after[0].settled for job in ("after good", "after bad")]
    assert settled == [DependencyState.MET, DependencyState.NEVER]
    check_derived(stage.core.state)


def test_a_job_does_not_wait_for_itself_or_for_unknown_jobs() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("b", "nobody", success=False))
    assert stage.job("b").state is JobState.PENDING
    unknown = Dependency(job_id=JobId("nobody"), success=True)
    assert dependency_state(stage.core.state, unknown) is DependencyState.NEVER


def test_only_waiting_jobs_need_no_plan() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("b", conditions=after(begin_s=1000))
    assert not [one for one in stage.after(1) if isinstance(one, act.Solve)]
    stage.budget(900)
    assert not stage.core.state.solving


def test_a_restored_journal_holds_waiting_jobs() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a"))
    stage.send(ev.JournalRestored(epoch=Epoch(9), submissions=9))
    assert stage.job("b").state is JobState.HELD
    assert "may have run since" in stage.job("b").reason
    stage.send(ev.JobReleased(job_id=JobId("b")))
    assert stage.job("b").reason == "waits for success of job a"


def test_a_replay_and_a_checkpoint_give_the_same_state() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a", begin_s=100))
    stage.submit("c", conditions=after("b"))
    for _ in range(2):
        core = replayed(stage)
        assert core.state == stage.core.state
        loaded = codec.load_state(codec.dump_state(core.state))
        assert loaded == core.state
        check_derived(loaded)
        core.begin_anew(loaded)
        ended = stage.history[-1][0]
        assert core.state.jobs[JobId("b")].conditions == stage.job("b").conditions, ended
        stage.process_ended("n0", "a", 0)
    # A loaded state knows both the dependents and the begin times.
    core.handle(ev.TimePassed(), 100 * S)
    assert core.state.jobs[JobId("b")].state is JobState.PENDING
    core.handle(ev.JobCancelRequested(job_id=JobId("b")), 100 * S)
    assert core.state.jobs[JobId("c")].hopeless


def test_journals_of_today_have_no_conditions() -> None:
    event = ev.JobSubmitted(job_id=JobId("a"), spec=job_spec())
    kind, body = codec.dump_event(event)
    assert '"conditions"' in body
    stored = json.loads(body)
    del stored["conditions"]
    before = json.dumps(stored)
    loaded = codec.load_event(kind, before)
    assert loaded == event
    assert event.conditions == UNCONDITIONAL


def test_no_job_is_preempted_for_a_job_that_waits() -> None:
    stage = Stage()
    stage.send(ev.QueuesConfigured(queues=(Queue(name="low"), Queue(name="hi", preempts=("low",)))))
    stage.up("n0")
    stage.run_job("a", "n0:0-3", queue="low", preemptable=True)
    stage.submit("c", held=True)
    stage.submit("b", job_spec(queue="hi", priority=1000), conditions=after("c", success=False))
    wanted = Preemption(job_id=JobId("a"), for_job=JobId("b"), reason="x")
    assert preemption.refusal(stage.core.state, wanted) == "job b no longer waits"
    stage.cancel("c")
    assert preemption.refusal(stage.core.state, wanted) == ""


def test_a_failed_round_and_a_drained_node_leave_the_conditions() -> None:
    stage = running_stage()
    stage.submit("b", conditions=after("a"))
    stage.submit("c")
    stage.need_plan()
    stage.send(ev.PlanFailed(round=planning_round(stage.core.state.solving), reason="slow"))
    assert stage.job("c").reason == "no plan: slow"
    stage.order("n0", ev.NodeOrder.DRAIN)
    assert stage.job("b").reason == "waits for success of job a"
    stage.process_ended("n0", "a", 0)
    assert stage.job("b").state is JobState.PENDING
