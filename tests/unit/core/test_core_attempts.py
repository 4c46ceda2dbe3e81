"""Further attempts of a job: after lost nodes, on request, and leftovers of old attempts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import (
    NODES,
    S,
    Stage,
    ended,
    forget,
    job_spec,
    launch,
    on,
    running,
    terminate,
)

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState


def site(*nodes: str, **fields: Any) -> Stage:
    """A stage with job a running on all these nodes, or on half of the only node."""
    stage = Stage()
    stage.up("n0", "n1", "n2")
    count = len(nodes)
    whole: dict[str, Any] = {"unit": NODES} if count > 1 else {}
    spec = job_spec(count if count > 1 else 1, count if count > 1 else 4, **whole, **fields)
    stage.submit("a", spec)
    start(stage, *(nodes if count > 1 else (f"{nodes[0]}:0-1",)))
    return stage


def start(stage: Stage, *places: str) -> list[act.Action]:
    stage.need_plan()
    actions = stage.plan(on("a", *places, cap_w=10))
    for place in places:
        stage.launched(place.partition(":")[0], "a")
    return actions


def forgotten(stage: Stage, node: str) -> list[act.Action]:
    stage.silent(node)
    stage.after(60)
    return stage.order(node, NodeOrder.FORGET_UNPOWERED, "board is dead")


def requeue(stage: Stage, **fields: Any) -> list[act.Action]:
    return stage.send(ev.JobRequeueRequested(job_id=JobId("a"), **fields))


def launches(actions: list[act.Action]) -> list[act.Launch]:
    return [action for action in actions if isinstance(action, act.Launch)]


def test_a_job_whose_node_is_forgotten_waits_again_at_its_place() -> None:
    stage = site("n0", requeue_max=1)
    submitted_ns = stage.job("a").submitted_ns
    stage.submit("b")
    forgotten(stage, "n0")
    job = stage.job("a")
    assert (job.state, job.attempt, job.submitted_ns) == (JobState.PENDING, 2, submitted_ns)
    assert "its node n0 was removed from the ledger: board is dead" in job.reason
    assert (job.ranks, job.target, job.started_ns) == ({}, None, -1)
    assert (job.done, job.saved, job.saved_share) == (0, 0, 0)
    assert [view.job_id for view in stage.core.snapshot(stage.now_ns).jobs] == ["a", "b"]
    (first,) = job.attempts
    assert (first.number, first.nodes, first.lost) == (1, ("n0",), True)
    assert "board is dead" in first.why


def test_the_next_attempt_is_started_under_its_number() -> None:
    stage = site("n0", requeue_max=1)
    forgotten(stage, "n0")
    spec = stage.job("a").spec
    again = launches(start(stage, "n1:0-1"))
    assert again == [replace(launch("n1", "a", "0-1", spec=spec), attempt=2)]
    assert stage.job("a").state is JobState.RUNNING


def test_a_start_after_a_loss_is_none_at_another_size() -> None:
    stage = site("n0", requeue_max=1)
    forgotten(stage, "n0")
    start(stage, "n1:0-1")
    assert stage.job("a").resized_ns == -1
    assert not stage.core.state.restarts, "it has told nothing of what another size costs"


def test_without_the_option_a_lost_job_is_lost() -> None:
    stage = site("n0")
    forgotten(stage, "n0")
    assert stage.job("a").state is JobState.LOST


def test_a_job_is_lost_when_it_has_had_its_attempts() -> None:
    stage = site("n0", requeue_max=1)
    forgotten(stage, "n0")
    start(stage, "n1:0-1")
    forgotten(stage, "n1")
    job = stage.job("a")
    assert (job.state, job.attempt, len(job.attempts)) == (JobState.LOST, 2, 1)


def test_the_other_ranks_are_ended_before_the_job_waits_again() -> None:
    stage = site("n0", "n1", requeue_max=3)
    assert terminate("n1", "a") in forgotten(stage, "n0")
    assert stage.job("a").state is JobState.ENDING
    assert str(stage.core.snapshot(stage.now_ns).nodes[0].blocked) == "0-3"
    stage.process_ended("n1", "a", 143)
    job = stage.job("a")
    assert (job.state, job.attempt) == (JobState.PENDING, 2)
    assert job.attempts[0].nodes == ("n0", "n1")


def test_a_rank_out_of_reach_holds_the_job_until_it_is_forgotten() -> None:
    stage = site("n0", "n1", requeue_max=3)
    stage.silent("n0")
    stage.process_ended("n1", "a", 1)
    stage.after(100)
    assert stage.job("a").state is JobState.ENDING
    stage.order("n0", NodeOrder.FORGET_UNPOWERED)
    assert stage.job("a").state is JobState.PENDING


def test_a_vanished_process_counts_as_lost() -> None:
    stage = site("n0", requeue_max=3)
    stage.silent("n0")
    stage.connect("n0")
    job = stage.job("a")
    assert (job.state, job.attempt) == (JobState.PENDING, 2)
    assert "disappeared" in job.reason


def test_a_forced_cancel_is_no_reason_to_start_again() -> None:
    stage = site("n0", requeue_max=3)
    stage.silent("n0")
    stage.cancel("a", force=True)
    assert stage.job("a").state is JobState.CANCELLED


def test_what_a_lost_node_still_runs_is_ended_before_the_job_may_start() -> None:
    stage = site("n0", requeue_max=3)
    forgotten(stage, "n0")
    old = running("a", "0-1", attempt=1)
    assert not any(isinstance(x, act.Terminate) for x in stage.connect("n0", 10, (old,)))
    assert not stage.core.snapshot(stage.now_ns).jobs, "it would run twice"
    stage.need_plan()
    assert not launches(stage.plan(on("a", "n1:0-1", cap_w=10)))
    resumed = stage.order("n0", NodeOrder.RESUME)
    assert replace(terminate("n0", "a"), attempt=0) in resumed
    stage.send(reports.ProcessEnded(node_id=NodeId("n0"), process=ended("a", 143, attempt=1)))
    assert len(stage.core.snapshot(stage.now_ns).jobs) == 1
    assert launches(start(stage, "n1:0-1"))[0].attempt == 2


def test_a_start_that_waits_for_cores_is_put_off_when_an_old_process_turns_up() -> None:
    stage = site("n0", requeue_max=3)
    forgotten(stage, "n0")
    stage.run_job("b", "n1:0-3", cap_w=40)
    stage.need_plan()
    stage.plan(on("b", "n1:2-3", cap_w=10), on("a", "n1:0-1", cap_w=10))
    assert stage.job("a").state is JobState.STARTING
    stage.order("n0", NodeOrder.RESUME)
    stage.connect("n0", 10, (running("a", "0-1", attempt=1),))
    assert stage.job("a").state is JobState.PENDING
    assert "earlier attempt still runs on n0" in stage.job("a").reason
    assert not launches(stage.mask_is("n1", "b", "2-3"))


def test_an_old_process_beside_the_new_attempt_is_ended_and_never_taken_for_it() -> None:
    stage = site("n0", requeue_max=3)
    forgotten(stage, "n0")
    start(stage, "n1:0-1")
    stage.order("n0", NodeOrder.RESUME)
    out = stage.connect("n0", 10, (running("a", "0-1", attempt=1),))
    assert replace(terminate("n0", "a"), attempt=1) in out
    gone = reports.ProcessEnded(node_id=NodeId("n0"), process=ended("a", 0, attempt=1))
    assert stage.send(gone)[0] == forget("n0", "a")
    job = stage.job("a")
    assert (job.state, list(job.ranks)) == (JobState.RUNNING, ["n1"])


@pytest.mark.parametrize("told", [0, 1])
def test_an_old_process_on_the_node_of_the_new_attempt_is_not_adopted(told: int) -> None:
    """Agents of earlier versions do not report the attempt."""
    stage = site("n0", requeue_max=3)
    stage.silent("n0")
    stage.connect("n0")
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", cap_w=10))
    assert stage.job("a").ranks[NodeId("n0")].launching
    stage.silent("n0")
    out = stage.connect("n0", 10, (running("a", "0-1", attempt=told),))
    assert replace(terminate("n0", "a"), attempt=told) in out
    assert stage.job("a").state is JobState.STARTING
    assert not stage.job("a").ranks[NodeId("n0")].running
    assert [again.attempt for again in launches(out)] == [2], "the agent has it make way"


def test_an_old_process_is_not_adopted_after_a_restart() -> None:
    stage = site("n0", requeue_max=3)
    forgotten(stage, "n0")
    stage.order("n0", NodeOrder.RESUME)
    stage.start(2)
    out = stage.connect("n0", 10, (running("a", "0-1", attempt=1),))
    assert replace(terminate("n0", "a"), attempt=1) in out
    assert stage.job("a").state is JobState.PENDING


def test_answers_about_an_earlier_attempt_change_nothing() -> None:
    stage = site("n0", requeue_max=3)
    stage.silent("n0")
    stage.connect("n0")
    start(stage, "n0:0-1")
    before = codec.dump_state(stage.core.state)
    node, job = NodeId("n0"), JobId("a")
    late = [
        reports.LaunchFailed(node_id=node, job_id=job, reason="x", permanent=True, attempt=1),
        reports.MaskConfirmed(
            node_id=node, job_id=job, cpus=CpuSet.parse("3"), confined=True, attempt=1
        ),
        reports.MaskFailed(node_id=node, job_id=job, reason="x", attempt=1),
        reports.SuspensionConfirmed(node_id=node, job_id=job, suspended=True, attempt=1),
    ]
    for event in late:
        assert stage.send(event) == []
    assert codec.dump_state(stage.core.state) == before
    ghost = reports.JobLaunched(node_id=node, job_id=job, pid=9, attempt=1)
    assert stage.send(ghost) == [terminate("n0", "a")], "and what runs of it is ended"


def test_a_requeue_gives_its_signal_and_time_and_ends_the_attempt() -> None:
    stage = site("n0", restartable=True, snapshot_signal=10, snapshot_grace_ns=30 * S)
    end = replace(terminate("n0", "a"), signal=10, grace_ns=30 * S)
    assert requeue(stage, reason="room for others") == [end]
    stage.process_ended("n0", "a")
    job = stage.job("a")
    assert (job.state, job.attempt) == (JobState.PENDING, 2), "though it ended well"
    assert job.attempts[0].why == "room for others"
    assert not job.attempts[0].lost


def test_a_requeue_may_name_another_signal_and_hold_the_job() -> None:
    stage = site("n0", restartable=True, snapshot_signal=10, snapshot_grace_ns=30 * S)
    (end,) = requeue(stage, signal=12, grace_ns=S, hold=True)
    assert isinstance(end, act.Terminate)
    assert (end.signal, end.grace_ns) == (12, S)
    stage.process_ended("n0", "a", 1)
    assert stage.job("a").state is JobState.HELD


def test_requeues_do_not_count_as_losses() -> None:
    stage = site("n0", requeue_max=1)
    requeue(stage)
    stage.process_ended("n0", "a")
    start(stage, "n0:0-1")
    forgotten(stage, "n0")
    assert (stage.job("a").state, stage.job("a").attempt) == (JobState.PENDING, 3)


def test_a_job_that_cannot_be_started_again_is_not_requeued() -> None:
    stage = site("n0")
    assert requeue(stage) == []
    assert stage.job("a").state is JobState.RUNNING


def test_a_cancel_beats_a_requeue_and_its_grace_time() -> None:
    stage = site("n0", restartable=True, snapshot_signal=10, snapshot_grace_ns=999 * S)
    requeue(stage)
    assert stage.cancel("a") == [terminate("n0", "a")]
    stage.process_ended("n0", "a")
    assert stage.job("a").state is JobState.CANCELLED


def test_a_requeue_survives_a_restart_of_the_coordinator() -> None:
    stage = site("n0", restartable=True, snapshot_signal=10)
    requeue(stage)
    stage.core.state = codec.load_state(codec.dump_state(stage.core.state))
    stage.start(2)
    out = stage.connect("n0", 10, (running("a", "0-1", attempt=1),))
    assert replace(terminate("n0", "a"), signal=10) in out
    stage.process_ended("n0", "a")
    assert stage.job("a").state is JobState.PENDING


def test_a_state_of_before_there_were_attempts_is_read() -> None:
    stage = site("n0")
    stored = json.loads(codec.dump_state(stage.core.state))
    added = {"attempt", "attempts", "requeue", "suspended_ns", "paused_ns"}
    wanted = {"requeue_max", "restartable", "snapshot_dir", "snapshot_signal", "snapshot_grace_ns"}
    for job in stored["jobs"].values():
        assert added <= job.keys()
        assert wanted <= job["spec"].keys()
        for name in added:
            del job[name]
        for name in wanted:
            del job["spec"][name]
        for rank in job["ranks"].values():
            del rank["stopped"], rank["stopping"]
    assert codec.load_state(json.dumps(stored)) == stage.core.state


def test_events_of_before_there_were_attempts_are_read() -> None:
    body = '{"node_id": "n0", "job_id": "a", "pid": 7}'
    event = codec.load_event("JobLaunched", body)
    assert event == reports.JobLaunched(node_id=NodeId("n0"), job_id=JobId("a"), pid=7, attempt=0)


def test_what_attempts_have_used_is_kept() -> None:
    stage = site("n0", "n1", restartable=True)
    stage.after(5)
    requeue(stage)
    for node in ("n0", "n1"):
        used = ended(
            "a", 0, attempt=1, cpu_ns=3, core_ns=5, energy_uj=7, idle_energy_uj=2, gpu_energy_uj=4
        )
        stage.send(reports.ProcessEnded(node_id=NodeId(node), process=used))
    (first,) = stage.job("a").attempts
    assert (first.cpu_ns, first.core_ns, first.energy_uj, first.idle_energy_uj) == (6, 10, 14, 4)
    assert first.gpu_energy_uj == 8
    assert first.ended_ns - first.started_ns == 5 * S


def test_a_limit_of_an_earlier_attempt_is_over_with_it() -> None:
    stage = site("n0", restartable=True, limit_ns=10 * S)
    stage.run_job("b", "n1:0-1", cap_w=40, limit_ns=5 * S)
    stage.after(4)
    requeue(stage)
    stage.process_ended("n0", "a")
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", cap_w=10), on("b", "n1:0-1", cap_w=10))
    stage.launched("n0", "a")
    stage.after(1)
    assert stage.job("b").state is JobState.ENDING
    stage.after(6)
    assert stage.job("a").state is JobState.RUNNING


def test_equal_limits_of_two_attempts_are_reached_once() -> None:
    stage = site("n0", restartable=True, limit_ns=10 * S)
    stage.run_job("b", "n1:0-1", cap_w=40, limit_ns=5 * S)
    requeue(stage)
    stage.process_ended("n0", "a")
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", cap_w=10), on("b", "n1:0-1", cap_w=40))
    stage.launched("n0", "a")
    job = stage.job("a")
    assert (job.attempt, job.limit_at_ns) == (2, stage.now_ns + 10 * S)
    assert stage.core.state.index.take_over_limit(job.limit_at_ns) == [stage.job("b"), job]


def test_the_time_limit_is_of_each_attempt() -> None:
    stage = site("n0", restartable=True, limit_ns=10 * S)
    stage.after(9)
    requeue(stage)
    stage.process_ended("n0", "a")
    start(stage, "n0:0-1")
    stage.after(9)
    assert stage.job("a").state is JobState.RUNNING
    stage.after(1)
    assert stage.job("a").state is JobState.ENDING
    stage.process_ended("n0", "a", 143)
    assert stage.job("a").state is JobState.TIMED_OUT
