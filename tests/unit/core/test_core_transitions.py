"""Execution of plans: lower, confirm, wait a window, raise; vacate cores, confirm, reassign."""

from __future__ import annotations

import pytest
from unit.core.stage import (
    NODES,
    Stage,
    W,
    caps,
    job_spec,
    launch,
    mask,
    on,
    planning_round,
    reading,
    renew,
    solve,
)

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode


def test_a_start_asks_for_nothing_while_no_node_is_there() -> None:
    stage = Stage(start=False)
    assert stage.start() == []
    stage.register("n0")
    assert stage.submit("a") == []


def test_contact_asks_for_a_lease_and_a_plan() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("a")
    assert stage.connect("n0") == [renew("n0"), solve(1)]
    assert stage.charge_w("n0") == 20


def test_contact_without_jobs_needs_no_plan() -> None:
    stage = Stage()
    stage.register("n0")
    assert stage.connect("n0") == [renew("n0")]


def test_an_unknown_node_is_not_taken_in() -> None:
    stage = Stage()
    assert stage.connect("nobody") == []
    assert not stage.core.state.nodes


def test_caps_rise_when_a_process_is_there_that_would_lower_them() -> None:
    stage = Stage()
    stage.up("n0")
    assert stage.submit("a") == [solve(1)]
    assert stage.plan(on("a", "n0:0-1", cap_w=30)) == [launch("n0", "a", "0-1")]
    assert stage.launched("n0", "a") == [caps("n0", 20)]
    assert stage.charge_w("n0") == 30, "a cap on its way is charged"
    assert stage.job("a").state is JobState.RUNNING
    assert stage.caps_are("n0", 20) == []


def test_no_cap_is_raised_without_a_lease() -> None:
    stage = Stage()
    stage.register("n0")
    stage.connect("n0")
    stage.submit("a")
    assert stage.plan(on("a", "n0:0-3")) == [launch("n0", "a", "0-3")]
    assert stage.launched("n0", "a") == []
    assert stage.leased("n0") == [caps("n0", 50)]


def test_a_rigid_job_is_launched_with_the_cores_it_has() -> None:
    stage = Stage()
    stage.up("n0")
    spec = job_spec(2, 2, kind=JobKind.RIGID)
    stage.submit("a", spec)
    out = stage.plan(on("a", "n0:0-1", cap_w=10))
    assert out == [launch("n0", "a", "0-1", spec=spec, launch_cpus=2)]


def test_power_moves_by_lowering_confirming_waiting_and_only_then_raising() -> None:
    stage = Stage(budget_w=80)  # Two nodes of 20 W idle leave 40 W for jobs.
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=50)
    stage.submit("b")
    out = stage.plan(on("a", "n0:0-3", cap_w=20), on("b", "n1:0-3", cap_w=40))
    assert out == [caps("n0", 20), launch("n1", "b", "0-3")]
    assert stage.launched("n1", "b") == []
    assert stage.committed_w == 80
    assert stage.caps_are("n0", 20) == []
    assert stage.committed_w == 80, "the old cap counts for one more window"
    assert stage.after(0.999) == []
    assert stage.after(0.001) == [caps("n1", 40)]
    assert stage.committed_w == 80


def test_a_shrink_is_confirmed_before_the_cores_go_to_another_job() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.submit("b")
    out = stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3"))
    assert out == [mask("n0", "a", "0-1")]
    assert stage.job("b").state is JobState.STARTING
    assert stage.job("a").resizes == 1
    assert stage.mask_is("n0", "a", "0-1") == [launch("n0", "b", "2-3")]


def test_cores_that_a_job_does_not_leave_are_not_given_away() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.submit("b")
    assert stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3")) == [mask("n0", "a", "0-1")]
    assert stage.mask_is("n0", "a", "0-2") == []
    assert stage.job("b").state is JobState.STARTING
    assert stage.job("a").reason == "its threads have not left CPUs 2 of n0"
    # The question is repeated after a while, and then the job has left.
    assert stage.after(0.5) == []
    assert stage.after(0.5) == [mask("n0", "a", "0-1")]
    assert stage.mask_is("n0", "a", "0-1") == [launch("n0", "b", "2-3")]
    assert stage.job("a").reason == ""


def test_a_node_cannot_say_that_a_job_is_on_cores_it_never_held() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.run_job("b", "n0:2-3")
    stage.need_plan()
    assert stage.plan(on("a", "n0:0"), on("b", "n0:2-3"))[-1] == mask("n0", "a", "0")
    stage.mask_is("n0", "a", "0,2-3")
    assert stage.job("a").ranks[NodeId("n0")].occupied == CpuSet.parse("0")


