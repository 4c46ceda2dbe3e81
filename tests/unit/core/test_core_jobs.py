"""The life of a job: cancel, hold, failed starts, and ends in every order."""

from __future__ import annotations

from copy import deepcopy

import pytest
from unit.core.stage import (
    NODES,
    S,
    Stage,
    caps,
    ended,
    forget,
    job_spec,
    launch,
    mask,
    on,
    renew,
    running,
    solve,
    terminate,
)

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.state.state import CoreSettings

N0 = NodeId("n0")


def started(*nodes: str) -> Stage:
    """A stage that is starting a job on all these nodes."""
    stage = Stage()
    stage.up(*nodes)
    spec = job_spec(len(nodes), len(nodes), unit=NODES) if len(nodes) > 1 else job_spec()
    stage.submit("a", spec)
    places = nodes if len(nodes) > 1 else (f"{nodes[0]}:0-1",)
    stage.plan(on("a", *places, cap_w=10))
    return stage


def test_a_waiting_job_is_cancelled_at_once() -> None:
    stage = Stage()
    stage.submit("a")
    assert stage.cancel("a") == []
    assert stage.job("a").state is JobState.CANCELLED


def test_a_held_job_is_cancelled_at_once() -> None:
    stage = Stage()
    stage.submit("a", held=True)
    stage.cancel("a")
    assert stage.job("a").state is JobState.CANCELLED


def test_an_accepted_start_that_has_no_cores_yet_is_cancelled_at_once() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.submit("b")
    stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3"))
    assert stage.cancel("b") == [caps("n0", 30), solve(3)]
    assert stage.job("b").state is JobState.CANCELLED
    assert stage.job("b").target is None


def test_a_running_job_is_ended_and_its_cores_stay_held_until_it_has() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    assert stage.cancel("a") == [terminate("n0", "a")]
    assert stage.job("a").state is JobState.ENDING
    stage.submit("b")
    view = stage.core.snapshot(stage.now_ns)
    assert str(view.nodes[0].blocked) == "0-3"
    assert view.spendable_uw == 1000e6 - 20e6 - 40e6, "its power is not free either"
    assert stage.process_ended("n0", "a", 143)[0] == forget("n0", "a")
    assert stage.job("a").state is JobState.CANCELLED


@pytest.mark.parametrize("refused", [False, True])
def test_a_lost_order_to_end_a_job_is_repeated_until_it_has_ended(refused: bool) -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    assert stage.cancel("a") == [terminate("n0", "a")]
    for _ in range(3):
        assert stage.terminate_failed("n0", "a", refused=refused) == []
        assert terminate("n0", "a") not in stage.after(0.9)
        assert stage.wake_ns <= stage.now_ns + S // 10
        assert terminate("n0", "a") in stage.after(0.1)
    assert stage.after(1.0) == [], "one that is under way is not repeated"
    stage.process_ended("n0", "a", 143)
    assert stage.terminate_failed("n0", "a", refused=True) == []
    assert stage.job("a").state is JobState.CANCELLED


def test_an_order_to_end_a_job_does_not_wait_for_a_mask_that_is_tried_again() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.plan(on("a", "n0:0-1"))
    stage.send(reports.MaskFailed(node_id=N0, job_id=JobId("a"), reason="no"))
    assert stage.cancel("a") == [terminate("n0", "a")]


def test_a_second_cancel_changes_nothing() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.cancel("a")
    assert stage.cancel("a") == []
    stage.process_ended("n0", "a", 143)
    assert stage.cancel("a") == []


def test_cancel_during_a_launch_ends_the_process_whenever_it_comes() -> None:
    stage = started("n0")
    assert stage.cancel("a") == [terminate("n0", "a")]
    assert stage.launched("n0", "a") == [terminate("n0", "a")], "the first one found no process"
    stage.process_ended("n0", "a", 143)
    assert stage.job("a").state is JobState.CANCELLED


def test_cancel_during_a_launch_that_then_fails() -> None:
    stage = started("n0")
    stage.cancel("a")
    assert stage.launch_failed("n0", "a", permanent=False) == [terminate("n0", "a")]
    assert stage.job("a").state is JobState.CANCELLED


