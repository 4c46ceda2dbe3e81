"""The ramp limit: committed power rises step by step, and whatever nobody chose is counted."""

from __future__ import annotations

import pytest
from unit.core.sleep_settings import S, W
from unit.core.stage import NODES, PACKAGE, Stage, caps, job_spec, node_spec, on, reading

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.configuration import RampConfigured
from wattfold.coordinator.core.model.emergency import EmergencyBegun, EmergencyOrder
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.core.power.ledger import LedgerError
from wattfold.coordinator.core.power.ramp import Division, Pace, Ramp

N0 = NodeId("n0")


def ramped(rise_w: float = 1, step_w: float = 10, budget_w: float = 1000) -> Stage:
    """Two idle nodes of 20 W each under a ramp limit, and no command in flight."""
    stage = Stage(budget_w, start=False)
    stage.start(lease_ns=3600 * S)
    stage.up("n0", "n1")
    limits = RampLimits(rise_uw_per_s=round(rise_w * W), step_uw=round(step_w * W))
    stage.send(RampConfigured(limits=limits))
    return stage


def start(stage: Stage, job: str, place: str) -> None:
    """Start a job at 50 W a package; nothing is confirmed."""
    stage.run_job(job, place)


def rising_w(stage: Stage, node: str = "n0") -> float:
    return stage.core.state.nodes[NodeId(node)].rising_uw / W


# The pace


def test_an_amount_may_rise_by_a_step_and_then_with_the_rate() -> None:
    pace = Pace(rate_uw_per_s=2 * W, step_uw=10 * W)
    assert pace.room_uw(0) == 10 * W
    pace.note(10 * W)
    assert pace.room_uw(10 * W) == 0
    pace.pass_time(3 * S)
    assert pace.room_uw(10 * W) == 6 * W
    pace.pass_time(60 * S)
    assert pace.room_uw(10 * W) == 10 * W, "time that was not used gives no second step"


def test_a_fall_lowers_what_is_permitted() -> None:
    pace = Pace(rate_uw_per_s=2 * W, step_uw=10 * W, low_uw=50 * W, last_uw=50 * W)
    pace.note(20 * W)
    assert pace.room_uw(20 * W) == 10 * W


def test_no_time_is_lost_to_rounding() -> None:
    pace = Pace(rate_uw_per_s=1000, step_uw=W)
    pace.note(W)
    for at_ms in range(1, 10_000):
        pace.pass_time(at_ms * 100_000)
    assert pace.low_uw == 999


def test_a_rise_is_permitted_in_steps() -> None:
    pace = Pace(rate_uw_per_s=W, step_uw=10 * W)
    assert pace.part_uw(0, 30 * W) == 10 * W
    assert pace.part_uw(4 * W, 30 * W) == 0, "less than a step waits"
    assert pace.part_uw(4 * W, 5 * W) == 5 * W, "unless it is the whole rise"
    assert pace.next_ns(4 * W, 30 * W) == 4 * S
    assert Pace().part_uw(0, 30 * W) == 30 * W


def test_the_fall_of_power_is_the_rise_of_its_negative() -> None:
    ramp = Ramp()
    ramp.limit(RampLimits(fall_uw_per_s=W, step_uw=5 * W), 100 * W, S)
    assert ramp.fall.room_uw(-100 * W) == 5 * W
    ramp.note(95 * W)
    ramp.pass_time(4 * S)
    assert ramp.fall.room_uw(-95 * W) == 3 * W


def test_the_default_step_is_ten_seconds_of_the_rate() -> None:
    ramp = Ramp()
    ramp.limit(RampLimits(rise_uw_per_s=3 * W), 0, 0)
    assert ramp.rise.step_uw == 30 * W


def test_another_rate_keeps_what_was_counted() -> None:
    ramp = Ramp()
    ramp.limit(RampLimits(rise_uw_per_s=W, step_uw=10 * W), 0, 0)
    ramp.note(10 * W)
    ramp.limit(RampLimits(rise_uw_per_s=2 * W, step_uw=10 * W), 10 * W, S)
    assert ramp.rise.room_uw(10 * W) == 0


def test_what_a_share_leaves_goes_to_the_next() -> None:
    division = Division(needed_uw=40, granted_uw=20)
    assert division.share_uw(30) == 15
    division.take(30, 10)
    assert division.share_uw(10) == 10


# Caps


def test_a_started_job_gets_its_power_step_by_step() -> None:
    stage = ramped()
    start(stage, "a", "n0:0-3")
    assert stage.charge_w("n0") == 30
    assert rising_w(stage) == 30
    assert stage.wake_ns == 10 * S
    assert stage.after(9) != [caps("n0", 30)]
    out = stage.after(1)
    assert caps("n0", 30) in out
    stage.confirm("n0")
    for cap_w in (40, 50):
        assert caps("n0", cap_w) in stage.after(10)
        stage.confirm("n0")
    assert rising_w(stage) == 0


