"""Nodes that sleep: orders, what they are charged, and boots that fail, come late or lie."""

from __future__ import annotations

import json

import pytest
from unit.core.stage import BASE_W, FLOOR_W, S, Stage, W, on

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import Node, NodeState
from wattfold.coordinator.core.model.node_power import PowerState, SleepSettings
from wattfold.coordinator.core.rules.nodes import node_orders, sleep
from wattfold.coordinator.core.state.state import CoreSettings

ASLEEP_W, BOOT_W, BOOT_S = 5, 40, 180
SETTINGS = CoreSettings(
    check_every=1,
    sleep=SleepSettings(
        asleep_uw=ASLEEP_W * W,
        boot_uw=BOOT_W * W,
        boot_ns=BOOT_S * S,
        suspend_ns=60 * S,
        boots_max=1,
    ),
)
IDLE_W = BASE_W + FLOOR_W


class Nodes(Stage):
    """A stage whose nodes can sleep."""

    def __init__(self, budget_w: float, *names: str) -> None:
        super().__init__(budget_w, start=False)
        self.core = CoordinatorCore(round(budget_w * W), SETTINGS)
        self.start()
        self.up(*names)

    def node(self, name: str) -> Node:
        return self.core.state.nodes[NodeId(name)]

    def power(self, name: str) -> PowerState:
        return self.node(name).power

    def charge_w(self, name: str) -> int:
        return self.core.state.ledger.accounts[NodeId(name)].charge_uw // W

    def switched(self, name: str, error: str = "") -> list[act.Action]:
        """Answer the pending order about the power of a node."""
        request = self.node(name).power_request
        assert request
        return self.send(
            reports.PowerAnswered(node_id=NodeId(name), request_id=request, error=error)
        )

    def asleep(self, name: str) -> None:
        """Let a node fall asleep."""
        self.order(name, NodeOrder.SLEEP)
        self.silent(name)
        self.switched(name)
        assert self.power(name) is PowerState.ASLEEP


def switches(actions: list[act.Action]) -> list[tuple[str, bool]]:
    return [(a.node_id, a.on) for a in actions if isinstance(a, act.SwitchPower)]


def test_a_node_is_charged_as_awake_until_it_is_seen_asleep() -> None:
    stage = Nodes(200, "n0")
    assert switches(stage.order("n0", NodeOrder.SLEEP)) == [("n0", False)]
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.FALLING, IDLE_W)
    stage.silent("n0")
    assert stage.charge_w("n0") == IDLE_W
    stage.switched("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.ASLEEP, ASLEEP_W)
    assert stage.core.state.floor_uw() == stage.core.state.index.fixed_uw == ASLEEP_W * W


def test_a_node_with_a_job_sleeps_after_the_job_and_takes_no_other() -> None:
    stage = Nodes(200, "n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3"))
    stage.launched("n0", "a")
    assert not switches(stage.order("n0", NodeOrder.SLEEP))
    assert "jobs on the node must end first: a" in sleep.obstacle(
        stage.core.state, stage.node("n0")
    )
    assert not stage.node("n0").takes_jobs
    assert switches(stage.process_ended("n0", "a")) == [("n0", False)]


