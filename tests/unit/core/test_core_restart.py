"""Jobs that change their size by a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from unit.core.stage import NODES, S, Stage, W, ended, forget, job_spec, launch, on, solve

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import ATTEMPTS_MAX, Saving
from wattfold.coordinator.core.model.jobs.resize_cost import UNSEEN_NS
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.rules.jobs.restart_target import firm

RESTART = ResizeMode.RESTART


def spec(low: int = 1, high: int = 3, **fields: Any) -> Any:
    return job_spec(low, high, **{"unit": NODES, "mode": RESTART, **fields})


def site(*nodes: str, budget_w: float = 1000, **fields: Any) -> Stage:
    """A stage of three nodes with job a running on some of them, on whole nodes at 30 W each."""
    stage = Stage(budget_w)
    stage.up("n0", "n1", "n2")
    stage.submit("a", spec(**fields))
    start(stage, "a", *nodes)
    return stage


def start(stage: Stage, job: str, *places: str, **fields: Any) -> list[act.Action]:
    stage.need_plan()
    actions = stage.plan(*kept(stage), on(job, *places, cap_w=30, **fields))
    for place in places:
        stage.launched(place.partition(":")[0], job)
    return actions


def kept(stage: Stage) -> list[Any]:
    return [j.target for j in stage.core.state.placed() if j.target and j.state.value == "running"]


def to(stage: Stage, *places: str, **fields: Any) -> list[act.Action]:
    """Accept a plan with another size of job a."""
    stage.need_plan()
    others = [target for target in kept(stage) if target.job_id != "a"]
    return stage.plan(*others, on("a", *places, cap_w=30, **fields))


def ends(
    stage: Stage, node: str, saving: Saving = Saving.SAVED, code: int = 0, **told: Any
) -> list[act.Action]:
    """End the process of job a on a node and report its snapshot."""
    process = ended("a", code, attempt=stage.attempt("a"), saving=saving, **told)
    return stage.send(reports.ProcessEnded(node_id=NodeId(node), process=process))


def ordered(stage: Stage, size: int) -> list[act.Action]:
    return stage.send(ev.JobResizeRequested(job_id=JobId("a"), size=size))


def job(stage: Stage) -> Job:
    return stage.job("a")


def of(kind: type, actions: list[act.Action]) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def test_a_job_shrinks_by_its_next_attempt() -> None:
    stage = site("n0", "n1", "n2", snapshot_signal=10, snapshot_grace_ns=60 * S)
    asked = of(act.Terminate, to(stage, "n0"))
    assert [(a.node_id, a.signal, a.grace_ns, a.saves) for a in asked] == [
        (n, 10, 60 * S, True) for n in ("n0", "n1", "n2")
    ]
    assert (job(stage).state, job(stage).reason) == (JobState.ENDING, "restarting: 3 -> 1 nodes")
    assert not of(act.Launch, ends(stage, "n0") + ends(stage, "n1"))
    last = ends(stage, "n2")
    wanted = replace(launch("n0", "a", "0-3", spec=job(stage).spec, launch_cpus=4), attempt=2)
    assert of(act.Launch, last) == [wanted], "at once, by the event that ended the last process"
    assert forget("n2", "a") in last
    assert not firm(stage.core.state, job(stage)), "it has its cores, and waits for none"
    stage.launched("n0", "a")
    assert (job(stage).state, job(stage).resizes, job(stage).reason) == (JobState.RUNNING, 1, "")
    (first,) = job(stage).attempts
    assert (first.why, first.resized, first.lost) == ("3 -> 1 nodes", True, False)


def test_what_it_had_and_what_it_is_to_have_are_nobody_elses() -> None:
    stage = site("n0")
    to(stage, "n1", "n2")
    seen = stage.core.snapshot(stage.now_ns)
    assert not seen.jobs
    assert all(node.blocked == node.spec.cpus for node in seen.nodes)
    stage.submit("b", job_spec(1, 1))
    stage.need_plan()
    stage.plan(on("b", "n2:0"))
    assert stage.job("b").state is JobState.PENDING
    assert "n2 are assigned to another job" in stage.job("b").reason


def test_power_is_kept_for_the_larger_of_both_sizes() -> None:
    stage = site("n0")
    free_uw = stage.core.snapshot(stage.now_ns).spendable_uw
    to(stage, "n1", "n2")
    # 20 W above the floor on each of two nodes, and never the power of the first node in addition.
    assert stage.core.snapshot(stage.now_ns).spendable_uw == free_uw - 40 * W
    ends(stage, "n0")
    stage.launched("n1", "a")
    stage.launched("n2", "a")
    to(stage, "n0")
    assert stage.core.snapshot(stage.now_ns).spendable_uw == free_uw - 40 * W


def test_a_start_of_the_same_plan_gets_no_power_that_is_still_drawn() -> None:
    # Bases and floors are 60 W. Of the 45 W above them, job a has 40 W until it has ended.
    stage = site("n0", "n1", budget_w=105)
    stage.submit("b", job_spec(1, 1, unit=NODES))
    stage.need_plan()
    stage.plan(on("a", "n0", cap_w=30), on("b", "n2", cap_w=30))
    assert "5.00 W are available" in stage.job("b").reason
    ends(stage, "n0")
    ends(stage, "n1")
    stage.need_plan()
    stage.plan(on("b", "n2", cap_w=30))
    assert stage.job("b").state is JobState.STARTING


def test_caps_stay_until_the_old_processes_have_ended() -> None:
    stage = site("n0", "n1")
    for node in ("n0", "n1"):
        stage.confirm(node)
    assert not of(act.SetCaps, to(stage, "n2"))
    assert stage.charge_w("n0") == 40
    for node in ("n0", "n1"):
        lowered = of(act.SetCaps, ends(stage, node))
        assert [a.node_id for a in lowered] == [node], "where nothing of it runs any more"


def test_two_jobs_change_places() -> None:
    stage = site("n0")
    stage.submit("b", spec())
    start(stage, "b", "n1")
    stage.need_plan()
    stage.plan(on("a", "n1", cap_w=30), on("b", "n0", cap_w=30))
    assert {stage.job(name).state for name in "ab"} == {JobState.ENDING}
    assert not of(act.Launch, ends(stage, "n0"))
    assert job(stage).state is JobState.STARTING
    other = ended("b", 0, attempt=1, saving=Saving.SAVED)
    launched = of(act.Launch, stage.send(reports.ProcessEnded(node_id=NodeId("n1"), process=other)))
    assert {(a.job_id, a.node_id) for a in launched} == {("a", "n1"), ("b", "n0")}


def waiting_for_n1() -> Stage:
    """Job a without an attempt, assigned to n1, which job b has not left yet."""
    stage = site("n0")
    stage.submit("b", spec())
    start(stage, "b", "n1")
    stage.need_plan()
    stage.plan(on("a", "n1", cap_w=30), on("b", "n2", cap_w=30))
    ends(stage, "n0")
    return stage


def test_it_keeps_its_new_cores_until_it_has_them_whatever_is_planned() -> None:
    stage = waiting_for_n1()
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    assert view.current == job(stage).target
    assert not view.movable
    stage.submit("c", job_spec(1, 1))
    stage.need_plan()
    stage.plan(on("c", "n1:0"), on("a", "n0"))
    assert (job(stage).state, job(stage).target) == (JobState.STARTING, view.current)
    assert stage.job("c").state is JobState.PENDING


def test_without_its_new_node_it_waits_at_its_old_place() -> None:
    stage = waiting_for_n1()
    stage.submit("c", job_spec(1, 1))
    stage.silent("n1")
    stage.need_plan()
    stage.plan()
    assert job(stage).state is JobState.STARTING, "it may be back in a moment"
    stage.after(60)
    stage.need_plan()
    stage.plan()
    assert (job(stage).state, job(stage).target) == (JobState.PENDING, None)
    assert [v.job_id for v in stage.core.snapshot(stage.now_ns).jobs][:1] == ["a"]


def test_a_node_that_is_lost_before_the_old_attempt_has_ended() -> None:
    stage = site("n0")
    to(stage, "n0", "n1")
    stage.order("n1", NodeOrder.DRAIN)
    ends(stage, "n0")
    assert job(stage).state is JobState.PENDING
    assert "2 nodes, but node n1 is no longer available" in job(stage).reason
    assert job(stage).attempt == 2


@pytest.mark.parametrize(
    ("saving", "code", "state"),
    [
        (Saving.UNASKED, 0, JobState.COMPLETED),
        (Saving.UNSAVED, 0, JobState.COMPLETED),
        (Saving.SAVED, 0, JobState.STARTING),
        (Saving.UNKNOWN, 0, JobState.STARTING),
        (Saving.KILLED, 137, JobState.STARTING),
        (Saving.UNSAVED, 143, JobState.STARTING),
    ],
)
def test_a_program_that_ends_with_success_and_saves_nothing_has_finished(
    saving: Saving, code: int, state: JobState
) -> None:
    stage = site("n0", "n1")
    to(stage, "n0")
    ends(stage, "n1", saving, code)
    ends(stage, "n0", saving, code)
    assert job(stage).state is state
    assert job(stage).following is None


@pytest.mark.parametrize(
    ("of_host", "state"),
    [
        (Saving.UNASKED, JobState.COMPLETED),
        # The order reached the program through that host, because the launcher's agent was away.
        (Saving.UNSAVED, JobState.STARTING),
        (Saving.KILLED, JobState.STARTING),
        (Saving.UNKNOWN, JobState.STARTING),
    ],
)
def test_a_launcher_that_was_not_asked_has_finished_only_if_nobody_was(
    of_host: Saving, state: JobState
) -> None:
    stage = site("n0", "n1", own_launcher=True, snapshot_signal=10)
    to(stage, "n0")
    ends(stage, "n0", Saving.UNASKED)
    ends(stage, "n1", of_host)
    assert job(stage).state is state
    if state is JobState.STARTING:
        assert "it is unknown whether a snapshot was saved" in job(stage).attempts[0].why


def lost(stage: Stage, node: str) -> None:
    """The answer to the order to end the process is lost, and the order is repeated."""
    stage.send(
        reports.TerminateFailed(
            node_id=NodeId(node), job_id=JobId("a"), attempt=stage.attempt("a"), reason="no answer"
        )
    )
    stage.after(60)


def test_an_order_told_again_may_have_come_after_the_snapshot_it_asks_for() -> None:
    # n1 passed the order on at once, and n0's agent reads the snapshot folder only afterwards.
    stage = site("n0", "n1", own_launcher=True, snapshot_signal=10)
    to(stage, "n0")
    lost(stage, "n0")
    assert job(stage).ranks[NodeId("n0")].orders == 2
    ends(stage, "n0", Saving.UNSAVED)
    ends(stage, "n1", Saving.UNSAVED)
    assert job(stage).state is JobState.STARTING


def test_alone_on_its_node_nobody_else_has_told_it() -> None:
    stage = site("n0", snapshot_signal=10)
    to(stage, "n0", "n1")
    lost(stage, "n0")
    ends(stage, "n0", Saving.UNSAVED)
    assert job(stage).state is JobState.COMPLETED


@pytest.mark.parametrize("of_host", [Saving.SAVED, Saving.UNKNOWN])
def test_what_one_agent_saw_saved_another_may_have_looked_at_too_late(of_host: Saving) -> None:
    stage = site("n0", "n1", own_launcher=True, snapshot_signal=10)
    to(stage, "n0")
    ends(stage, "n0", Saving.UNSAVED)
    ends(stage, "n1", of_host)
    assert job(stage).state is JobState.STARTING


def test_ranks_of_which_one_was_not_asked_may_have_saved() -> None:
    stage = site("n0", "n1")
    to(stage, "n0")
    ends(stage, "n0", Saving.UNASKED)
    ends(stage, "n1", Saving.UNSAVED)
    assert job(stage).state is JobState.STARTING


def test_only_what_is_saved_counts_as_done() -> None:
    stage = site("n0")
    to(stage, "n0", total_s=100)  # The same nodes: no restart.
    assert job(stage).state is JobState.RUNNING
    stage.after(40)
    to(stage, "n0", "n1", total_s=50)
    ends(stage, "n0")
    assert job(stage).done == pytest.approx(0.4)
    stage.launched("n0", "a")
    stage.launched("n1", "a")
    stage.after(10)
    assert job(stage).done_by(stage.now_ns) == pytest.approx(0.6)
    to(stage, "n0", total_s=100)
    ends(stage, "n0", Saving.KILLED, 137)
    ends(stage, "n1")
    assert job(stage).done == pytest.approx(0.4)
    assert "resumes from its last snapshot" in job(stage).attempts[-1].why


def test_restarts_for_size_do_not_count_against_those_after_losses() -> None:
    stage = site("n0", requeue_max=1)
    for place in ("n1", "n0"):
        to(stage, place)
        ends(stage, "n0" if place == "n1" else "n1")
        stage.launched(place, "a")
    stage.send(reports.ProcessEnded(node_id=NodeId("n0"), process=ended("a", lost=True, attempt=3)))
    assert job(stage).state is JobState.PENDING
    assert [attempt.lost for attempt in job(stage).attempts] == [False, False, True]


def test_the_last_attempts_are_kept_for_losses() -> None:
    stage = site("n0", requeue_max=2)
    job(stage).attempt = ATTEMPTS_MAX - 2
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    assert not view.nodes_may_change
    to(stage, "n1")
    assert job(stage).state is JobState.RUNNING
    assert "keeps its size" in job(stage).reason


def test_a_time_limit_counts_on() -> None:
    stage = site("n0", limit_ns=100 * S)
    stage.after(60)
    to(stage, "n1")
    stage.after(5)
    ends(stage, "n0")
    stage.launched("n1", "a")
    stage.after(39)
    assert job(stage).state is JobState.RUNNING
    stage.after(2)
    assert job(stage).state is JobState.ENDING


def test_a_cancelled_job_is_not_started_again_and_keeps_nothing() -> None:
    stage = site("n0")
    to(stage, "n1", "n2")
    asked = of(act.Terminate, stage.cancel("a"))
    assert [(a.node_id, a.signal, a.saves) for a in asked] == [("n0", 0, False)]
    blocked = {n.spec.node_id: n.blocked for n in stage.core.snapshot(stage.now_ns).nodes}
    assert not blocked[NodeId("n1")]
    ends(stage, "n0")
    assert job(stage).state is JobState.CANCELLED


def test_a_launcher_that_has_saved_takes_its_step_hosts_along() -> None:
    stage = site("n0", "n1", own_launcher=True, snapshot_signal=10, snapshot_grace_ns=600 * S)
    to(stage, "n1")
    (again,) = of(act.Terminate, ends(stage, "n0"))
    assert (again.node_id, again.signal, again.grace_ns, again.saves) == ("n1", 0, 0, False)
    assert of(act.Launch, ends(stage, "n1", Saving.UNSAVED))
    assert job(stage).attempts[0].why == "2 -> 1 nodes"


def test_the_cost_is_learnt_for_the_application() -> None:
    stage = site("n0")

    def expected_s() -> float:
        (view,) = stage.core.snapshot(stage.now_ns).jobs
        return view.resize_ns / S

    assert expected_s() == UNSEEN_NS[RESTART] / S
    for number, seconds in enumerate((8, 16)):
        to(stage, f"n{number + 1}")
        stage.after(seconds - 1)
        ends(stage, f"n{number}")
        stage.after(1)
        stage.launched(f"n{number + 1}", "a")
    assert expected_s() == 12
    stage.send(ev.ProfileDropped(app="app"))
    assert expected_s() == UNSEEN_NS[RESTART] / S


def test_what_moves_by_a_restart_is_the_snapshot() -> None:
    stage = site("n0", "n1")
    to(stage, "n2")
    for node in ("n0", "n1"):
        ends(stage, node, snapshot_bytes=4096)
    stage.launched("n2", "a")
    (cost,) = stage.core.state.restarts.values()
    assert (cost.count, cost.moved_bytes, cost.moved_count) == (1, 4096, 1)
    # A snapshot that cannot be read gives no size.
    to(stage, "n0")
    ends(stage, "n2")
    stage.launched("n0", "a")
    (cost,) = stage.core.state.restarts.values()
    assert (cost.count, cost.moved_bytes, cost.moved_count) == (2, 4096, 1)


def test_what_the_program_does_again_is_part_of_it() -> None:
    stage = site("n0")
    to(stage, "n0", total_s=100)
    stage.send(ev.ProgressReported(job_id=JobId("a"), done=0.5))
    to(stage, "n1", total_s=100)
    stage.after(4)
    ends(stage, "n0")
    stage.launched("n1", "a")
    stage.after(3)
    stage.send(ev.ProgressReported(job_id=JobId("a"), done=0.41))
    stage.send(ev.ProgressReported(job_id=JobId("a"), done=0.2))
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    # Four seconds without the job, then three seconds to reach 9 s before its previous progress.
    assert view.resize_ns / S == pytest.approx(4 + 9 + 3)


def test_an_ordered_size_is_the_only_one_policies_see() -> None:
    stage = site("n0")
    assert solve(stage.core.state.rounds + 1) in ordered(stage, 2) or stage.core.state.solving
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    assert (view.spec.size_min, view.spec.size_max, view.size_asked) == (2, 2, 2)
    to(stage, "n0", "n1", "n2")
    assert "differs from the size set with `wattfold resize`, 2" in job(stage).reason
    to(stage, "n0", "n1")
    assert job(stage).state is JobState.ENDING
    ordered(stage, 0)
    assert job(stage).size_asked == 0


def test_orders_that_make_no_sense_are_dropped() -> None:
    stage = site("n0")
    ordered(stage, 4)
    assert job(stage).size_asked == 0
    stage.submit("b", job_spec(1, 4, mode=ResizeMode.FIXED))
    stage.send(ev.JobResizeRequested(job_id=JobId("b"), size=2))
    assert stage.job("b").size_asked == 0


def test_a_job_on_cores_goes_to_another_node() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    stage.submit("a", job_spec(1, 4, mode=RESTART))
    start(stage, "a", "n0:0-1")
    to(stage, "n1:0-2")
    (started,) = of(act.Launch, ends(stage, "n0"))
    assert (started.node_id, str(started.cpus), started.launch_cpus) == ("n1", "0-2", 3)


def test_a_checkpoint_of_before_and_one_of_the_middle() -> None:
    stage = site("n0")
    to(stage, "n1")
    state = stage.core.state
    assert codec.load_state(codec.dump_state(state)) == state
    stored = json.loads(codec.dump_state(state))
    stored.pop("restarts")
    for name in ("following", "size_asked", "ordered_ns", "saved", "told", "owed", "ran_ns"):
        stored["jobs"]["a"].pop(name)
    for attempt in stored["jobs"]["a"]["attempts"]:
        attempt.pop("resized")
    old = codec.load_state(json.dumps(stored))
    assert (old.jobs[JobId("a")].following, old.restarts) == (None, {})


def test_a_removed_node_is_no_place_for_the_next_attempt() -> None:
    """The order that ends the last process of an attempt also removes the node."""
    stage = site("n0", "n1")
    to(stage, "n0")
    ends(stage, "n1")
    stage.silent("n0")
    stage.order("n0", NodeOrder.FORGET_UNPOWERED)
    assert job(stage).state is JobState.PENDING
    assert "node n0 is no longer available" in job(stage).reason
