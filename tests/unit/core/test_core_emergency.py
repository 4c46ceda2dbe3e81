"""Emergencies: caps, suspended jobs, protected jobs, and their reversal."""

from __future__ import annotations

import pytest
from unit.core.stage import S, Stage, W, job_spec, on
from unit.core.test_core_announced import wait_until
from unit.core.test_core_sleep import ASLEEP_W, Nodes, switches

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.emergency import (
    EmergencyBegun,
    EmergencyEnded,
    EmergencyOrder,
    JobStep,
)
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.rules.power import emergency

PROTECTED = EmergencyOrder(queues=("urgent",))


def site(**protected: str) -> Stage:
    """Three nodes: `a` on n0 and `b` on n1, each at 50 W; the floors need 60 W, the rest 80 W."""
    stage = Stage(200)
    stage.up("n0", "n1", "n2")
    for job, node in (("a", "n0"), ("b", "n1")):
        stage.submit(job, job_spec(queue=protected.get(job, "")))
        stage.plan(
            *(
                on(one, f"{at}:0-3", cap_w=50)
                for one, at in (("a", "n0"), ("b", "n1"))
                if one <= job
            )
        )
        stage.launched(node, job)
        stage.confirm(node)
    assert stage.core.state.ledger.committed_uw == 140 * W
    return stage


def begin(stage: Stage, limit_w: float, order: EmergencyOrder = PROTECTED) -> None:
    stage.send(EmergencyBegun(limit_uw=round(limit_w * W), order=order))
    settle(stage)


def settle(stage: Stage, seconds: float = 3) -> None:
    wait_until(stage, stage.now_ns + round(seconds * S))


def committed_w(stage: Stage) -> float:
    return stage.core.state.ledger.committed_uw / W


def short_w(stage: Stage) -> float:
    assert stage.core.state.emergency is not None
    return stage.core.state.emergency.short_uw / W


def test_a_limit_above_the_floors_lowers_caps_and_stops_nothing() -> None:
    stage = site()
    begin(stage, 100)
    assert committed_w(stage) <= 100
    assert {stage.job(job).state for job in "ab"} == {JobState.RUNNING}
    assert short_w(stage) == 0
    stage.send(EmergencyEnded())
    settle(stage)
    assert committed_w(stage) == 140
    assert stage.core.state.emergency is None


def test_nodes_of_protected_jobs_are_lowered_last() -> None:
    stage = site(a="urgent")
    begin(stage, 100)
    assert (stage.charge_w("n0"), stage.charge_w("n1")) == (60, 20)
    begin(stage, 80)
    assert (stage.charge_w("n0"), stage.charge_w("n1")) == (40, 20)


def test_a_limit_below_the_floors_suspends_all_jobs_that_are_not_protected() -> None:
    stage = site(a="urgent")
    begin(stage, 30)
    assert committed_w(stage) == 60
    assert short_w(stage) == 30
    assert stage.job("a").state is JobState.RUNNING
    assert stage.job("b").state is JobState.SUSPENDED
    assert emergency.STOPPED in stage.job("b").reason
    stage.send(EmergencyEnded())
    assert stage.job("b").state is JobState.RUNNING
    settle(stage)
    assert committed_w(stage) == 140


def test_a_job_that_its_user_suspended_stays_suspended_at_the_end() -> None:
    stage = site()
    stage.send(ev.JobSuspendRequested(job_id=JobId("b")))
    begin(stage, 30)
    stage.send(EmergencyEnded())
    assert stage.job("a").state is JobState.RUNNING
    assert stage.job("b").state is JobState.SUSPENDED


def test_a_user_cannot_resume_what_the_emergency_suspended() -> None:
    stage = site()
    begin(stage, 30)
    assert "by an emergency" in emergency.resume_refusal(stage.core.state, stage.job("a"))
    stage.send(ev.JobResumeRequested(job_id=JobId("a")))
    assert stage.job("a").state is JobState.SUSPENDED


def test_no_job_starts_below_the_floors_not_even_of_a_plan_on_its_way() -> None:
    stage = site()
    stage.submit("c")
    number = stage.core.state.solving
    assert number
    begin(stage, 30)
    actions = stage.plan(
        on("a", "n0:0-3", cap_w=50),
        on("b", "n1:0-3", cap_w=50),
        on("c", "n2:0-3", cap_w=50),
        number=number,
    )
    assert not any(isinstance(action, act.Launch) for action in actions)
    assert stage.job("c").state is JobState.PENDING
    stage.submit("d")
    assert not stage.core.state.solving
    assert any(isinstance(action, act.Solve) for action in stage.send(EmergencyEnded()))