def test_a_grow_takes_cores_once_the_other_has_left_them() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.run_job("b", "n0:2-3")
    stage.need_plan()
    assert stage.plan(on("a", "n0:0-2"), on("b", "n0:3")) == [mask("n0", "b", "3")]
    assert stage.mask_is("n0", "b", "3") == [mask("n0", "a", "0-2")]


def test_a_move_gives_cores_before_it_takes_others() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.need_plan()
    assert stage.plan(on("a", "n0:1-2")) == [mask("n0", "a", "1")]
    assert stage.mask_is("n0", "a", "1") == [mask("n0", "a", "1-2")]
    assert stage.mask_is("n0", "a", "1-2") == []


def test_a_failed_mask_leaves_both_sets_held_and_is_tried_again() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1")
    stage.submit("b")
    stage.plan(on("a", "n0:1"), on("b", "n0:0"))
    failed = reports.MaskFailed(
        node_id=NodeId("n0"), job_id=stage.job("a").job_id, reason="no answer"
    )
    assert stage.send(failed) == []
    assert str(stage.job("a").ranks[NodeId("n0")].occupied) == "0-1"
    assert stage.after(1) == [mask("n0", "a", "1")]
    assert stage.mask_is("n0", "a", "1") == [launch("n0", "b", "0")]


def test_fixed_mode_keeps_its_cores() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-1", mode=ResizeMode.FIXED)
    stage.need_plan()
    assert stage.plan(on("a", "n0:0-3")) == []
    assert stage.job("a").target == on("a", "n0:0-1")


def test_all_ranks_of_a_job_are_launched_and_it_runs_when_all_do() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    spec = job_spec(2, 2, unit=NODES, kind=JobKind.RIGID)
    stage.submit("a", spec)
    out = stage.plan(on("a", "n0", "n1", cap_w=10))
    assert out == [
        launch("n0", "a", "0-3", spec=spec, rank=0, ranks=2),
        launch("n1", "a", "0-3", spec=spec, rank=1, ranks=2),
    ]
    stage.launched("n1", "a")
    assert stage.job("a").state is JobState.STARTING
    stage.launched("n0", "a")
    assert stage.job("a").state is JobState.RUNNING


def test_a_plan_of_another_round_is_ignored() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    assert stage.plan(on("a", "n0:0-1"), number=7) == []
    assert stage.job("a").state is JobState.PENDING
    assert stage.plan(on("a", "n0:0-1", cap_w=10)) == [launch("n0", "a", "0-1")]


def test_what_happens_during_a_round_asks_for_the_next_one() -> None:
    stage = Stage()
    stage.up("n0")
    assert stage.submit("a") == [solve(1)]
    assert stage.submit("b") == []
    assert stage.plan(on("a", "n0:0", cap_w=10)) == [launch("n0", "a", "0"), solve(2)]


def test_a_failed_round_is_repeated() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    failed = ev.PlanFailed(round=planning_round(1), reason="crashed")
    assert stage.send(failed) == []
    assert stage.job("a").reason == "no plan: crashed"
    assert stage.after(1) == [solve(2)]


def test_a_start_that_the_next_plan_drops_waits_again() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.submit("b")
    stage.plan(on("a", "n0:0-1"), on("b", "n0:2-3"))
    stage.need_plan()
    assert stage.plan(on("a", "n0:0-1")) == [caps("n0", 30)]
    assert stage.job("b").state is JobState.PENDING
    assert stage.job("b").target is None


def test_answers_to_older_requests_change_nothing() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3"))
    stage.launched("n0", "a")
    before = stage.charge_w("n0")
    for event in (
        reports.CapsAnswered(node_id=NodeId("n0"), request_id="old", caps=(reading(10),)),
        reports.CapsUnconfirmed(node_id=NodeId("n0"), request_id="old", reason="x"),
        reports.LeaseRenewed(node_id=NodeId("n0"), request_id="old", caps=(reading(10),)),
        reports.LeaseUnconfirmed(node_id=NodeId("n0"), request_id="old", reason="x"),
    ):
        assert stage.send(event) == []
    assert stage.charge_w("n0") == before == 60
    assert stage.core.state.nodes[NodeId("n0")].caps_request


def test_a_zone_that_rounds_down_is_not_asked_without_end() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", cap_w=40))
    stage.launched("n0", "a")
    assert stage.caps_are("n0", 39.9) == []
    assert stage.charge_w("n0") == pytest.approx(50)


def test_scaled_caps_are_ones_a_zone_can_hold() -> None:
    stage = Stage(budget_w=100)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-2", cap_w=50)
    stage.run_job("b", "n1:0-2", cap_w=50)
    stage.budget(100 - 7)
    wanted = stage.core.state.ledger.accounts[NodeId("n0")].zones["package-0"].pending_uw
    assert wanted is not None
    assert wanted % 125_000 == 0
    assert wanted <= (10 + 53 / 2) * W
