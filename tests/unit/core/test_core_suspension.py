"""Suspended jobs: their processes, cores, power and time limit."""

from __future__ import annotations

from unit.core.stage import S, Stage, on, running, terminate

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState


def suspend(stage: Stage) -> list[act.Action]:
    return stage.send(ev.JobSuspendRequested(job_id=JobId("a")))


def resume(stage: Stage) -> list[act.Action]:
    return stage.send(ev.JobResumeRequested(job_id=JobId("a")))


def order(suspended: bool) -> act.Suspend:
    return act.Suspend(
        node_id=NodeId("n0"), job_id=JobId("a"), suspended=suspended, request_id="", cause=""
    )


def site(limit_s: int = 0) -> Stage:
    stage = Stage(80)
    stage.up("n0")
    stage.run_job("a", "n0:0-1", cap_w=40, limit_ns=limit_s * S)
    return stage


def test_a_suspended_job_keeps_its_cores_and_its_power() -> None:
    stage = site()
    spendable_uw = stage.core.snapshot(stage.now_ns).spendable_uw
    charge_w = stage.charge_w("n0")
    assert order(True) in suspend(stage)
    stage.suspension("n0", "a", True)
    stage.after(30)
    view = stage.core.snapshot(stage.now_ns)
    assert stage.job("a").state is JobState.SUSPENDED
    assert (view.jobs, str(view.nodes[0].blocked)) == ((), "0-1")
    assert stage.charge_w("n0") == charge_w
    assert view.spendable_uw == spendable_uw - 15_000_000
    stage.submit("b")
    stage.need_plan()
    assert not any(
        isinstance(action, act.Launch) for action in stage.plan(on("b", "n0:0-1", cap_w=10))
    )
    assert resume(stage)[0] == order(False)
    stage.suspension("n0", "a", False)
    assert stage.job("a").state is JobState.RUNNING


def test_a_command_without_an_answer_is_given_again() -> None:
    stage = site()
    suspend(stage)
    assert stage.suspension("n0", "a", None) == []
    assert order(True) in stage.after(1)
    stage.suspension("n0", "a", True)
    assert order(True) not in stage.after(5)


def test_a_change_of_mind_on_the_way_is_made_good() -> None:
    stage = site()
    suspend(stage)
    assert order(False) not in resume(stage)
    assert order(False) in stage.suspension("n0", "a", True)


def test_nodes_and_coordinator_agree_again_after_a_restart() -> None:
    stage = site()
    suspend(stage)
    stage.core.state = codec.load_state(codec.dump_state(stage.core.state))
    stage.start(2)
    assert order(True) in stage.connect("n0", 10, (running("a", "0-1", attempt=1),))
    stage.silent("n0")
    stopped = running("a", "0-1", attempt=1, suspended=True)
    assert order(True) not in stage.connect("n0", 10, (stopped,))
    stage.silent("n0")
    resume(stage)
    assert order(False) in stage.connect("n0", 10, (stopped,))


def test_the_time_limit_stands_still() -> None:
    stage = site(limit_s=10)
    stage.after(4)
    suspend(stage)
    stage.after(100)
    assert stage.job("a").state is JobState.SUSPENDED
    resume(stage)
    stage.after(5)
    assert stage.job("a").state is JobState.RUNNING
    assert stage.job("a").suspended_for_ns(stage.now_ns) == 100 * S
    stage.after(1)
    assert stage.job("a").state is JobState.ENDING


def test_its_share_done_does_not_grow() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-1", cap_w=10, total_s=100))
    stage.launched("n0", "a")
    stage.after(10)
    suspend(stage)
    stage.after(50)
    assert stage.job("a").done_by(stage.now_ns) == 0.1
    resume(stage)
    stage.after(10)
    assert stage.job("a").done_by(stage.now_ns) == 0.2


def test_a_suspended_job_is_cancelled_and_may_end() -> None:
    stage = site()
    suspend(stage)
    stage.suspension("n0", "a", True)
    assert stage.cancel("a") == [terminate("n0", "a")]
    stage.process_ended("n0", "a", 143)
    assert stage.job("a").state is JobState.CANCELLED
    assert stage.job("a").target is None


def test_only_a_running_job_is_suspended() -> None:
    stage = Stage()
    stage.submit("a")
    suspend(stage)
    assert stage.job("a").state is JobState.PENDING
    resume(stage)
    assert stage.job("a").state is JobState.PENDING
