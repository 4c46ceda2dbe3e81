"""Arrays and their tasks: who may order them, what stays stored for them, and their lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import Stage
from unit.core.test_core_arrays import RIGID, array_stage, end, hold, run

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.array_views import ArrayLines, array_message
from wattfold.coordinator.adapters.copies.job_filter import JobFilter
from wattfold.coordinator.adapters.copies.view_requests import Jobs
from wattfold.coordinator.adapters.door.access import refusal
from wattfold.coordinator.adapters.door.peers import BY_SOCKET, Peer
from wattfold.coordinator.adapters.journal.launch_data import LaunchData, needed, no_longer_needed
from wattfold.coordinator.adapters.metrics.exposition import waiting_reason
from wattfold.coordinator.adapters.requests.array_requests import check_array, with_array_variables
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job
from wattfold.v1 import coordinator_pb2 as pb

ADA = Peer(uid=1001, account="ada", address=BY_SOCKET)
EVE = Peer(uid=1002, account="eve", address=BY_SOCKET)
SPEC = replace(RIGID, user="ada", uid=1001, app="md")
CLOCK = Clock()


def site() -> Stage:
    return array_stage("0-99", spec=SPEC)


@pytest.mark.parametrize("job_id", ["1", "1_0", "1_77"])
def test_only_the_owner_orders_an_array_and_its_tasks(job_id: str) -> None:
    state, request = site().core.state, pb.CancelRequest(job_id=job_id)
    assert refusal(ADA, "Cancel", request, state, "") == ""
    told = refusal(EVE, "Cancel", request, state, "")
    assert told == f"job {job_id} belongs to ada; only ada and operators may cancel it"


def test_the_environment_is_stored_until_no_task_can_start() -> None:
    stage = array_stage("0-1")
    run(stage, "1_0", "1_1")
    end(stage, "1_0")
    assert no_longer_needed(stage.core.state) == ["1"], "all tasks have started"
    assert needed(stage.core.state) == []
    stage = array_stage("0-9")
    run(stage, "1_0")
    end(stage, "1_0")
    assert no_longer_needed(stage.core.state) == []
    assert "1" in needed(stage.core.state)
    stage.cancel("1")
    assert set(no_longer_needed(stage.core.state)) == {"1"}


def test_all_tasks_share_the_numbers_of_their_array() -> None:
    launch = LaunchData(env=(("A", "b"), ("SLURM_JOB_ID", "%j")))
    env = dict(with_array_variables(launch, "3,5-9:2%2").env)
    assert env["WATTFOLD_ARRAY_COUNT"] == env["SLURM_ARRAY_TASK_COUNT"] == "4"
    assert (env["WATTFOLD_ARRAY_MIN"], env["SLURM_ARRAY_TASK_MAX"]) == ("3", "9")
    assert with_array_variables(launch, "") is launch
    plain = dict(with_array_variables(LaunchData(), "1").env)
    assert not any(name.startswith("SLURM") for name in plain)


def test_wrong_indices_and_patterns_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="array '5-1': '5-1': the last index"):
        check_array(pb.SubmitRequest(array="5-1"))
    with pytest.raises(InvalidRequestError, match="has the pattern %a"):
        check_array(pb.SubmitRequest(spec=pb.JobSpec(stdout_path="out-%a")))
    check_array(pb.SubmitRequest(spec=pb.JobSpec(stdout_path="out-%A-%a"), array="1"))


def lines(stage: Stage, **question: object) -> list[str]:
    """The IDs of a list of open jobs; arrays with their numbers of tasks."""
    asked = Jobs(**{"viewer": ADA, **question})  # type: ignore[arg-type]
    state = stage.core.state
    jobs = [job for job in state.index.open.values() if asked.chosen.keeps(job, ADA, CLOCK)]
    arrays = ArrayLines(state, CLOCK, stage.now_ns, asked)
    return [
        one.job_id if isinstance(one, Job) else f"{one.array_id} with {len(one.index_set)}"
        for one in arrays.last(arrays.lines(jobs))
    ]


def test_an_array_is_one_line_in_the_order_of_submission() -> None:
    stage = site()
    stage.after(1)
    stage.submit("2", SPEC)
    assert lines(stage) == ["1 with 100", "2"]
    assert lines(stage, limit=1) == ["2"]
    run(stage, "1_0")
    assert lines(stage, limit=1) == ["1 with 100"], "it is on nodes"
    assert lines(stage, tasks=True) == ["1_0", "1_1", "1_2", "1_3", "2", "1 with 100"]
    assert lines(stage, chosen=JobFilter(user="eve")) == []
    running = JobFilter(states=frozenset({pb.JOB_STATE_RUNNING}))
    assert lines(stage, chosen=running) == ["1 with 100"]
    assert lines(stage, chosen=JobFilter(node_ids=frozenset({NodeId("n0")}))) == ["1 with 100"]


def test_tasks_that_are_not_jobs_yet_are_counted() -> None:
    stage = site()
    run(stage, "1_0")
    hold(stage, "1_1")
    jobs = stage.core.state.index.open.values()
    arrays = ArrayLines(stage.core.state, CLOCK, stage.now_ns, Jobs(viewer=ADA))
    found = {pb.JobState.Name(count.state): count.jobs for count in arrays.counts(list(jobs))}
    assert found == {"JOB_STATE_RUNNING": 1, "JOB_STATE_HELD": 1, "JOB_STATE_PENDING": 98}


def test_the_message_of_an_array() -> None:
    stage = site()
    run(stage, "1_0")
    stage.cancel("1_50")
    array = stage.core.state.arrays[JobId("1")]
    message = array_message(stage.core.state, array, CLOCK, stage.now_ns)
    assert message.state == pb.JOB_STATE_RUNNING
    assert message.reason == "1 running, 98 waiting, 1 cancelled: not planned yet"
    assert (message.array.waiting, message.array.tasks) == ("1-49,51-99", 100)
    left = array_message(stage.core.state, array, CLOCK, stage.now_ns, left_only=True)
    assert (left.array.tasks, left.array.left) == (95, 95)
    assert left.state == pb.JOB_STATE_PENDING


def test_a_task_beyond_the_limit_waits_for_its_array() -> None:
    stage = array_stage(limit=1)
    hold(stage, "1_0")
    stage.send(ev.JobReleased(job_id=JobId("1_0")))
    reasons = {waiting_reason(job) for job in stage.core.state.index.open.values()}
    assert reasons == {"array", "unknown_start"}