def test_cancel_between_two_tries_to_start() -> None:
    stage = started("n0")
    stage.launch_failed("n0", "a", permanent=False)
    assert stage.cancel("a") == [terminate("n0", "a")], "the answer may have been lost"
    assert stage.job("a").state is JobState.CANCELLED
    assert stage.after(5) == [renew("n0")]


def test_a_process_that_starts_after_its_job_was_given_up_is_ended() -> None:
    stage = started("n0")
    stage.launch_failed("n0", "a", permanent=False)
    stage.cancel("a")
    assert stage.launched("n0", "a") == [terminate("n0", "a")]


def test_cancel_while_the_node_is_silent_is_carried_out_when_it_is_back() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.silent("n0")
    assert stage.cancel("a") == []
    out = stage.connect("n0", 50, (running("a", "0-3"),))
    assert out == [renew("n0"), terminate("n0", "a"), solve(stage.core.state.rounds)]


def test_hold_and_release() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", held=True)
    assert not stage.core.state.solving
    assert stage.send(ev.JobReleased(job_id=JobId("a"))) == [solve(1)]
    assert stage.send(ev.JobHeld(job_id=JobId("a"))) == []
    assert stage.job("a").state is JobState.HELD
    assert stage.plan(on("a", "n0:0")) == []
    assert stage.job("a").state is JobState.HELD, "a plan made before does not start it"


def test_a_running_job_is_not_held() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.send(ev.JobHeld(job_id=JobId("a")))
    assert stage.job("a").state is JobState.RUNNING


@pytest.mark.parametrize("kind", [ev.JobCancelRequested, ev.JobHeld, ev.JobReleased])
def test_a_request_for_a_job_that_was_dropped_meanwhile_harms_nobody(kind: type) -> None:
    assert Stage().send(kind(job_id=JobId("gone"))) == []


def test_a_launch_that_can_never_work_fails_the_job() -> None:
    stage = started("n0")
    stage.launch_failed("n0", "a", permanent=True)
    job = stage.job("a")
    assert (job.state, job.exit_code, job.message) == (JobState.FAILED, 127, "no")


def test_another_launch_is_tried_again_after_a_while() -> None:
    stage = started("n0")
    assert stage.launch_failed("n0", "a", permanent=False) == []
    assert stage.job("a").state is JobState.STARTING
    assert stage.after(0.9) == []
    assert stage.after(0.1) == [launch("n0", "a", "0-1")]


def test_a_process_that_ends_before_its_start_was_heard_of() -> None:
    stage = started("n0")
    assert stage.process_ended("n0", "a") == [forget("n0", "a")]
    assert stage.job("a").state is JobState.COMPLETED
    assert stage.job("a").started_ns == stage.now_ns
    assert stage.launched("n0", "a") == []
    assert stage.job("a").state is JobState.COMPLETED


def test_an_end_told_twice_counts_once() -> None:
    stage = started("n0")
    stage.launched("n0", "a")
    stage.process_ended("n0", "a", 3)
    assert stage.process_ended("n0", "a", 0) == [forget("n0", "a")]
    assert stage.job("a").state is JobState.FAILED
    assert stage.job("a").exit_code == 3


def test_a_failed_rank_ends_the_others() -> None:
    stage = started("n0", "n1")
    stage.launched("n0", "a")
    stage.launched("n1", "a")
    out = stage.process_ended("n0", "a", 1)
    assert out == [forget("n0", "a"), terminate("n1", "a")]
    stage.process_ended("n1", "a", 143)
    assert stage.job("a").state is JobState.FAILED
    assert stage.job("a").exit_code == 1


def test_a_rank_that_ends_well_leaves_the_others() -> None:
    stage = started("n0", "n1")
    stage.launched("n0", "a")
    stage.launched("n1", "a")
    assert stage.process_ended("n0", "a", 0) == [forget("n0", "a")]
    assert stage.job("a").state is JobState.RUNNING
    stage.process_ended("n1", "a", 0)
    assert stage.job("a").state is JobState.COMPLETED


def test_a_rank_that_fails_while_another_waits_for_its_next_try() -> None:
    stage = started("n0", "n1")
    stage.launched("n0", "a")
    stage.launch_failed("n1", "a", permanent=False)
    assert stage.process_ended("n0", "a", 1) == [forget("n0", "a"), terminate("n1", "a")]
    assert stage.job("a").state is JobState.FAILED