def test_a_suspension_is_not_believed_while_the_agent_answers() -> None:
    stage = Nodes(200, "n0")
    stage.order("n0", NodeOrder.SLEEP)
    stage.switched("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.FALLING, IDLE_W)
    assert not switches(stage.after(9))
    assert switches(stage.after(1)) == [("n0", False)]


def test_the_power_of_a_boot_is_charged_before_the_order_and_released_by_the_report() -> None:
    stage = Nodes(200, "n0")
    stage.asleep("n0")
    assert switches(stage.order("n0", NodeOrder.WAKE)) == [("n0", True)]
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.BOOTING, BOOT_W)
    stage.switched("n0")
    assert stage.charge_w("n0") == BOOT_W
    stage.after(20)
    stage.connect("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.AWAKE, IDLE_W)
    assert stage.node("n0").boot_took_ns == 20 * S
    assert stage.node("n0").takes_jobs


def test_a_boot_waits_for_its_power_and_jobs_are_lowered_for_it() -> None:
    stage = Nodes(90, "n0", "n1")
    stage.asleep("n1")
    stage.submit("a")
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    assert stage.charge_w("n0") == 60
    assert not switches(stage.order("n1", NodeOrder.WAKE))
    assert "its boot needs 35.0 W more; 25.0 W" in sleep.obstacle(
        stage.core.state, stage.node("n1")
    )
    stage.caps_are("n0", 40)
    assert switches(stage.after(2)) == [("n1", True)], "once the window of the old cap is over"
    assert stage.core.state.ledger.committed_uw <= 90 * W


def test_so_many_nodes_boot_at_once() -> None:
    stage = Nodes(500, "n0", "n1")
    stage.asleep("n0")
    stage.asleep("n1")
    assert switches(stage.order("n0", NodeOrder.WAKE)) == [("n0", True)]
    assert not switches(stage.order("n1", NodeOrder.WAKE))
    assert "at most 1" in sleep.obstacle(stage.core.state, stage.node("n1"))
    assert switches(stage.connect("n0")) == [("n1", True)]


def test_a_boot_fits_every_announced_budget() -> None:
    stage = Nodes(200, "n0", "n1")
    stage.asleep("n1")
    stage.send(ev.BudgetAnnounced(at_ns=stage.now_ns + 900 * S, budget_uw=30 * W))
    assert not switches(stage.order("n1", NodeOrder.WAKE))
    assert "announced budget 1 of 30.0 W could not be kept" in sleep.obstacle(
        stage.core.state, stage.node("n1")
    )
    assert switches(stage.send(ev.BudgetCancelled(number=1))) == [("n1", True)]


def test_a_boot_that_fails_stays_charged_until_the_node_is_off() -> None:
    stage = Nodes(200, "n0")
    stage.asleep("n0")
    stage.order("n0", NodeOrder.WAKE)
    stage.switched("n0")
    assert not switches(stage.after(BOOT_S - 1))
    assert switches(stage.after(1)) == [("n0", False)]
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.FALLING, BOOT_W)
    assert stage.node("n0").failed_boots == 1
    assert "did not report within 180 s" in stage.node("n0").message
    stage.switched("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.ASLEEP, ASLEEP_W)


def test_a_boot_that_comes_late_is_charged_and_ends_again() -> None:
    stage = Nodes(200, "n0")
    stage.asleep("n0")
    stage.order("n0", NodeOrder.WAKE)
    stage.switched("n0")
    stage.after(BOOT_S)
    stage.connect("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.FALLING, IDLE_W)
    assert not stage.node("n0").takes_jobs
    stage.silent("n0")
    stage.switched("n0")
    assert (stage.power("n0"), stage.charge_w("n0")) == (PowerState.ASLEEP, ASLEEP_W)


def test_a_node_that_appears_is_admitted_within_the_budget() -> None:
    stage = Nodes(45, "n0", "n1")
    stage.asleep("n1")
    stage.submit("a")
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=30))
    stage.launched("n0", "a")
    stage.confirm("n0")
    assert stage.core.state.ledger.committed_uw == 45 * W
    stage.connect("n1")
    assert stage.power("n1") is PowerState.AWAKE
    assert stage.node("n1").state is NodeState.CONNECTING, "it waits until n0 makes room"
    stage.caps_are("n0", 15)
    stage.after(2)
    assert stage.node("n1").admitted
    assert stage.core.state.ledger.committed_uw <= 45 * W


def test_an_order_that_got_no_answer_is_repeated_after_a_restart() -> None:
    stage = Nodes(200, "n0", "n1")
    stage.asleep("n1")
    stage.order("n1", NodeOrder.WAKE)
    stage.order("n0", NodeOrder.SLEEP)
    stage.core.state = codec.load_state(json.loads(json.dumps(codec.dump_state(stage.core.state))))
    stage.core.begin_anew(stage.core.state)
    assert not switches(stage.start(epoch=2)), "nobody can carry it out yet"
    assert sorted(switches(stage.after(1))) == [("n0", False), ("n1", True)]
    assert stage.charge_w("n1") == BOOT_W


def test_a_failed_program_is_called_again() -> None:
    stage = Nodes(200, "n0")
    stage.order("n0", NodeOrder.SLEEP)
    stage.switched("n0", error="suspend: exit status 3")
    assert "exit status 3" in stage.node("n0").message
    assert not switches(stage.after(9))
    assert switches(stage.after(1)) == [("n0", False)]


def test_a_node_woken_while_it_falls_asleep_starts_again() -> None:
    stage = Nodes(200, "n0")
    stage.order("n0", NodeOrder.SLEEP)
    stage.order("n0", NodeOrder.WAKE)
    stage.silent("n0")
    assert switches(stage.switched("n0")) == [("n0", True)]


def test_a_sleeping_node_can_be_removed_and_drained_but_not_leave() -> None:
    stage = Nodes(200, "n0")
    stage.asleep("n0")
    assert "wake it first" in node_orders.refusal(stage.node("n0"), NodeOrder.LEAVE)
    stage.order("n0", NodeOrder.DRAIN)
    assert stage.charge_w("n0") == ASLEEP_W
    stage.order("n0", NodeOrder.FORGET_UNPOWERED)
    assert NodeId("n0") not in stage.core.state.ledger.accounts
    stage.connect("n0")
    assert stage.node("n0").duty.value == "returned"


@pytest.mark.parametrize("order", [NodeOrder.SLEEP, NodeOrder.WAKE])
def test_an_order_twice_is_one_order(order: NodeOrder) -> None:
    stage = Nodes(200, "n0")
    if order is NodeOrder.WAKE:
        stage.asleep("n0")
    assert len(switches(stage.order("n0", order))) == 1
    assert not switches(stage.order("n0", order))
