"""Power of nodes outside the ledger is shown, reserved, and accepted only by an operator."""

from __future__ import annotations

import logging

import pytest
from unit.core.stage import Stage, W, caps, on

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.budget_alarm import BudgetAlarm
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.site_messages import node_message, power_message
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.budgets import budget_refusal, outsiders_uw
from wattfold.coordinator.core.model import events as ev
from wattfold.v1 import coordinator_pb2 as pb

N1 = NodeId("n1")


def small(budget_w: float = 35) -> Stage:
    """Two nodes with a minimum of 20 W each. Only one of them fits into the budget."""
    stage = Stage(budget_w)
    stage.up("n0")
    stage.register("n1")
    stage.connect("n1")
    return stage


def power(stage: Stage) -> pb.Power:
    return power_message(stage.core.state, Observations(), Clock(), "test")


def test_what_a_refused_node_draws_is_in_the_power() -> None:
    found = power(small())
    assert (found.committed_uw, found.outside_uw, found.over_uw) == (20 * W, 20 * W, 5 * W)
    assert list(found.outside_node_ids) == ["n1"]
    assert (
        node_message(small().core.state, small().core.state.nodes[N1], None, ()).outside_uw
        == 20 * W
    )


def test_limits_a_refused_node_really_holds_count_not_its_floor() -> None:
    stage = Stage(35)
    stage.up("n0")
    stage.register("n1")
    assert stage.connect("n1", cap_w=50) == [caps("n1", 10)]
    assert power(stage).outside_uw == 60 * W
    stage.caps_are("n1", 10)
    assert power(stage).outside_uw == 20 * W


def test_room_is_kept_for_what_is_drawn_outside() -> None:
    """n1 was removed as unpowered but answers: n0 does not get its watts."""
    stage = Stage(70)
    stage.up("n0", "n1")
    stage.silent("n1")
    stage.order("n1", ev.NodeOrder.FORGET_UNPOWERED)
    stage.run_job("a", "n0:0-3", cap_w=50)
    assert stage.committed_w == 60
    assert caps("n0", 40) in stage.connect("n1", 10)
    stage.caps_are("n0", 40)
    stage.after(1)
    assert stage.committed_w + power(stage).outside_uw / W == 70
    stage.budget(71)
    assert power(stage).over_uw == 0


def test_no_plan_spends_what_is_drawn_outside() -> None:
    stage = small(35)
    stage.submit("a")
    stage.need_plan()
    assert stage.core.snapshot(stage.now_ns).spendable_uw <= 0
    stage.plan(on("a", "n0:0-3", cap_w=25))
    assert "W are available" in stage.job("a").reason


def test_a_budget_that_does_not_hold_them_is_refused_or_accepted_by_a_word() -> None:
    stage = small()
    state = stage.core.state
    assert budget_refusal(state, 36 * W, accept_outside=False) == (
        "budget 36.0 W is below 40.0 W: the nodes in use need at least 20.0 W, and nodes "
        "outside the ledger (n1) may draw 20.0 W. Give at least 40.0 W, or accept this "
        "power with --accept-outside"
    )
    assert budget_refusal(state, 40 * W, accept_outside=False) == ""
    assert budget_refusal(state, 36 * W, accept_outside=True) == ""
    assert "or remove nodes that are off" in budget_refusal(state, 19 * W, accept_outside=True)
    stage.send(ev.BudgetChanged(budget_uw=36 * W, accepted_outside_uw=outsiders_uw(state)))
    found = power(stage)
    assert (found.outside_uw, found.outside_accepted_uw, found.over_uw) == (20 * W, 20 * W, 0)
    assert stage.core.snapshot(stage.now_ns).spendable_uw == 16 * W


def test_a_first_start_with_too_small_a_budget_says_so(caplog: pytest.LogCaptureFixture) -> None:
    stage = small()
    told = BudgetAlarm(lambda: stage.now_ns)
    with caplog.at_level(logging.WARNING):
        told.look(stage.core.state)
        told.look(stage.core.state)
        stage.budget(40)
        told.look(stage.core.state)
    assert [record.message.split()[0] for record in caplog.records] == [
        "event=over_budget",
        "event=over_budget_ended",
    ]
    assert "over_w=5.0" in caplog.text
    assert "--accept-outside" in caplog.text


def test_a_node_never_heard_of_is_named() -> None:
    stage = Stage(100)
    stage.up("n0")
    stage.register("n1")
    assert list(power(stage).unheard_node_ids) == ["n1"]
