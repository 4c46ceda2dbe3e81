"""Training jobs in the core: their progress, epoch times, and the cost of a preemption."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import S, Stage, job_spec, node_spec, on

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.codec import (
    dump_event,
    dump_state,
    load_event,
    load_state,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import MAX_DONE, Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.epoch_times import (
    TIMES_MAX,
    WEIGHED,
    AppEpochs,
    SeenCurve,
    SeenEpochs,
    with_epoch,
)
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.models.training import EpochTime, Training

CURVE = GpuCurve(static_w=40, full_w=240, knee=0.85, beta=0.2)
A = JobId("a")


def spec(epochs: int = 10, **fields: Any) -> Any:
    chosen: dict[str, Any] = {
        "unit": SizeUnit.UNITS,
        "unit_cores": 1,
        "gpus": 1,
        "kind": JobKind.MOLDABLE,
        "mode": ResizeMode.RESTART,
        "spread": Spread.TOGETHER,
        "preemptable": True,
    }
    return job_spec(1, 2, epochs=epochs, **chosen | fields)


def site(model: str = "V100", **fields: Any) -> Stage:
    stage = Stage()
    stage.register("n0")
    stage.connect(node_spec("n0", gpus=("0", "1"), gpu_model=model))
    stage.leased("n0")
    stage.submit("a", spec(**fields))
    return stage


def given(cpus: str = "0-1", gpus: str = "01", limit_w: float = 0, **fields: Any) -> Assignment:
    plain = on("a", f"n0:{cpus}", **fields)
    levels = Levels(gpu_uw=round(limit_w * 1e6))
    return replace(plain, shares=(replace(plain.shares[0], gpus=tuple(gpus)),), levels=levels)


def start(stage: Stage, assignment: Assignment | None = None) -> None:
    stage.need_plan()
    stage.plan(assignment or given(total_s=1000))
    stage.launched("n0", "a")
    assert job(stage).state is JobState.RUNNING


def tell(stage: Stage, saved: int, seconds: float = 0, attempt: int = 0) -> None:
    stage.send(
        ev.EpochsTold(
            job_id=A,
            attempt=attempt or stage.attempt("a"),
            saved=saved,
            epoch_ns=round(seconds * S),
        )
    )


def put_back(stage: Stage, **end: Any) -> None:
    stage.send(ev.JobRequeueRequested(job_id=A))
    stage.process_ended("n0", "a", 143, **end)


def job(stage: Stage) -> Job:
    return stage.job("a")


def view(stage: Stage) -> JobView:
    (found,) = stage.core.snapshot(stage.now_ns).jobs
    return found


def test_it_is_as_far_as_its_snapshot_and_goes_on_from_there() -> None:
    stage = site()
    start(stage)
    stage.after(150)
    tell(stage, 2)
    stage.after(50)
    assert view(stage).done == pytest.approx(0.25), "from there on as its time was expected"
    put_back(stage, epochs_saved=3)
    assert (job(stage).state, view(stage).done) == (JobState.PENDING, 0.3)
    start(stage)
    stage.process_ended("n0", "a", lost=True)
    assert job(stage).state is JobState.LOST


def test_what_was_not_saved_is_lost_with_a_process() -> None:
    stage = site(requeue_max=1)
    start(stage)
    tell(stage, 4)
    stage.after(100)
    assert view(stage).done == pytest.approx(0.5)
    stage.process_ended("n0", "a", lost=True)
    assert (job(stage).state, view(stage).done) == (JobState.PENDING, 0.4)


def test_what_is_told_of_another_attempt_or_of_no_training_is_nothing() -> None:
    stage = site()
    start(stage)
    tell(stage, 5, attempt=2)
    assert job(stage).epochs_saved == 0
    tell(stage, 50)
    assert (job(stage).epochs_saved, job(stage).done) == (10, MAX_DONE)
    stage = site(epochs=0)
    start(stage)
    tell(stage, 5, 30)
    assert (job(stage).done, stage.core.state.epoch_times) == (0.0, {})
    assert view(stage).training is None


def test_epochs_teach_what_one_takes_on_so_many_gpus_of_a_model() -> None:
    stage = site()
    assert view(stage).training is None
    start(stage)
    for number, seconds in enumerate((0.0, 60.0, 66.0), start=1):
        tell(stage, number, seconds)
    two = EpochTime(gpu_model="V100", gpus=2, seconds=63.0)
    assert view(stage).training == Training(epochs=10, times=(two,))
    stage.send(ev.ProfileDropped(app="app"))
    assert view(stage).training is None


def test_policies_look_again_at_alike_jobs_where_a_time_is_another() -> None:
    stage = site()
    stage.submit("b", spec())
    stage.submit("c", replace(spec(), app="other"))
    start(stage)
    seen = []
    for number, seconds in enumerate((0.0, 60.0, 61.0, 90.0), start=1):
        tell(stage, number, seconds)
        seen.append(JobId("b") in stage.core.touched.jobs)
        assert JobId("c") not in stage.core.touched.jobs
    assert seen == [False, True, False, True]


def test_one_too_short_to_be_heard_of_teaches_at_its_end() -> None:
    stage = site()
    start(stage)
    stage.process_ended("n0", "a", epochs_saved=10, epochs_timed=9, epoch_mean_ns=S // 10)
    (seen,) = stage.core.state.epoch_times["app"].times
    assert (seen.gpus, seen.seconds, seen.count) == (2, 0.1, 1)
    assert (job(stage).epochs_timed, job(stage).epoch_mean_ns) == (9, S // 10)


def test_under_a_lower_limit_it_teaches_where_a_curve_is_known() -> None:
    stage = site()
    start(stage, given(limit_w=150))
    tell(stage, 1, 60)
    assert not stage.core.state.epoch_times
    curve = SeenCurve(gpu_model="V100", curve=CURVE)
    stage.send(ev.EpochTimesStored(app="app", curves=(curve,)))
    tell(stage, 2, 60)
    training = view(stage).training
    assert training is not None
    assert training.whole_s("V100", 2, 150) == pytest.approx(600)
    assert training.whole_s("V100", 2) == pytest.approx(600 / CURVE.slowdown(150))


def test_a_job_without_gpus_of_its_own_teaches_nothing() -> None:
    stage = site(gpus=0)
    start(stage, given(gpus=""))
    tell(stage, 1, 60)
    assert (job(stage).epochs_saved, stage.core.state.epoch_times) == (1, {})


def test_what_was_measured_takes_the_place_of_what_was_learnt_and_is_refreshed() -> None:
    stage = site()
    start(stage)
    tell(stage, 1, 60)
    times = (SeenEpochs(gpu_model="V100", gpus=2, seconds=30, count=3),)
    assert "epoch times changed" not in stage.core.state.plan_needed
    stage.send(ev.EpochTimesStored(app="app", times=times))
    tell(stage, 2, 42)
    (seen,) = stage.core.state.epoch_times["app"].times
    assert (seen.seconds, seen.count) == (33, 4)


def test_being_put_back_costs_the_time_to_leave_and_to_start_and_what_is_done_again() -> None:
    stage = site()
    assert view(stage).restart_ns is None
    start(stage)
    stage.after(200)
    tell(stage, 2)
    stage.after(100)
    stage.send(ev.JobRequeueRequested(job_id=A))
    stage.after(7)  # It saves no more snapshots.
    stage.process_ended("n0", "a", 137, epochs_saved=2)
    stage.after(5000)  # It waits; waiting is not counted as a cost.
    stage.need_plan()
    stage.plan(given(total_s=1000))
    stage.after(5)
    stage.launched("n0", "a")
    assert view(stage).restart_ns == 12 * S
    stage.after(130)
    tell(stage, 3)
    # It was at 0.3 and is there again after 130 s: the work since 0.2, and 30 s to warm up.
    assert view(stage).restart_ns == (12 + 130) * S


def test_a_restarted_size_is_as_far_as_its_snapshot() -> None:
    stage = site(kind=JobKind.MALLEABLE, unit=SizeUnit.CORES, unit_cores=0, spread=Spread.ANY)
    start(stage, given(gpus="0", total_s=1000))
    tell(stage, 5)
    stage.after(100)
    stage.need_plan()
    stage.plan(given(cpus="0", gpus="0", total_s=2000))
    assert job(stage).state is JobState.ENDING
    stage.process_ended("n0", "a", 143, epochs_saved=6)
    assert (job(stage).state, job(stage).done) == (JobState.STARTING, 0.6)


def test_it_is_stored_with_the_rest() -> None:
    stage = site()
    start(stage)
    tell(stage, 1)
    tell(stage, 2, 60)
    stage.send(ev.EpochTimesStored(app="b", curves=(SeenCurve(gpu_model="T4", curve=CURVE),)))
    assert load_state(dump_state(stage.core.state)).epoch_times == stage.core.state.epoch_times
    for event, _ in stage.history:
        assert load_event(*dump_event(event)) == event


def test_many_epochs_are_a_mean_of_the_last_and_tables_have_an_end() -> None:
    known = AppEpochs()
    for seconds in [100.0] * 50 + [10.0] * 100:
        known = with_epoch(known, gpu_model="T4", gpus=1, seconds=seconds, limit_w=0, now_ns=5)
    (seen,) = known.times
    assert seen.count == 150
    assert seen.seconds == pytest.approx(10 + 90 * (1 - 1 / WEIGHED) ** 100)
    for gpus in range(2, TIMES_MAX + 5):
        known = with_epoch(known, gpu_model="T4", gpus=gpus, seconds=1, limit_w=0, now_ns=5)
    assert len(known.times) == TIMES_MAX


def test_the_model_of_its_gpus_is_a_feature_of_a_node() -> None:
    stage = site(model="V100")
    assert stage.core.state.nodes[NodeId("n0")].all_features == ("V100",)
    assert site(model="").core.state.nodes[NodeId("n0")].all_features == ()