def test_a_higher_limit_replaces_a_lower_one_and_resumes_jobs() -> None:
    stage = site()
    begin(stage, 30)
    assert stage.job("a").state is JobState.SUSPENDED
    begin(stage, 100)
    assert stage.job("a").state is JobState.RUNNING
    assert committed_w(stage) <= 100


@pytest.mark.parametrize(("requested_s", "expected_s"), [(5, 5), (0, 9)])
def test_jobs_with_snapshots_are_ended_if_the_order_says_so(
    requested_s: int, expected_s: int
) -> None:
    stage = Stage(200)
    stage.up("n0")
    stage.submit("a", job_spec(restartable=True, snapshot_grace_ns=requested_s * S))
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    order = EmergencyOrder(jobs=JobStep.END)
    found = emergency.forecast(stage.core.state, 5 * W, order, 9 * S)
    assert (found.ended, found.grace_ns, found.suspended) == (("a",), expected_s * S, ())
    begin(stage, 5, order)
    assert stage.job("a").state is JobState.ENDING
    stage.process_ended("n0", "a")
    assert stage.job("a").state is JobState.PENDING
    assert emergency.STOPPED in stage.job("a").reason


def test_a_forecast_says_what_then_happens() -> None:
    for limit_w in (150, 120, 80, 30):
        stage = site(a="urgent")
        found = emergency.forecast(stage.core.state, limit_w * W, PROTECTED, 0)
        begin(stage, limit_w)
        assert committed_w(stage) <= found.caps_uw / W
        assert short_w(stage) == found.short_uw / W
        suspended = tuple(j for j in "ab" if stage.job(j).state is JobState.SUSPENDED)
        assert suspended == found.suspended
        slowed = tuple(
            job
            for job, node in (("a", "n0"), ("b", "n1"))
            if job not in suspended and stage.charge_w(node) < 60
        )
        assert slowed == found.slowed
        assert found.protected == ("a",)


def test_a_lower_budget_in_between_changes_nothing_and_the_limits_are_both_kept() -> None:
    stage = site()
    begin(stage, 100)
    stage.budget(90, deadline_s=5)
    settle(stage)
    assert committed_w(stage) <= 90
    stage.send(EmergencyEnded())
    settle(stage)
    assert committed_w(stage) <= 90


def test_an_emergency_survives_the_journal() -> None:
    stage = site(a="urgent")
    begin(stage, 30)
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.emergency == stage.core.state.emergency
    assert loaded.ledger.limit_uw == 30 * W
    event = EmergencyBegun(limit_uw=1, order=PROTECTED)
    assert codec.load_event(*codec.dump_event(event)) == event


def test_nodes_without_jobs_sleep_and_wake_at_the_end() -> None:
    stage = Nodes(200, "n0", "n1", "n2")
    stage.submit("a", job_spec(restartable=True))
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    order = EmergencyOrder(jobs=JobStep.END)
    found = emergency.forecast(stage.core.state, 25 * W, order, 0)
    assert found.asleep == ("n0", "n1", "n2")
    assert found.asleep_uw == 3 * ASLEEP_W * W
    actions = stage.send(EmergencyBegun(limit_uw=25 * W, order=order))
    assert switches(actions) == [("n1", False), ("n2", False)]
    for name in ("n1", "n2"):
        stage.silent(name)
        stage.switched(name)
    assert stage.core.state.ledger.committed_uw > 25 * W
    assert switches(stage.process_ended("n0", "a")) == [("n0", False)]
    stage.silent("n0")
    stage.switched("n0")
    assert stage.core.state.ledger.committed_uw == 3 * ASLEEP_W * W
    assert stage.core.state.ledger.breaches == 0
    assert stage.core.state.emergency is not None
    assert stage.core.state.emergency.slept == ("n1", "n2", "n0")
    stage.send(EmergencyEnded())
    assert {node.power for node in stage.core.state.nodes.values()} <= {
        PowerState.CALLED,
        PowerState.BOOTING,
    }


def test_a_node_that_an_operator_put_to_sleep_stays_asleep_at_the_end() -> None:
    stage = Nodes(200, "n0", "n1")
    stage.asleep("n0")
    stage.send(EmergencyBegun(limit_uw=15 * W))
    stage.send(EmergencyEnded())
    assert stage.power("n0") is PowerState.ASLEEP
    assert stage.power("n1") is not PowerState.ASLEEP
