"""Failed training jobs resume from their snapshots; column DONE; threads of guests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import S, Stage, job_spec, node_spec, on

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.journal.launch_data import LaunchData, may_start
from wattfold.coordinator.adapters.requests import field_checks, submissions
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.rules.jobs.attempt_events import requeue_refusal
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

EPOCHS = 60
A = JobId("a")


def site(**fields: object) -> Stage:
    stage = Stage()
    stage.register("n0")
    stage.connect(node_spec("n0", gpus=("0",), gpu_model="V100"))
    stage.leased("n0")
    spec = job_spec(
        1,
        1,
        epochs=EPOCHS,
        gpus=1,
        unit=SizeUnit.UNITS,
        unit_cores=1,
        kind=JobKind.RIGID,
        mode=ResizeMode.RESTART,
        spread=Spread.TOGETHER,
        **fields,
    )
    stage.submit("a", spec)
    start(stage)
    return stage


def start(stage: Stage, total_s: float = 1000) -> None:
    given = on("a", "n0:0", total_s=total_s)
    stage.need_plan()
    stage.plan(replace(given, shares=(replace(given.shares[0], gpus=("0",)),)))
    stage.launched("n0", "a")
    assert job(stage).state is JobState.RUNNING


def tell(stage: Stage, saved: int) -> None:
    told = ev.EpochsTold(job_id=A, attempt=stage.attempt("a"), saved=saved, epoch_ns=0)
    stage.send(told)


def job(stage: Stage) -> Job:
    return stage.job("a")


# Failures.


def test_a_killed_training_goes_on_from_its_snapshot() -> None:
    stage = site(requeue_max=3, requeue_on_failure=True)
    stage.process_ended("n0", "a", 137, epochs_saved=50)
    waits = job(stage)
    assert (waits.state, waits.attempt, waits.epochs_saved) == (JobState.PENDING, 2, 50)
    assert waits.done == pytest.approx(50 / EPOCHS)
    assert waits.attempts[0].failed
    assert "exit status 137" in waits.attempts[0].why


def test_only_a_loss_starts_a_job_again_that_does_not_ask_for_more() -> None:
    stage = site(requeue_max=3)
    stage.process_ended("n0", "a", 137, epochs_saved=50)
    assert job(stage).state is JobState.FAILED


def test_a_failure_that_repeats_without_progress_is_the_end() -> None:
    stage = site(requeue_max=9, requeue_on_failure=True)
    stage.process_ended("n0", "a", 1, epochs_saved=5)
    start(stage)
    stage.process_ended("n0", "a", 1, epochs_saved=6)
    assert job(stage).state is JobState.PENDING, "an epoch more was saved"
    start(stage)
    stage.process_ended("n0", "a", 1, epochs_saved=6)
    assert job(stage).state is JobState.FAILED
    assert job(stage).message == "not requeued: no epoch was saved since attempt 2 failed"


def test_losses_and_failures_together_have_one_limit() -> None:
    stage = site(requeue_max=2, requeue_on_failure=True)
    stage.process_ended("n0", "a", lost=True, epochs_saved=1)
    start(stage)
    stage.process_ended("n0", "a", 1, epochs_saved=2)
    start(stage)
    stage.process_ended("n0", "a", 1, epochs_saved=3)
    assert (job(stage).state, job(stage).attempt) == (JobState.FAILED, 3)


def test_a_cancelled_job_is_not_started_again() -> None:
    stage = site(requeue_max=3, requeue_on_failure=True)
    stage.cancel("a")
    stage.process_ended("n0", "a", 143, epochs_saved=50)
    assert job(stage).state is JobState.CANCELLED
    assert "only starting, running" in requeue_refusal(job(stage))


def test_failures_need_a_number_of_attempts() -> None:
    message = pb.JobSpec(argv=["true"], cwd="/", size_min=1, size_max=1, requeue_on_failure=True)
    with pytest.raises(
        field_checks.InvalidRequestError, match="requeue_on_failure needs requeue_max"
    ):
        submissions.job_spec(message)


# `wattfold requeue` of a failed job.


def test_a_failed_job_with_a_snapshot_is_requeued_at_its_old_place() -> None:
    stage = site()
    stage.submit("b")
    stage.after(5)
    stage.process_ended("n0", "a", 137, epochs_saved=50)
    failed = job(stage)
    assert (failed.state, requeue_refusal(failed)) == (JobState.FAILED, "")
    assert may_start(failed), "its environment is still there"
    stage.after(3600)
    stage.send(ev.JobRequeueRequested(job_id=A, reason="more memory"))
    waits = job(stage)
    assert (waits.state, waits.attempt, waits.exit_code) == (JobState.PENDING, 2, 0)
    assert waits.done == pytest.approx(50 / EPOCHS)
    assert waits.attempts[0].ended_ns == stage.now_ns - 3600 * S
    assert waits.attempts[0].why.endswith("requeued: more memory")
    assert list(stage.core.state.index.open) == ["a", "b"]
    start(stage)
    stage.process_ended("n0", "a", 0, epochs_saved=EPOCHS)
    assert job(stage).state is JobState.COMPLETED
    assert not may_start(job(stage))


def test_a_failed_job_without_a_snapshot_is_not() -> None:
    stage = site()
    stage.process_ended("n0", "a", 137)
    assert "no snapshot of it is known" in requeue_refusal(job(stage))
    assert not may_start(job(stage)), "its environment is deleted"
    stage.send(ev.JobRequeueRequested(job_id=A))
    assert job(stage).state is JobState.FAILED


# Share of completed work.


def test_the_share_done_does_not_go_back_when_the_first_epoch_is_told() -> None:
    stage = site()
    seen = []
    for saved in range(4):
        stage.after(500)  # Half of the estimated 1000 s; an epoch takes 500 s.
        seen.append(job(stage).done_by(stage.now_ns))
        tell(stage, saved + 1)
        seen.append(job(stage).done_by(stage.now_ns))
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(1 / EPOCHS)


# Threads of guests.


def launched(cores: int, mode: ResizeMode, **env: str) -> dict[str, str]:
    """The launch environment of a job of whole nodes of 8 cores on ``cores`` of them."""
    action = act.Launch(
        node_id=NodeId("n0"),
        job_id=A,
        spec=job_spec(1, 1, unit=SizeUnit.NODES, kind=JobKind.MALLEABLE, mode=mode),
        cpus=CpuSet.of(range(cores)),
        launch_cpus=8,
        rank=0,
        ranks=1,
        request_id="r",
        cause="e1",
    )
    launch = LaunchData(env=tuple(sorted(env.items())))
    return dict(launch_request(action, common_pb2.CommandHeader(), launch).env)


def test_a_guest_in_mode_mask_has_a_thread_for_each_core_that_it_starts_with() -> None:
    assert launched(3, ResizeMode.MASK) == {"OMP_NUM_THREADS": "3"}
    assert launched(3, ResizeMode.MASK, OMP_NUM_THREADS="5") == {"OMP_NUM_THREADS": "5"}
    assert launched(8, ResizeMode.MASK) == {}, "no guest"
    assert launched(3, ResizeMode.TEAM) == {}, "its team follows its cores"
