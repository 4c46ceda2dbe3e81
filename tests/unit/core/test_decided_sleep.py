"""Sleep that is decided with plans: the same rules after every policy of the service."""

from __future__ import annotations

import pytest
from unit.core.decided_stage import (
    ASLEEP,
    ASLEEP_W,
    AWAKE,
    BOOT_S,
    BOOT_W,
    BOOTING,
    CALLED,
    FALLING,
    FULL_W,
    Decided,
)
from unit.core.sleep_settings import S, W
from unit.core.stage import MAX_W

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.emergency import (
    EmergencyBegun,
    EmergencyEnded,
    EmergencyOrder,
    JobStep,
)
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.rules.nodes import decided_sleep
from wattfold.coordinator.policies import registry

POLICIES = [name for name in registry.service_names() if name not in ("andreas", "edf", "priority")]


@pytest.mark.parametrize("policy", POLICIES)
def test_idle_nodes_sleep_and_a_job_wakes_its_node_and_starts_there(policy: str) -> None:
    stage = Decided(500, 3, policy)
    stage.decide()
    assert stage.powers == [ASLEEP] * 3
    stage.whole("a")
    stage.decide()
    assert stage.job("a").state is JobState.STARTING
    assert not stage.job("a").ranks
    assert stage.powers.count(BOOTING) == 1
    (share,) = stage.job("a").target.shares  # type: ignore[union-attr]
    stage.decide()
    assert stage.job("a").target.shares == (share,), "it keeps its node"  # type: ignore[union-attr]
    stage.boot(share.node_id)
    assert list(stage.job("a").ranks) == [share.node_id]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_plan_uses_the_power_of_idle_nodes(policy: str) -> None:
    # Three nodes at full power need 180 W. Two at full power, with one asleep, need 124 W.
    stage = Decided(2 * FULL_W + ASLEEP_W, 3, policy)
    stage.whole("a")
    stage.whole("b")
    stage.decide()
    started = [job for job in ("a", "b") if stage.job(job).state is JobState.STARTING]
    assert started == ["a", "b"]
    targets = [job.target for job in stage.core.state.placed() if job.target]
    full = all(target.cap_uw == MAX_W * W for target in targets)
    assert stage.powers.count(ASLEEP) == full, "lower caps leave the power of an idle node"


def test_without_the_setting_nothing_sleeps() -> None:
    stage = Decided(500, 3, decides=False)
    stage.whole("a")
    stage.decide()
    stage.awake("n0", "n1", "n2")


def test_a_failed_boot_puts_the_job_on_another_node_and_the_node_is_not_used_again() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a")
    stage.decide()
    stage.switched("n0")
    stage.after(BOOT_S)
    assert stage.power("n0") is FALLING
    stage.switched("n0")
    stage.decide()
    assert (stage.power("n0"), stage.power("n1")) == (ASLEEP, BOOTING)
    stage.boot("n1")
    assert list(stage.job("a").ranks) == ["n1"]
    assert not decided_sleep.comes(stage.core.state, stage.core.state.nodes[NodeId("n0")])
    stage.order("n0", NodeOrder.WAKE)
    assert stage.power("n0") is BOOTING


def test_orders_of_operators_win() -> None:
    stage = Decided(500, 3)
    stage.order("n0", NodeOrder.WAKE)
    stage.order("n1", NodeOrder.SLEEP)
    stage.fall_asleep()
    stage.decide()
    stage.awake("n0")
    stage.whole("a", 3)
    stage.decide()
    assert stage.job("a").state is JobState.PENDING, "n1 stays asleep"
    stage.order("n1", NodeOrder.DECIDE)
    stage.decide()
    assert stage.job("a").state is JobState.STARTING


def test_so_many_nodes_stay_awake_by_order() -> None:
    stage = Decided(500, 3)
    stage.decide()
    stage.send(ev.SpareNodesKept(nodes=2))
    stage.decide()
    for name in ("n0", "n1"):
        stage.boot(name)
    stage.after(3600)
    stage.decide()
    stage.awake("n0", "n1")
    stage.send(ev.SpareNodesKept(nodes=0))
    stage.decide()
    stage.awake()


def test_a_node_rests_after_a_boot_unless_its_power_is_needed() -> None:
    stage = Decided(2 * FULL_W + ASLEEP_W, 3)
    stage.decide()
    stage.send(ev.SpareNodesKept(nodes=3))
    stage.decide()
    stage.boot("n0")
    stage.boot("n1")
    stage.decide()
    stage.boot("n2")
    stage.send(ev.SpareNodesKept(nodes=0))
    plan = stage.decide()
    stage.awake("n0", "n1", "n2")
    assert plan.revisit_ns == stage.now_ns + 300 * S
    stage.whole("a", 2)
    stage.decide()
    stage.awake("n0", "n1")
    assert stage.job("a").state is JobState.STARTING


def test_a_node_that_booted_often_stays_awake_for_the_day() -> None:
    stage = Decided(500, 1, boots_a_day=1)
    stage.decide()
    stage.send(ev.SpareNodesKept(nodes=1))
    stage.decide()
    stage.boot("n0")
    stage.send(ev.SpareNodesKept(nodes=0))
    stage.after(3600)
    stage.decide()
    stage.awake("n0")
    stage.after(86_400)
    stage.decide()
    stage.awake()


def test_boots_follow_each_other_within_the_ramp() -> None:
    stage = Decided(500, 2, ramp_uw=W)
    stage.decide()
    stage.whole("a", 2)
    stage.decide()
    assert sorted(power.value for power in stage.powers) == ["booting", "to-wake"]
    stage.after(BOOT_W - ASLEEP_W - 1)
    assert stage.powers.count(BOOTING) == 1
    stage.after(1)
    assert stage.powers.count(BOOTING) == 2


