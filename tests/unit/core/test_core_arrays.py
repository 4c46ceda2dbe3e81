"""Job arrays: the window of tasks that are jobs, limits, and requests about arrays and tasks."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import CHECKED, Stage, ended, job_spec, on, running

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.conditions import Dependency, StartConditions
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.rules.invariants import check_derived
from wattfold.coordinator.core.rules.job_arrays import array_counts, arrays
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED

RIGID = job_spec(1, 1, kind=JobKind.RIGID)


def array_stage(
    indices: str = "0-99", limit: int = 0, spec: JobSpec = RIGID, **fields: Any
) -> Stage:
    """A node with four cores and an array ``1``."""
    stage = Stage()
    stage.up("n0")
    submit(stage, "1", indices, limit, spec, **fields)
    return stage


def submit(
    stage: Stage, name: str, indices: str, limit: int = 0, spec: JobSpec = RIGID, **fields: Any
) -> None:
    stage.send(
        ev.ArraySubmitted(job_id=JobId(name), spec=spec, indices=indices, limit=limit, **fields)
    )


def record(stage: Stage, name: str = "1") -> JobArray:
    return stage.core.state.arrays[JobId(name)]


def open_tasks(stage: Stage) -> list[str]:
    return list(stage.core.state.index.open)


def run(stage: Stage, *jobs: str) -> None:
    """Start jobs on the first free cores of the node."""
    stage.need_plan()
    kept = [job.target for job in stage.core.state.placed() if job.target and job.ranks]
    used = {cpu for one in kept for share in one.shares for cpu in share.cpus}
    free = [cpu for cpu in range(4) if cpu not in used]
    starts = [on(job, f"n0:{cpu}", cap_w=10) for job, cpu in zip(jobs, free, strict=False)]
    stage.plan(*kept, *starts)
    for job in jobs:
        stage.launched("n0", job)


def end(stage: Stage, job: str, exit_code: int = 0) -> None:
    stage.process_ended("n0", job, exit_code)


def hold(stage: Stage, job: str) -> None:
    stage.send(ev.JobHeld(job_id=JobId(job)))


def release(stage: Stage, job: str) -> None:
    stage.send(ev.JobReleased(job_id=JobId(job)))


def test_only_the_tasks_that_could_run_are_jobs() -> None:
    stage = array_stage("3-102")
    assert open_tasks(stage) == ["1_3", "1_4", "1_5", "1_6"], "the node has four cores"
    assert record(stage).left == 96
    run(stage, "1_3")
    end(stage, "1_3")
    assert open_tasks(stage) == ["1_4", "1_5", "1_6", "1_7"]
    assert array_counts.counts(stage.core.state, record(stage)) == {
        JobState.COMPLETED: 1,
        JobState.PENDING: 99,
    }
    assert stage.core.state.submissions == 1


def test_a_large_array_costs_what_its_window_costs() -> None:
    stage = array_stage("0-99999")
    assert len(stage.core.state.jobs) == 4
    assert len(codec.dump_state(stage.core.state)) < 50_000


def test_a_new_node_widens_the_window() -> None:
    stage = array_stage()
    stage.up("n1")
    assert len(open_tasks(stage)) == 8


def test_without_nodes_one_task_waits() -> None:
    stage = Stage()
    submit(stage, "1", "0-9")
    assert open_tasks(stage) == ["1_0"]
    stage.up("n0")
    assert len(open_tasks(stage)) == 4


def test_no_more_tasks_are_active_than_the_limit() -> None:
    stage = array_stage(limit=2)
    assert open_tasks(stage) == ["1_0", "1_1"]
    run(stage, "1_0")
    end(stage, "1_0")
    assert open_tasks(stage) == ["1_1", "1_2"]


def test_a_released_task_waits_for_the_limit() -> None:
    stage = array_stage(limit=2)
    hold(stage, "1_0")
    assert open_tasks(stage) == ["1_0", "1_1", "1_2"], "a held task is not active"
    run(stage, "1_1", "1_2")
    release(stage, "1_0")
    job = stage.job("1_0")
    assert (job.state, job.reason) == (JobState.WAITING, arrays.LIMITED)
    end(stage, "1_1")
    assert stage.job("1_0").state is JobState.PENDING, "it is before tasks that are not jobs yet"
    assert open_tasks(stage) == ["1_0", "1_2"]


def test_the_tasks_of_an_array_are_equal_for_policies() -> None:
    stage = array_stage()
    views = stage.core.snapshot(stage.now_ns).jobs
    assert len(views) == 4
    assert len({replace(view, job_id=JobId("")) for view in views}) == 1


def test_later_tasks_keep_the_place_of_their_array() -> None:
    stage = array_stage()
    stage.after(5)
    stage.submit("2")
    run(stage, "1_0")
    end(stage, "1_0")
    assert stage.job("1_4").submitted_ns < stage.job("2").submitted_ns


def test_a_cancelled_array_ends_all_its_tasks() -> None:
    stage = array_stage()
    run(stage, "1_0")
    stage.cancel("1")
    assert [*open_tasks(stage)] == ["1_0"], "its process has to end"
    end(stage, "1_0", 1)
    counts = array_counts.counts(stage.core.state, record(stage))
    assert counts == {JobState.CANCELLED: 100}
    assert array_counts.finished(stage.core.state, record(stage))


def test_a_task_that_is_not_a_job_yet_can_be_cancelled_and_held() -> None:
    stage = array_stage("0-5")
    stage.cancel("1_5")
    hold(stage, "1_4")
    assert stage.job("1_5").state is JobState.CANCELLED
    assert stage.job("1_4").state is JobState.HELD
    assert record(stage).left == 0
    stage.cancel("1_6")
    assert JobId("1_6") not in stage.core.state.jobs


def test_a_held_array_makes_no_tasks() -> None:
    stage = array_stage(held=True)
    assert not open_tasks(stage)
    release(stage, "1")
    assert len(open_tasks(stage)) == 4
    run(stage, "1_0")
    hold(stage, "1")
    assert [stage.job(job).state for job in ("1_0", "1_1")] == [JobState.RUNNING, JobState.HELD]
    end(stage, "1_0")
    assert len(open_tasks(stage)) == 3


def test_a_held_array_that_is_cancelled_is_known_by_one_task() -> None:
    stage = array_stage(held=True)
    stage.cancel("1")
    assert [job.state for job in stage.core.state.jobs.values()] == [JobState.CANCELLED]


def test_a_job_waits_for_all_tasks_of_an_array() -> None:
    stage = array_stage("0-1")
    wanted = Dependency(job_id=JobId("1"), success=True)
    stage.submit("2", conditions=StartConditions(after=(wanted,)))
    run(stage, "1_0", "1_1")
    end(stage, "1_0")
    assert stage.job("2").state is JobState.WAITING
    end(stage, "1_1")
    assert stage.job("2").state is JobState.PENDING


def test_a_failed_task_keeps_a_job_waiting() -> None:
    stage = array_stage("0-1")
    wanted = Dependency(job_id=JobId("1"), success=True)
    stage.submit("2", conditions=StartConditions(after=(wanted,)))
    run(stage, "1_0", "1_1")
    end(stage, "1_0", 1)
    end(stage, "1_1")
    assert stage.job("2").hopeless
    assert "waits in vain" in stage.job("2").reason


def test_a_job_may_wait_for_a_task_that_is_not_a_job_yet() -> None:
    stage = array_stage()
    wanted = Dependency(job_id=JobId("1_50"))
    stage.submit("2", conditions=StartConditions(after=(wanted,)))
    assert stage.job("2").state is JobState.WAITING
    stage.cancel("1_50")
    assert stage.job("2").state is JobState.PENDING


def test_one_task_stands_for_an_array_that_waits() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("9", "n0:0-1")
    wanted = Dependency(job_id=JobId("9"), success=True)
    submit(stage, "1", "0-9", conditions=StartConditions(after=(wanted,)))
    assert open_tasks(stage) == ["9", "1_0"]
    assert stage.job("1_0").reason == "waits for success of job 9"
    end(stage, "9")
    assert open_tasks(stage) == ["1_0", "1_1", "1_2", "1_3"]
    assert {stage.job(f"1_{index}").state for index in range(4)} == {JobState.PENDING}


def test_a_predecessor_that_is_deleted_has_been_counted() -> None:
    stage = Stage()
    stage.core.state.settings = replace(CHECKED, kept_ended_jobs=1)
    stage.up("n0")
    stage.run_job("9", "n0:0-1")
    wanted = Dependency(job_id=JobId("9"), success=True)
    submit(stage, "1", "0-9", held=True, conditions=StartConditions(after=(wanted,)))
    end(stage, "9")
    for name in ("20", "21"):
        stage.submit(name)
        stage.cancel(name)
    stage.submit("22")
    assert JobId("9") not in stage.core.state.jobs
    release(stage, "1")
    assert stage.job("1_0").state is JobState.PENDING


def test_deleted_tasks_are_counted_and_the_array_is_deleted_with_the_last() -> None:
    stage = array_stage("0-9")
    stage.core.state.settings = replace(CHECKED, kept_ended_jobs=2)
    for index in range(9):
        run(stage, f"1_{index}")
        end(stage, f"1_{index}", index == 0)
    counts = array_counts.counts(stage.core.state, record(stage))
    assert counts == {JobState.COMPLETED: 8, JobState.FAILED: 1, JobState.PENDING: 1}
    run(stage, "1_9")
    end(stage, "1_9")
    for name in ("20", "21", "22"):
        stage.submit(name)
        stage.cancel(name)
    stage.submit("23")
    assert not stage.core.state.arrays


def test_a_key_names_its_array() -> None:
    stage = array_stage(key="k", fingerprint="f")
    assert stage.core.state.keys == {"k": "1"}
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.index.key_of == {"1": "k"}


def test_a_changed_array_changes_tasks_that_have_not_started() -> None:
    stage = array_stage()
    run(stage, "1_0")
    stage.send(ev.JobModified(job_id=JobId("1"), size_min=2, size_max=2, name="wide"))
    assert record(stage).spec.size_max == 2
    assert stage.job("1_0").spec == RIGID, "it runs"
    assert stage.job("1_1").spec.name == "wide"


def test_a_restored_array_is_held() -> None:
    stage = array_stage()
    stage.send(ev.JournalRestored(epoch=Epoch(5), submissions=7))
    assert record(stage).held
    assert {job.state for job in stage.core.state.jobs.values()} == {JobState.HELD}


def test_a_process_of_a_task_that_is_not_a_job_yet_keeps_it_from_running_twice() -> None:
    stage = array_stage()
    stage.send(ev.JournalRestored(epoch=Epoch(5), submissions=7))
    stage.start(epoch=6)
    stage.connect("n0", processes=(running("1_50", "2"),))
    assert stage.job("1_50").ranks, "it was adopted"
    stage.connect("n0", processes=(running("1_50", "2"), ended("33_7")))
    assert stage.core.state.submissions >= 33


@pytest.mark.parametrize("seed", range(30))
def test_every_index_runs_once_and_a_replay_gives_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    tasks, limit = rng.randint(5, 25), rng.choice([0, 1, 2, 3])
    stage = array_stage(f"0-{tasks - 1}", limit, replace(RIGID, requeue_max=2, restartable=True))
    submit(stage, "2", "1-9:2", rng.choice([0, 2]), held=rng.random() < 0.3)
    copy, runs = None, Counter[str]()
    for _ in range(400):
        _step(stage, rng, runs)
        _check_window(stage)
        if rng.random() < 0.02 or copy is None:
            copy = CoordinatorCore(0, CHECKED)
            copy.begin_anew(codec.load_state(codec.dump_state(stage.core.state)))
            seen = len(stage.history)
    for array_id in ("1", "2"):
        release(stage, array_id)
    for _ in range(400):
        _run_and_end(stage, rng, runs)
        for job in stage.core.state.index.open.values():
            if job.state is JobState.HELD:
                release(stage, job.job_id)
                break
        _check_window(stage)
    assert not stage.core.state.index.open
    assert all(array_counts.finished(stage.core.state, one) for one in _arrays(stage))
    for array in _arrays(stage):
        assert array_counts.counts(stage.core.state, array).total() == len(array.index_set)
    completed = [j for j in stage.core.state.jobs.values() if j.state is JobState.COMPLETED]
    assert {job.job_id: runs[job.job_id] for job in completed} == {j.job_id: 1 for j in completed}
    assert copy is not None
    for event, now_ns in stage.history[seen:]:
        copy.handle(codec.load_event(*codec.dump_event(event)), now_ns)
    assert codec.dump_state(copy.state) == codec.dump_state(stage.core.state)


def _arrays(stage: Stage) -> list[JobArray]:
    return list(stage.core.state.arrays.values())


def _check_window(stage: Stage) -> None:
    check_derived(stage.core.state)
    for array in _arrays(stage):
        jobs = stage.core.state.index.tasks(array.array_id).values()
        active = [job for job in jobs if _is_active(job)]
        assert not array.limit or len(active) <= array.limit
        waiting = [job for job in active if job.state in UNSTARTED]
        room = (array.limit or 4) - len(active)
        assert array.held or not array.left or room <= 0 or len(waiting) >= min(room, array.left)


def _is_active(job: Job) -> bool:
    return job.state is not JobState.HELD and not arrays.is_limited(job)


def _run_and_end(stage: Stage, rng: random.Random, runs: Counter[str]) -> None:
    state = stage.core.state
    placed = [job.job_id for job in state.placed() if job.ranks]
    if placed and (rng.random() < 0.5 or len(placed) == 4):
        job_id = rng.choice(placed)
        runs[job_id] += state.jobs[job_id].requeue is None
        end(stage, job_id)
    pending = [job.job_id for job in state.index.open.values() if job.state is JobState.PENDING]
    room = 4 - len([job for job in state.placed() if job.ranks])
    if pending and room:
        run(stage, *rng.sample(pending, min(room, len(pending))))


def _step(stage: Stage, rng: random.Random, runs: Counter[str]) -> None:
    stage.after(rng.choice([0.1, 0.5]))
    array_id = rng.choice(["1", "2"])
    named = JobId(rng.choice([array_id, f"{array_id}_{rng.randrange(25)}"]))
    task = JobId(f"{array_id}_{rng.randrange(25)}")
    match rng.randrange(12):
        case 0:
            hold(stage, named)
        case 1 | 2:
            release(stage, named)
        case 3:
            stage.cancel(task)
        case 4:
            stage.send(ev.JobRequeueRequested(job_id=named, hold=rng.random() < 0.3))
        case 5:
            stage.send(reports.LaunchFaultReported(node_id=NodeId("n0"), reason=""))
        case _:
            _run_and_end(stage, rng, runs)