def test_a_vanished_process_loses_the_job() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.silent("n0")
    stage.connect("n0", 10, ())
    assert stage.job("a").state is JobState.LOST
    assert "disappeared" in stage.job("a").message


def test_an_end_that_happened_out_of_contact_is_taken_in() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.silent("n0")
    assert stage.connect("n0", 10, (ended("a", 0, cpu_ns=5),))[:1] == [forget("n0", "a", 0)]
    assert stage.job("a").state is JobState.COMPLETED
    assert stage.job("a").ranks[N0].end.cpu_ns == 5  # type: ignore[union-attr]


def test_a_launch_lost_with_the_contact_is_sent_again() -> None:
    stage = started("n0")
    stage.silent("n0")
    assert stage.connect("n0", 10, ()) == [
        renew("n0"),
        launch("n0", "a", "0-1"),
        solve(stage.core.state.rounds),
    ]


def test_a_launch_that_worked_out_of_contact_is_adopted() -> None:
    stage = started("n0")
    stage.silent("n0")
    stage.connect("n0", 10, (running("a", "0-1"),))
    assert stage.job("a").state is JobState.RUNNING


def test_a_node_that_goes_silent_before_the_launch_leaves_the_job_to_others() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3")
    stage.submit("b")
    stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3"))
    stage.silent("n0")
    assert stage.job("b").state is JobState.STARTING
    view = next(v for v in stage.core.snapshot(stage.now_ns).jobs if v.job_id == "b")
    assert view.current is None
    assert stage.plan(on("b", "n1:0", cap_w=10)) == [launch("n1", "b", "0")]


def test_foreign_processes_keep_their_cores() -> None:
    stage = Stage()
    stage.register("n0")
    assert stage.connect("n0", 10, (running("stranger", "0-1"),)) == [renew("n0")]
    stage.leased("n0")
    stage.submit("a")
    assert stage.plan(on("a", "n0:1-2", cap_w=10)) == []
    assert "in use by processes of earlier attempts or of another journal" in stage.job("a").reason
    stage.need_plan()
    assert stage.plan(on("a", "n0:2-3", cap_w=10)) == [launch("n0", "a", "2-3")]
    assert stage.process_ended("n0", "stranger") == [forget("n0", "stranger", 0), solve(3)]
    assert not stage.core.state.nodes[N0].foreign


def test_a_process_of_a_job_that_has_ended_is_ended() -> None:
    stage = started("n0")
    stage.silent("n0")
    stage.launch_failed("n0", "a", permanent=True)
    out = stage.connect("n0", 10, (running("a", "0-1"),))
    assert out == [terminate("n0", "a"), renew("n0")]
    assert str(stage.core.state.nodes[N0].foreign[JobId("a")]) == "0-1"
    assert stage.terminate_failed("n0", "a") == [terminate("n0", "a")]
    assert stage.terminate_failed("n0", "a", refused=True) == [], "its end is told"
    stage.process_ended("n0", "a", 143)
    assert not stage.core.state.nodes[N0].foreign
    stage.silent("n0")
    assert stage.terminate_failed("n0", "a") == []


def test_progress_is_integrated_and_the_programs_word_replaces_it() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", total_s=100))
    stage.launched("n0", "a")

    def done() -> float:
        return stage.core.snapshot(stage.now_ns).jobs[0].done

    stage.after(25)
    assert done() == pytest.approx(0.25)
    stage.send(ev.ProgressReported(job_id=JobId("a"), done=0.5))
    stage.after(10)
    assert done() == pytest.approx(0.6)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=40, total_s=200))
    stage.after(20)
    assert done() == pytest.approx(0.7), "the share done counts at the speed it was done at"
    stage.after(1000)
    assert stage.job("a").done_by(stage.now_ns) == 0.99, "a running job is never done"
    assert done() == pytest.approx((200 + 1020 - 80) / 1460), (
        "it is planned for 1 + 5 + 15 min more"
    )