def long_job(nodes: int, boots_max: int = 2) -> Decided:
    """Let a job run on n0 for 1000 s. The node n1 is up for jobs to come, and the others sleep."""
    stage = Decided(500, nodes, "conservative", boots_max=boots_max)
    stage.decide()
    stage.whole("long", 1, 1000)
    stage.decide()
    stage.boot("n0")
    stage.runs("long")
    stage.decide()
    stage.boot("n1")
    stage.decide()
    stage.awake("n0", "n1")
    return stage


def test_nodes_of_a_planned_start_are_up_in_time() -> None:
    stage = long_job(3)
    stage.whole("wide", 3, 1000)
    plan = stage.decide()
    promise = stage.job("wide").promise
    assert promise is not None
    while stage.power("n2") is ASLEEP:
        assert stage.now_ns < plan.revisit_ns <= promise.start_ns - BOOT_S * S
        stage.now_ns = plan.revisit_ns
        plan = stage.decide()
    stage.boot("n2")
    stage.decide()
    assert NodeId("n2") in stage.core.state.needed_awake
    stage.awake("n0", "n1", "n2")


def test_nodes_of_a_planned_start_that_boot_one_at_a_time_begin_earlier() -> None:
    stage = long_job(4, boots_max=1)
    stage.whole("wide", 4, 1000)
    plan = stage.decide()
    promise = stage.job("wide").promise
    assert promise is not None
    assert stage.now_ns < plan.revisit_ns <= promise.start_ns - 2 * BOOT_S * S
    while BOOTING not in stage.powers:
        assert stage.now_ns < plan.revisit_ns
        stage.now_ns = plan.revisit_ns
        plan = stage.decide()
    assert stage.now_ns <= promise.start_ns - 2 * BOOT_S * S


def test_a_start_whose_boot_would_delay_a_planned_start_waits() -> None:
    stage = long_job(4)
    stage.whole("wide", 4, 1000)
    stage.decide()
    assert stage.job("wide").promise is not None
    stage.whole("filler", 1, 900)
    stage.decide()
    stage.whole("late", 1, 1000 - BOOT_S / 2)
    stage.whole("early", 1, 300)
    stage.decide()
    assert stage.job("late").state is JobState.PENDING
    assert "would delay the planned start" in stage.job("late").reason
    assert stage.job("early").state is JobState.STARTING


def test_a_restart_of_the_coordinator_keeps_the_start_and_its_boot() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a")
    stage.decide()
    stage.start(epoch=2)
    stage.after(1)
    assert stage.power("n0") is BOOTING
    stage.decide()
    assert stage.job("a").state is JobState.STARTING
    stage.boot("n0")
    assert list(stage.job("a").ranks) == ["n0"]


def test_a_job_that_is_cancelled_in_a_boot_leaves_a_node_that_sleeps_again() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a")
    stage.decide()
    stage.cancel("a")
    assert stage.job("a").state is JobState.CANCELLED
    stage.boot("n0")
    stage.after(300)
    stage.decide()
    assert JobId("a") in stage.core.state.jobs
    assert stage.power("n0") in (ASLEEP, AWAKE)


def test_an_emergency_comes_first_and_the_next_plans_wake_what_they_need() -> None:
    stage = Decided(500, 3)
    stage.send(ev.SpareNodesKept(nodes=2))
    stage.decide()
    stage.awake("n0", "n1")
    order = EmergencyOrder(jobs=JobStep.SUSPEND)
    stage.send(EmergencyBegun(limit_uw=20 * W, order=order))
    stage.fall_asleep()
    stage.awake()
    state = stage.core.state
    assert "emergency" in decided_sleep.reason(state, state.nodes[NodeId("n0")], ())
    stage.send(EmergencyEnded())
    assert stage.powers == [ASLEEP] * 3
    stage.decide()
    assert stage.powers.count(BOOTING) == 2


def test_a_boot_waits_for_an_announced_budget_and_its_job_keeps_its_node() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.send(ev.BudgetAnnounced(at_ns=stage.now_ns + 9000 * S, budget_uw=30 * W))
    stage.whole("a", 1, 100)
    stage.decide()
    assert stage.powers.count(CALLED) == 1
    assert stage.powers.count(BOOTING) == 0
    stage.send(ev.BudgetCancelled(number=1))
    assert stage.powers.count(BOOTING) == 1


def test_nodes_of_a_reservation_are_up_at_its_start() -> None:
    stage = Decided(500, 2)
    stage.decide()
    start_ns = stage.now_ns + 2000 * S
    stage.send(
        ev.ReservationMade(
            reservation=Reservation(
                name="course", nodes=(NodeId("n1"),), start_ns=start_ns, end_ns=start_ns + 99 * S
            )
        )
    )
    plan = stage.decide()
    stage.awake()
    assert stage.now_ns < plan.revisit_ns <= start_ns - BOOT_S * S
    stage.now_ns = plan.revisit_ns
    stage.decide()
    stage.boot("n1")
    stage.after(600)
    stage.decide()
    stage.awake("n1")


def test_a_job_that_waits_for_a_boot_keeps_its_node_when_another_is_up() -> None:
    stage = Decided(500, 2)
    stage.decide()
    stage.whole("a")
    stage.decide()
    assert stage.power("n0") is BOOTING
    stage.order("n1", NodeOrder.WAKE)
    stage.boot("n1")
    stage.decide()
    target = stage.job("a").target
    assert target is not None
    assert [share.node_id for share in target.shares] == ["n0"]
