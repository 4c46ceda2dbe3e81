"""An operator can give up jobs and power of a dead node, and remove nodes from service."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from unit.core.stage import Stage, W, caps, leave, reading, renew, running, terminate

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.copies.node_views import ending_reason
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.requests.budgets import budget_refusal
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node import Duty
from wattfold.coordinator.core.rules.nodes import leave as leaving
from wattfold.coordinator.core.rules.nodes import node_orders
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power

N0, N1 = NodeId("n0"), NodeId("n1")


def two(budget_w: float = 200, cap_w: float = 50) -> Stage:
    """Job a on all of n0 at a cap; n1 is idle."""
    stage = Stage(budget_w)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=cap_w)
    return stage


def duty(stage: Stage, node: NodeId) -> Duty:
    return stage.core.state.nodes[node].duty


# A dead node.


def test_a_job_on_a_dead_node_says_why_it_does_not_end_and_ends_by_force() -> None:
    stage = two()
    stage.silent("n0")
    stage.cancel("a")
    job = stage.job("a")
    assert job.state is JobState.ENDING
    why = ending_reason(stage.core.state, job)
    assert why.startswith("waits for n0: cut.")
    assert "`wattfold cancel --force a`" in why
    stage.cancel("a", force=True)
    assert job.state is JobState.CANCELLED
    assert stage.charge_w("n0") == 60, "the node is charged until it is heard of or forgotten"
    assert stage.core.state.occupied(N0), "and its cores are given to nobody"


def test_a_job_that_was_given_up_is_ended_where_its_node_comes_back() -> None:
    stage = two()
    stage.silent("n0")
    stage.cancel("a", force=True)
    assert terminate("n0", "a") in stage.connect("n0", 50, (running("a", "0-3"),))
    assert stage.core.state.occupied(N0)
    stage.process_ended("n0", "a", 143)
    assert not stage.core.state.occupied(N0)


def test_a_node_without_power_frees_its_charge_and_its_job_is_lost() -> None:
    stage = two()
    assert "it has power" in node_orders.refusal(
        stage.core.state.nodes[N0], NodeOrder.FORGET_UNPOWERED
    )
    stage.silent("n0")
    stage.order("n0", NodeOrder.FORGET_UNPOWERED, "cable is out")
    assert stage.committed_w == 20
    assert stage.job("a").state is JobState.LOST
    assert stage.job("a").message == "its node n0 was removed from the ledger: cable is out"
    assert unaccounted_power(stage.core.state).drawn_uw == 0


def test_a_forgotten_node_that_comes_back_waits_for_an_operator() -> None:
    stage = two()
    stage.silent("n0")
    stage.order("n0", NodeOrder.FORGET_UNPOWERED)
    out = stage.connect("n0", 50, (running("a", "0-3"),))
    assert out == [caps("n0", 10)], "lowered, no lease, its process not ended"
    assert duty(stage, N0) is Duty.RETURNED
    assert N0 not in stage.core.state.ledger.accounts
    assert unaccounted_power(stage.core.state).drawn_uw == 60 * W
    stage.caps_are("n0", 10)
    stage.after(100)
    assert N0 not in stage.core.state.ledger.accounts
    out = stage.order("n0", NodeOrder.RESUME)
    assert replace(terminate("n0", "a"), attempt=0) in out, "of whichever attempt it is"
    assert renew("n0") in out
    assert stage.charge_w("n0") == 20


def test_a_node_that_was_forgotten_and_resumed_is_admitted_with_the_caps_it_holds() -> None:
    stage = two(budget_w=80)
    stage.silent("n0")
    stage.order("n0", NodeOrder.FORGET_UNPOWERED)
    stage.budget(75)
    stage.connect("n0", 50)
    stage.order("n0", NodeOrder.RESUME)
    assert N0 not in stage.core.state.ledger.accounts, "60 W do not fit beside 20 W"
    stage.caps_are("n0", 10)
    stage.after(2)
    assert stage.charge_w("n0") == 20


# Leaving.


def test_a_draining_node_keeps_its_jobs_and_gets_no_new_ones() -> None:
    stage = two()
    stage.order("n1", NodeOrder.DRAIN, "new memory")
    stage.order("n0", NodeOrder.DRAIN)
    seen = stage.core.snapshot(stage.now_ns)
    assert [view.spec.node_id for view in seen.nodes] == [N0], "n1 is empty"
    assert not seen.nodes[0].blocked & seen.jobs[0].current.on(N0)
    assert not seen.jobs[0].movable
    assert stage.charge_w("n1") == 20
    stage.order("n1", NodeOrder.RESUME)
    assert len(stage.core.snapshot(stage.now_ns).nodes) == 2


def test_original_limits_are_charged_before_the_node_gets_them() -> None:
    stage = two()
    assert leave("n1") in stage.order("n1", NodeOrder.LEAVE)
    assert stage.charge_w("n1") == 60
    stage.left("n1")
    assert duty(stage, N1) is Duty.LEFT
    stage.after(100)
    assert stage.charge_w("n1") == 60


def test_a_node_leaves_after_its_jobs_and_when_there_is_room() -> None:
    stage = two(budget_w=100)
    out = stage.order("n1", NodeOrder.LEAVE)
    assert caps("n0", 30) in out, "the others make room for it"
    assert duty(stage, N1) is Duty.LEAVING
    assert leaving.obstacle(stage.core.state, stage.core.state.nodes[N1]) == (
        "restoring its original limits needs 40.0 W more; 20.0 W of the budget are free"
    )
    stage.caps_are("n0", 30)
    assert stage.after(1) == [leave("n1")]
    assert stage.committed_w == 100


def test_a_leave_without_an_answer_stays_charged_and_is_repeated() -> None:
    stage = two()
    stage.order("n1", NodeOrder.LEAVE)
    stage.leave_failed("n1")
    assert stage.charge_w("n1") == 60
    assert leave("n1") in stage.after(1)
    stage.start(2)
    assert stage.charge_w("n1") == 60, "also over a restart of the coordinator"
    stage.after(60)
    assert stage.charge_w("n1") == 60, "a lease that ends lowers nothing there"
    stage.connect("n1", 50, left=True)
    assert duty(stage, N1) is Duty.LEFT


def test_an_agent_that_says_it_has_not_left_is_told_again() -> None:
    stage = two()
    stage.order("n1", NodeOrder.LEAVE)
    stage.silent("n1")
    stage.connect("n1", 10)
    assert duty(stage, N1) is Duty.LEAVING
    assert leave("n1") not in stage.leased("n1"), "the first one may still arrive"
    assert caps("n1", 10) in stage.after(10), "asked once more what it holds"
    stage.caps_are("n1", 10)
    assert leave("n1") in stage.leased("n1")


def test_a_node_that_has_left_is_resumed_floors_first() -> None:
    stage = two()
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    assert stage.order("n1", NodeOrder.RESUME) == [renew("n1"), caps("n1", 10)]
    assert stage.charge_w("n1") == 60
    stage.caps_are("n1", 10)
    stage.after(1)
    assert stage.charge_w("n1") == 20


@pytest.mark.parametrize("silent_first", [True, False])
def test_a_node_that_has_left_and_is_resumed_out_of_reach_stays_charged(silent_first: bool) -> None:
    """No lease lowers its original limits before it has connected."""
    stage = two()
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    if silent_first:
        stage.silent("n1")
    stage.order("n1", NodeOrder.RESUME)
    if not silent_first:
        stage.silent("n1")
    stage.after(60)
    assert stage.charge_w("n1") == 60
    assert "below 80.0 W" in budget_refusal(stage.core.state, 80 * W - 1, False)
    assert not budget_refusal(stage.core.state, 80 * W, False)
    stage.core.state = codec.load_state(codec.dump_state(stage.core.state))
    stage.start(2)
    stage.after(60)
    assert stage.charge_w("n1") == 60, "also over a restart of the coordinator"
    stage.order("n1", NodeOrder.LEAVE)
    stage.order("n1", NodeOrder.RESUME)
    stage.after(60)
    assert stage.charge_w("n1") == 60
    stage.connect("n1", 50, left=True)
    assert not budget_refusal(stage.core.state, 40 * W, False), "it is lowered now"
    stage.leased("n1", 10)
    stage.silent("n1")
    stage.after(60)
    stage.after(1)
    assert stage.charge_w("n1") == 20, "a lease that has held lowers them when it ends"


def test_limits_that_were_told_are_charged_and_not_the_greatest_cap() -> None:
    stage = Stage(200)
    stage.register("n0")
    told = reports.ZoneReading(zone=reading(10).zone, cap_uw=10 * W, original_uw=35 * W)
    stage.connect("n0")
    node = stage.core.state.nodes[N0]
    stage.send(reports.NodeConnected(spec=node.spec, caps=(told,), processes=()))
    stage.leased("n0")
    assert stage.order("n0", NodeOrder.LEAVE) == [leave("n0")]
    assert stage.charge_w("n0") == 45


def test_forgetting_is_for_nodes_that_are_out() -> None:
    stage = two()
    node = stage.core.state.nodes[N1]
    assert "has not left" in node_orders.refusal(node, NodeOrder.FORGET_OUTSIDE)
    stage.order("n1", NodeOrder.FORGET_OUTSIDE)
    assert stage.charge_w("n1") == 20, "an order that is refused does nothing"
    stage.order("n1", NodeOrder.LEAVE)
    stage.left("n1")
    stage.order("n1", NodeOrder.FORGET_OUTSIDE, "goes to the other cluster")
    assert N1 not in stage.core.state.ledger.accounts
    found = unaccounted_power(stage.core.state)
    assert (found.drawn_uw, found.accepted_uw, found.over_uw) == (60 * W, 60 * W, 0)
    stage.after(100)
    stage.silent("n1")
    stage.connect("n1", 50, left=True)
    assert duty(stage, N1) is Duty.OUTSIDE


def test_a_checkpoint_of_before_is_read() -> None:
    stage = two()
    old = json.loads(codec.dump_state(stage.core.state))
    del old["accepted_outside_uw"]
    for node in old["nodes"].values():
        for name in ("duty", "duty_reason", "leave_from_ns", "original_uw"):
            del node[name]
    assert codec.load_state(json.dumps(old)) == stage.core.state
