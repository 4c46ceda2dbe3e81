"""Zones that exceed their caps: the charge in the ledger, and its effect on other nodes."""

from __future__ import annotations

import pytest
from unit.core.stage import (
    CHECKED,
    LEASE_NS,
    MAX_W,
    PACKAGE,
    S,
    Stage,
    W,
    caps,
    node_spec,
    on,
)

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.adapters.copies.site_messages import node_message
from wattfold.coordinator.adapters.journal.codec import dump_state, load_state
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node import NodeState
from wattfold.coordinator.core.power.ledger import PowerLedger

N0, N1 = NodeId("n0"), NodeId("n1")
HELD_AGAIN_S = 5


def measured(stage: Stage, node: str, power_w: float | None) -> list[act.Action]:
    powers = () if power_w is None else ((PACKAGE, round(power_w * W)),)
    return stage.send(reports.CapsNotHeld(node_id=NodeId(node), powers_uw=powers))


def two_busy(budget_w: float = 120) -> Stage:
    """Nodes n0 and n1 with a job each, at 30 W."""
    stage = Stage(budget_w)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=30)
    stage.run_job("b", "n1:0-3", cap_w=30)
    assert stage.committed_w == 80
    return stage


@pytest.mark.parametrize(("power_w", "charged_w"), [(35, MAX_W), (MAX_W, MAX_W), (64, 64)])
def test_it_is_charged_with_what_was_measured_or_its_most(power_w, charged_w) -> None:
    stage = two_busy()
    measured(stage, "n0", power_w)
    assert stage.charge_w("n0") == 10 + charged_w
    assert stage.charge_w("n1") == 40


def test_the_others_make_room_for_it() -> None:
    stage = two_busy(budget_w=95)
    sent = measured(stage, "n0", 40)
    # 95 W minus 60 W of n0 and the minimum 20 W of n1 leave 15 W above n1's floor.
    assert [a for a in sent if isinstance(a, act.SetCaps) and a.node_id == N1] == [caps("n1", 25)]
    ledger = stage.core.state.ledger
    assert (ledger.in_breach, ledger.breaches) == (True, 1)
    stage.caps_are("n1", 25)
    stage.after(1.1)
    assert not ledger.in_breach
    assert stage.committed_w == 95


def test_nothing_is_raised_into_what_it_may_draw() -> None:
    stage = Stage(100)
    stage.up("n0", "n1")
    measured(stage, "n0", 40)
    assert stage.committed_w == 60 + 20
    stage.submit("b")
    stage.need_plan()
    stage.plan(on("b", "n1:0-3", cap_w=MAX_W))
    assert stage.job("b").state is JobState.PENDING
    stage.run_job("c", "n1:0-3", cap_w=30)
    assert stage.committed_w == 100


def test_it_is_charged_for_a_while_after_it_holds_a_cap_again() -> None:
    stage = two_busy()
    measured(stage, "n0", 40)
    measured(stage, "n0", None)
    stage.after(HELD_AGAIN_S - 0.1)
    assert stage.charge_w("n0") == 60
    stage.after(0.2)
    assert stage.charge_w("n0") == 40


def test_one_that_fails_again_in_time_is_never_charged_less() -> None:
    stage = two_busy()
    measured(stage, "n0", 64)
    measured(stage, "n0", None)
    stage.after(3)
    measured(stage, "n0", 40)
    assert stage.charge_w("n0") == 74
    stage.after(3)
    assert stage.charge_w("n0") == 60


def test_an_agent_that_was_started_again_has_not_seen_it_yet() -> None:
    stage = two_busy()
    measured(stage, "n0", 40)
    stage.silent("n0")
    stage.connect("n0")
    assert stage.charge_w("n0") == 60
    measured(stage, "n0", 40)
    stage.after(HELD_AGAIN_S + 1)
    assert stage.charge_w("n0") == 60


def test_a_node_that_comes_with_one_is_charged_at_once() -> None:
    stage = Stage(100)
    stage.register("n0")
    over = reports.ZoneReading(zone=PACKAGE, cap_uw=10 * W, not_held_uw=70 * W)
    stage.send(reports.NodeConnected(spec=node_spec(), caps=(over,), processes=()))
    assert stage.charge_w("n0") == 80


def test_one_that_does_not_fit_is_refused_until_it_holds_its_cap() -> None:
    stage = Stage(75)
    stage.register("n0")
    over = reports.ZoneReading(zone=PACKAGE, cap_uw=10 * W, not_held_uw=70 * W)
    stage.send(reports.NodeConnected(spec=node_spec(), caps=(over,), processes=()))
    assert stage.core.state.nodes[N0].state is NodeState.REFUSED
    measured(stage, "n0", None)
    assert stage.core.state.nodes[N0].state is NodeState.UP


def test_a_lease_that_ended_does_not_make_it_hold_its_floor() -> None:
    stage = two_busy()
    measured(stage, "n0", 40)
    stage.silent("n0")
    stage.after(LEASE_NS / S + 10)
    stage.after(10)
    assert stage.core.state.nodes[N0].state is NodeState.DOWN
    assert stage.charge_w("n0") == 60


def test_people_are_told_which_zone_and_what_it_costs() -> None:
    stage = two_busy()
    measured(stage, "n0", 64)
    node = stage.core.state.nodes[N0]
    message = node_message(stage.core.state, node, None, ())
    assert message.message == "package-0 exceeds its cap and is charged with 64.0 W"
    measured(stage, "n0", None)
    assert node_message(stage.core.state, node, None, ()).message == ""


def test_it_survives_a_checkpoint() -> None:
    stage = two_busy()
    measured(stage, "n0", 64)
    restored = load_state(dump_state(stage.core.state))
    assert restored.ledger.accounts[N0].charge_uw == 74 * W
    assert restored.nodes[N0].not_held_uw == {PACKAGE: 64 * W}
    again = CoordinatorCore(120 * W, CHECKED)
    for event, now_ns in stage.history:
        again.handle(event, now_ns)
    assert dump_state(again.state) == dump_state(stage.core.state)


def test_of_a_node_that_is_not_there_nothing_is_charged() -> None:
    stage = Stage(100)
    assert measured(stage, "n9", 40) == []
    stage.register("n0")
    assert measured(stage, "n0", 40) == []
    stage.connect("n0")
    stage.send(reports.CapsNotHeld(node_id=N0, powers_uw=((ZoneName("gone"), 90 * W),)))
    assert stage.charge_w("n0") == 20


def test_the_ledger_counts_the_higher_of_cap_and_overdraw() -> None:
    power = PowerLedger(budget_uw=100)
    power.open(N0, 10, {PACKAGE: 20})
    power.overdraw(N0, {PACKAGE: 50}, settled_ns=5)
    assert power.committed_uw == power.recounted_uw() == 60
    assert power.increase_uw(N0, {PACKAGE: 50}) == 0
    power.send(N0, {PACKAGE: 60})
    assert power.committed_uw == 70
    power.confirm(N0, PACKAGE, 20, settled_ns=0, now_ns=1)
    power.settle(1)
    assert power.committed_uw == 60
    power.overdraw(N0, {}, settled_ns=5)
    power.settle(4)
    assert power.committed_uw == 60
    assert power.next_settling_ns(4) == 5
    power.settle(5)
    assert power.committed_uw == 30
    power.overdraw(N1, {PACKAGE: 50}, settled_ns=5)
    assert power.committed_uw == 30