def evolving(low: int = 1, high: int = 4) -> Stage:
    """An evolving job on two cores, without a pending plan."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(low, high, kind=JobKind.EVOLVING))
    stage.plan(on("a", "n0:0-1"))
    stage.launched("n0", "a")
    if stage.core.state.solving:
        stage.plan(on("a", "n0:0-1"))
    return stage


def want(stage: Stage, size: int) -> list[act.Action]:
    return stage.send(ev.SizeWanted(job_id=JobId("a"), size=size))


def test_a_wish_is_a_reason_to_plan_and_bounds_the_plan() -> None:
    stage = evolving()
    number = stage.core.state.rounds
    assert want(stage, 1) == [solve(number + 1)]
    view = stage.core.snapshot(stage.now_ns).jobs[0]
    assert (view.wanted, view.max_size) == (1, 1)
    assert want(stage, 3) == []  # A round is in progress; another round follows.
    # A size above the request is rejected; the job keeps its cores.
    assert stage.plan(on("a", "n0:0-3")) == [solve(number + 2)]
    assert "the program requests at most 3 cores" in stage.core.state.jobs[JobId("a")].reason
    assert mask("n0", "a", "0-2") in stage.plan(on("a", "n0:0-2"))


@pytest.mark.parametrize(("size", "greatest"), [(0, 4), (1, 2), (2, 2), (3, 3), (4, 4), (99, 4)])
def test_wishes_are_clamped_to_the_sizes_submitted(size: int, greatest: int) -> None:
    stage = evolving(2, 4)
    want(stage, size)
    assert stage.core.snapshot(stage.now_ns).jobs[0].max_size == greatest


def test_a_wish_that_changes_nothing_plans_nothing() -> None:
    stage = evolving()
    assert want(stage, 4) == []
    assert want(stage, 0) == []
    assert want(stage, 99) == []
    assert stage.send(ev.SizeWanted(job_id=JobId("nobody"), size=1)) == []
    assert stage.send(ev.SizeWanted(job_id=JobId("a"), size=-1)) == []


def test_only_evolving_jobs_have_wishes() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec())
    stage.plan(on("a", "n0:0-1"))
    stage.launched("n0", "a")
    stage.send(ev.SizeWanted(job_id=JobId("a"), size=1))
    assert stage.core.snapshot(stage.now_ns).jobs[0].max_size == 4


def test_every_task_keeps_a_core() -> None:
    stage = Stage()
    stage.up("n0")
    # The size is checked at submission, and again in each plan.
    stage.submit("a", job_spec(1, 4, tasks_per_node=2))
    stage.plan(on("a", "n0:0"))
    assert "size 1 is outside 2..4" in stage.core.state.jobs[JobId("a")].reason


def test_looking_at_the_state_does_not_change_it() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", total_s=100))
    stage.launched("n0", "a")
    stage.submit("b")
    before = deepcopy(stage.core.state)
    stage.core.snapshot(stage.now_ns + 7 * S)
    assert stage.core.state == before


def test_only_so_many_ended_jobs_are_kept() -> None:
    core = CoordinatorCore(1000, CoreSettings(kept_ended_jobs=3))
    for number in range(6):
        name = JobId(str(number))
        core.handle(ev.JobSubmitted(job_id=name, spec=job_spec(), key=f"k{number}"), number)
        if number < 5:
            core.handle(ev.JobCancelRequested(job_id=name), number)
    assert list(core.state.jobs) == ["2", "3", "4", "5"], "three that have ended, and the open one"
    assert core.state.submissions == 6


def test_keys_outlive_their_jobs_and_are_bounded() -> None:
    core = CoordinatorCore(1000, CoreSettings(kept_ended_jobs=1, kept_keys=2))
    for number in range(6):
        name = JobId(str(number))
        core.handle(ev.JobSubmitted(job_id=name, spec=job_spec(), key=f"k{number}"), number)
        core.handle(ev.JobCancelRequested(job_id=name), number)
    assert list(core.state.jobs) == ["4", "5"]
    assert core.state.keys == {"k2": "2", "k3": "3", "k4": "4", "k5": "5"}
    assert core.state.keys.keys() == core.state.key_prints.keys()


def test_waiting_time_is_kept_over_a_restart() -> None:
    stage = Stage()
    stage.submit("a")
    stage.now_ns = 5 * S
    stage.start(2)
    assert stage.job("a").submitted_ns == 0
