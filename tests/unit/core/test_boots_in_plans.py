"""Nodes that boot or fall asleep in plans, and spare nodes beside them."""

from __future__ import annotations

from dataclasses import replace

from unit.core.decided_stage import (
    ASLEEP,
    ASLEEP_W,
    AWAKE,
    BOOT_S,
    BOOT_W,
    BOOTING,
    FALLING,
    SLEEP,
    Decided,
)
from unit.core.sleep_settings import S, W
from unit.core.stage import planning_round

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.node_power import PowerPlan
from wattfold.coordinator.core.model.plan import Plan, Waiting
from wattfold.coordinator.core.rules.nodes import decided_sleep
from wattfold.coordinator.policies.driver.node_sleep import with_sleep


def test_a_boot_takes_no_power_from_plans_but_from_other_boots() -> None:
    stage = Decided(500, 2)
    stage.decide()
    before_uw = stage.core.snapshot(stage.now_ns).spendable_uw
    stage.send(ev.SpareNodesKept(nodes=1))
    stage.decide()
    assert stage.powers.count(BOOTING) == 1
    assert stage.core.snapshot(stage.now_ns).spendable_uw == before_uw
    assert decided_sleep.passing_uw(stage.core.state) == (BOOT_W - ASLEEP_W) * W


def test_a_job_gets_the_node_that_is_up_first() -> None:
    stage = Decided(500, 3)
    stage.decide()
    stage.order("n1", NodeOrder.WAKE)
    stage.decide()
    assert stage.powers == [ASLEEP, BOOTING, ASLEEP]
    stage.now_ns += 10 * S
    nodes = [view.spec.node_id for view in stage.core.snapshot(stage.now_ns).nodes]
    assert nodes == ["n1", "n0", "n2"]
    stage.whole("a")
    stage.decide()
    target = stage.job("a").target
    assert target is not None
    assert [share.node_id for share in target.shares] == ["n1"]


def test_a_job_starts_on_a_node_that_falls_asleep() -> None:
    stage = Decided(500, 1)
    stage.need_plan()
    world = stage.core.snapshot(stage.now_ns)
    plan = with_sleep(Plan(assignments=()), world, stage.core.state, stage.now_ns)
    stage.send(ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving)))
    assert stage.power("n0") is FALLING
    stage.whole("a")
    stage.need_plan()
    plan = one_plan(stage)
    stage.send(ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving)))
    target = stage.job("a").target
    assert target is not None
    assert [share.node_id for share in target.shares] == ["n0"]
    assert not stage.job("a").ranks
    state = stage.core.state
    expected_ns = decided_sleep.expected_boot_ns(state)
    up_ns = decided_sleep.up_from_ns(state, state.nodes[NodeId("n0")], stage.now_ns, expected_ns)
    assert up_ns == stage.now_ns + SLEEP.suspend_ns + SLEEP.boot_ns
    stage.fall_asleep()
    assert stage.power("n0") is BOOTING
    stage.boot("n0")
    assert stage.job("a").ranks


def test_a_job_that_waits_for_a_boot_keeps_a_node_that_falls_silent() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a", 2)
    stage.decide()
    stage.boot("n0")
    stage.silent("n0")
    stage.decide()
    assert stage.job("a").state is JobState.STARTING
    assert stage.power("n1") is BOOTING


def test_expected_starts_contain_the_boots_of_their_nodes() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a", 2)
    start_ns = stage.now_ns + 1000 * S
    waits = Waiting(job_id=JobId("a"), reason="", start_ns=start_ns)
    world = stage.core.snapshot(stage.now_ns)
    plan = Plan(assignments=(), waiting=(waits,))
    (shown,) = with_sleep(plan, world, stage.core.state, stage.now_ns).waiting
    assert shown.start_ns >= start_ns + BOOT_S * S
    promise = Promise(start_ns=start_ns, nodes=(NodeId("n0"), NodeId("n1")))
    plan = Plan(assignments=(), waiting=(replace(waits, promise=promise),))
    (shown,) = with_sleep(plan, world, stage.core.state, stage.now_ns).waiting
    assert shown.start_ns == start_ns, "its nodes boot before"


def one_plan(stage: Decided) -> Plan:
    """Return the next plan; it is not carried out."""
    world = stage.core.snapshot(stage.now_ns)
    plan = stage.policy.propose(world, stage.now_ns, 5.0)
    return with_sleep(plan, world, stage.core.state, stage.now_ns)


def test_a_plan_that_starts_a_job_wakes_the_next_spare_node() -> None:
    stage = Decided(500, 3)
    stage.decide()
    stage.whole("a")
    stage.decide()
    stage.boot("n0")
    stage.runs("a")
    stage.decide()
    assert stage.power("n1") is BOOTING, "a spare node for jobs like this"
    stage.boot("n1")
    stage.whole("b")
    plan = one_plan(stage)
    assert [str(share.node_id) for share in plan.assignments[-1].shares] == ["n1"]
    assert plan.power.wakes == ("n2",)


def test_no_spare_node_boots_while_a_job_waits_for_its_boot() -> None:
    stage = Decided(500, 3)
    stage.decide()
    stage.whole("a")
    plan = one_plan(stage)
    assert len(plan.assignments) == 1
    assert not plan.power.wakes
    stage.decide()
    assert stage.powers.count(BOOTING) == 1
    assert not one_plan(stage).power.wakes


def test_nodes_needed_with_a_booting_node_stay_needed_until_it_is_up() -> None:
    stage = Decided(500, 2)
    stage.decide()
    for node in ("n0", "n1"):
        stage.order(node, NodeOrder.WAKE)
        stage.order(node, NodeOrder.DECIDE)
    stage.boot("n0")
    assert stage.power("n1") is BOOTING
    stage.now_ns += 1000 * S
    stage.core.state.needed_awake = (NodeId("n0"), NodeId("n1"))
    power = one_plan(stage).power
    assert power.needed == (NodeId("n0"), NodeId("n1"))
    assert not power.sleeps
    stage.core.state.nodes[NodeId("n1")].power = AWAKE
    assert one_plan(stage).power.sleeps


def test_a_spare_node_waits_for_the_boot_of_another() -> None:
    stage = Decided(500, 5, boots_max=1)
    stage.decide()
    stage.whole("a", 2)
    stage.decide()
    stage.boot("n0")
    stage.boot("n1")
    stage.runs("a")
    stage.decide()
    assert stage.powers.count(BOOTING) == 1
    assert not one_plan(stage).power.wakes
    stage.boot("n2")
    assert one_plan(stage).power.wakes == ("n3",)


def test_a_late_plan_puts_no_node_with_a_job_to_sleep() -> None:
    stage = Decided(500, 1)
    stage.decide()
    stage.whole("a")
    stage.decide()
    stage.boot("n0")
    stage.runs("a")
    late = PowerPlan(sleeps=(NodeId("n0"),))
    assert not decided_sleep.judged(stage.core.state, late, (), stage.now_ns).sleeps