def test_the_nodes_of_a_job_rise_together() -> None:
    stage = ramped(step_w=20)
    stage.submit("a", job_spec(unit=NODES))
    stage.need_plan()
    stage.plan(on("a", "n0", "n1"))
    assert stage.launched("n0", "a") == [caps("n0", 30)]
    stage.confirm("n0")
    assert stage.launched("n1", "a") == []
    # 20 W of the 60 W that both need.
    assert stage.after(20) == [caps("n0", 36.625), caps("n1", 23.375)]


def test_a_node_that_appears_is_counted_and_not_limited() -> None:
    stage = ramped()
    stage.register("n2")
    stage.connect("n2", cap_w=50)
    assert stage.charge_w("n2") == 60
    start_w = stage.committed_w
    stage.leased("n2", 50)
    assert start_w == 100
    assert stage.core.state.ledger.free_uw == 0
    stage.after(50)
    assert stage.core.state.ledger.free_uw == 0, "its 60 W are counted"
    stage.after(3)
    assert stage.core.state.ledger.free_uw == 3 * W


def test_a_lower_budget_and_a_higher_one_after_it() -> None:
    stage = ramped(rise_w=1, step_w=40, budget_w=100)
    start(stage, "a", "n0:0-3")
    assert stage.charge_w("n0") == 60
    stage.after(60)
    assert caps("n0", 30) in stage.budget(60, deadline_s=10)
    stage.confirm("n0")
    stage.after(1)
    assert stage.committed_w == 60
    # All of it fits into a step.
    assert caps("n0", 50) in stage.budget(100)


def test_the_ledger_refuses_a_rise_above_the_ramp_limit() -> None:
    stage = ramped()
    with pytest.raises(LedgerError, match="exceeds the free 10000000 uW"):
        stage.core.state.ledger.send(N0, {PACKAGE: 21 * W})


def test_a_restart_does_not_reset_the_ramp() -> None:
    stage = ramped()
    start(stage, "a", "n0:0-3")
    low_uw = stage.core.state.ledger.ramp.rise.low_uw
    stage.now_ns += 2 * S
    stage.start(epoch=2)
    assert stage.core.state.ledger.ramp.rise.low_uw == low_uw + 2 * W
    assert stage.core.state.ledger.free_uw == 2 * W


def test_a_lost_node_that_returns_does_not_reset_the_ramp() -> None:
    stage = ramped()
    start(stage, "a", "n0:0-3")
    stage.silent("n0")
    stage.after(1)
    stage.send(reports.NodeConnected(spec=node_spec("n0"), caps=(reading(20),), processes=()))
    assert stage.core.state.ledger.free_uw == W


# The fall


def falling(fall_w: float = 1, step_w: float = 10, budget_w: float = 1000) -> Stage:
    """A job at 50 W on n0 and an idle n1, under a limit of the fall."""
    stage = ramped(rise_w=1000, step_w=1000, budget_w=budget_w)
    start(stage, "a", "n0:0-3")
    limits = RampLimits(fall_uw_per_s=round(fall_w * W), step_uw=round(step_w * W))
    stage.send(RampConfigured(limits=limits))
    return stage


def lowered(stage: Stage, cap_w: float) -> list[act.Action]:
    """Plan the job with a lower cap."""
    stage.need_plan()
    return stage.plan(on("a", "n0:0-3", cap_w=cap_w))


def test_a_plan_lowers_caps_step_by_step() -> None:
    stage = falling()
    assert lowered(stage, 20) == [caps("n0", 40)]
    stage.confirm("n0")
    assert stage.after(1) == []
    assert stage.committed_w == 70
    assert stage.wake_ns == stage.now_ns + 10 * S
    assert caps("n0", 30) in stage.after(10)
    stage.confirm("n0")
    stage.after(1)
    assert stage.committed_w == 60
    assert caps("n0", 20) in stage.after(10)


def test_the_caps_of_an_idle_node_fall_step_by_step() -> None:
    stage = falling()
    assert caps("n0", 40) in stage.process_ended("n0", "a")


def test_a_lower_budget_does_not_wait_for_the_ramp() -> None:
    stage = falling()
    assert lowered(stage, 20) == [caps("n0", 40)]
    stage.confirm("n0")
    assert caps("n0", 20) in stage.budget(60, deadline_s=10)


def test_an_emergency_does_not_wait_for_the_ramp() -> None:
    stage = falling()
    begun = EmergencyBegun(limit_uw=45 * W, order=EmergencyOrder())
    assert caps("n0", 15) in stage.send(begun)


def test_held_caps_fall_at_once_if_another_job_needs_their_power() -> None:
    stage = falling(budget_w=80)
    assert caps("n0", 40) in stage.process_ended("n0", "a")
    stage.confirm("n0")
    stage.submit("b")
    stage.need_plan()
    stage.plan(on("b", "n1:0-3"))
    assert caps("n0", 10) in stage.launched("n1", "b") + stage.after(0)
