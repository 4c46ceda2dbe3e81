"""The budget with nodes that fall silent, refuse, return with new hardware, and after restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.core.stage import (
    CHECKED,
    LEASE_NS,
    PACKAGE,
    TIMEOUT_NS,
    Stage,
    W,
    caps,
    job_spec,
    mask,
    node_spec,
    on,
    package,
    reading,
    renew,
    running,
    solve,
    terminate,
)

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node import NodeState, Zone, ZoneKind
from wattfold.coordinator.core.state.state import CoreSettings

N0, N1 = NodeId("n0"), NodeId("n1")
SLACK_S = 1.5
LEASE_S, TIMEOUT_S = LEASE_NS / 1e9, TIMEOUT_NS / 1e9


def busy(budget_w: float = 80, cap_w: float = 50) -> Stage:
    """Job a on all of n0; n1 is idle."""
    stage = Stage(budget_w)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=cap_w)
    return stage


def node(stage: Stage, name: NodeId) -> NodeState:
    return stage.core.state.nodes[name].state


# Admission


def test_a_node_is_charged_with_the_caps_it_holds() -> None:
    stage = Stage(100)
    stage.register("n0")
    assert stage.connect("n0", cap_w=35) == [renew("n0"), caps("n0", 10)]
    assert stage.charge_w("n0") == 45


def test_a_floor_above_the_budget_is_refused() -> None:
    stage = Stage(35)
    stage.up("n0")
    stage.register("n1")
    assert stage.connect("n1") == []
    assert node(stage, N1) is NodeState.REFUSED
    assert stage.core.state.nodes[N1].message == (
        "its base power and floors of 20.0 W exceed the free budget: the budget is 35.0 W "
        "and other nodes need 20.0 W"
    )
    assert stage.budget(40) == [renew("n1")]
    assert node(stage, N1) is NodeState.UP


def test_a_node_without_zones_to_cap_is_refused() -> None:
    stage = Stage()
    stage.register("n0")
    stage.send(reports.NodeConnected(spec=node_spec(zones=()), caps=(), processes=()))
    assert "no power zone" in stage.core.state.nodes[N0].message


def test_a_refused_node_above_its_floor_is_brought_down_without_a_lease() -> None:
    stage = Stage(15)
    stage.register("n0")
    assert stage.connect("n0", cap_w=35) == [caps("n0", 10)]
    assert stage.caps_are("n0", 10) == []
    assert stage.after(100) == []


def test_a_node_waits_at_its_floor_until_the_others_made_room() -> None:
    stage = Stage(80)
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.budget(70)
    stage.register("n1")
    assert stage.connect("n1", cap_w=30) == [caps("n0", 40), caps("n1", 10)]
    assert node(stage, N1) is NodeState.CONNECTING
    stage.caps_are("n0", 40)
    stage.caps_are("n1", 10)
    assert N1 not in stage.core.state.ledger.accounts
    assert stage.after(1) == [renew("n1")]
    assert stage.charge_w("n1") == 20
    assert stage.committed_w == 70


def test_a_node_that_waits_is_charged_with_what_was_read_not_with_its_floor() -> None:
    stage = Stage(80)
    stage.up("n0")
    stage.run_job("a", "n0:0-3")
    stage.register("n1")
    stage.connect("n1", cap_w=30)
    stage.caps_lost("n1")
    stage.budget(100)
    assert stage.core.state.ledger.accounts[N1].charge_uw == 40 * W
    assert stage.committed_w == 100


# Leases


def test_a_lease_is_renewed_after_a_third() -> None:
    stage = Stage()
    stage.up("n0")
    assert stage.wake_ns == LEASE_NS // 3
    assert stage.after(LEASE_S / 3) == [renew("n0")]
    assert stage.after(1) == [], "one request at a time"


def test_an_unanswered_renewal_is_sent_again_soon() -> None:
    stage = Stage()
    stage.up("n0")
    stage.after(LEASE_S / 3)
    request = stage.core.state.nodes[N0].lease_request
    lost = reports.LeaseUnconfirmed(node_id=N0, request_id=request, reason="x")
    assert stage.send(lost) == []
    assert stage.after(0.25) == [renew("n0")]


def test_the_lease_bound_counts_a_renewal_that_may_have_been_granted_late() -> None:
    stage = Stage()
    stage.up("n0")
    stage.after(LEASE_S / 3)
    sent_ns = stage.now_ns
    stage.silent("n0")
    bound_ns = stage.core.state.nodes[N0].lease_until_ns
    assert bound_ns == sent_ns + TIMEOUT_NS + LEASE_NS + SLACK_S * 1e9


def test_a_silent_node_is_charged_as_it_was_until_its_lease_has_surely_ended() -> None:
    stage = busy()
    stage.need_plan()
    assert stage.silent("n0") == []
    stage.submit("b")
    assert stage.plan(on("b", "n1:0", cap_w=50))[1:] == []
    assert "0.00 W are available" in stage.job("b").reason
    bound_s = LEASE_S + SLACK_S
    stage.after(bound_s - 0.001)
    assert stage.charge_w("n0") == 60
    stage.after(0.001)
    assert node(stage, N0) is NodeState.DOWN
    assert stage.charge_w("n0") == 60, "its averaging window has not passed"
    stage.after(1)
    assert stage.charge_w("n0") == 20
    assert stage.job("a").state is JobState.RUNNING, "its job goes on at the floor"


def test_a_node_that_is_back_is_read_and_raised_again() -> None:
    stage = busy()
    stage.silent("n0")
    stage.after(30)
    stage.after(1)
    assert stage.connect("n0", 10, (running("a", "0-3"),))[0] == renew("n0")
    assert stage.leased("n0") == [caps("n0", 50)]


def test_a_lease_that_ended_at_the_agent_shows_in_the_next_renewal() -> None:
    stage = busy()
    stage.after(LEASE_S / 3)
    assert stage.leased("n0", cap_w=10) == [caps("n0", 50)]


def test_a_renewal_answered_after_a_raise_does_not_hide_it() -> None:
    stage = Stage(1000)
    stage.up("n0")
    stage.submit("a")
    stage.after(LEASE_S / 3)  # The agent reads 10 W for its answer, and the reading is slow.
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.caps_are("n0", 50)
    stage.leased("n0", cap_w=10)
    stage.after(1)
    assert stage.charge_w("n0") == 60


# Commands without an answer


def test_a_lost_raise_is_charged_until_it_can_no_longer_arrive() -> None:
    stage = busy(cap_w=20)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=50))
    assert stage.caps_lost("n0") == [renew("n0")]
    assert stage.leased("n0", cap_w=20) == [], "tried again only after a while"
    assert stage.charge_w("n0") == 60, "it may have been read before it arrived"
    stage.after(1)
    stage.caps_are("n0", 50)
    assert stage.charge_w("n0") == 60


def test_a_lost_raise_nobody_wants_any_more_is_taken_back() -> None:
    stage = busy(cap_w=20)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.caps_lost("n0")
    stage.leased("n0", cap_w=20)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=20))
    stage.after(5.999)
    assert stage.core.state.nodes[N0].caps_request == ""
    assert stage.after(0.001) == [caps("n0", 20)]
    stage.caps_are("n0", 20)
    stage.after(1)
    assert stage.charge_w("n0") == 30


def test_a_lost_lowering_is_tried_again() -> None:
    stage = busy()
    stage.need_plan()
    assert stage.plan(on("a", "n0:0-3", cap_w=20)) == [caps("n0", 20)]
    stage.caps_lost("n0")
    assert stage.charge_w("n0") == 60
    assert caps("n0", 20) in stage.after(1)


# Zones that do not obey


def test_a_zone_that_refuses_is_charged_as_read_and_asked_again() -> None:
    stage = busy()
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=20))
    out = stage.caps_are("n0", 50, error="device error")
    assert [type(action).__name__ for action in out] == ["Solve"]
    assert stage.charge_w("n0") == 60
    assert [view.spec.node_id for view in stage.core.snapshot(stage.now_ns).nodes] == [N1]
    assert stage.after(1) == [caps("n0", 10)]
    stage.caps_are("n0", 10)
    assert not stage.core.state.nodes[N0].dead_zones
    stage.plan()
    assert len(stage.core.snapshot(stage.now_ns).nodes) == 2


def test_a_zone_that_refused_a_raise_from_its_floor_is_asked_again() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3"))
    stage.caps_are("n0", 10, error="device error")
    assert stage.after(1) == [caps("n0", 10)]
    stage.caps_are("n0", 10)
    assert not stage.core.state.nodes[N0].dead_zones


def test_a_reading_above_what_was_granted_is_charged_and_lowered() -> None:
    stage = busy(100, cap_w=30)
    stage.run_job("b", "n1:0-3", cap_w=30)
    stage.after(LEASE_S / 3)
    out = stage.leased("n0", cap_w=45)  # Another program wrote to the zone.
    assert out == [caps("n0", 30)]
    assert stage.committed_w == 95
    assert stage.core.state.ledger.breaches == 0, "there was room for it"


def test_a_breach_is_worked_off_and_then_forgotten() -> None:
    stage = busy(80, cap_w=50)
    stage.after(LEASE_S / 3)
    out = stage.leased("n1", cap_w=30)
    assert out == [caps("n1", 10)]
    assert stage.core.state.ledger.in_breach
    assert stage.core.state.ledger.breaches == 1
    stage.caps_are("n1", 10)
    stage.after(1)
    assert stage.committed_w == 80
    assert not stage.core.state.ledger.in_breach


# Budget


def test_a_lower_budget_scales_the_caps_and_is_kept_in_time() -> None:
    stage = busy(100, cap_w=50)
    stage.run_job("b", "n1:0-3", cap_w=30)
    assert stage.budget(80, deadline_s=3)[:2] == [caps("n0", 36.625), caps("n1", 23.25)]
    assert stage.core.state.ledger.over_deadline_ns == stage.now_ns + 3e9
    stage.confirm("n0")
    stage.confirm("n1")
    stage.after(1)
    assert stage.committed_w == pytest.approx(79.875)
    assert stage.core.state.ledger.over_deadline_ns == 0


def test_a_higher_budget_raises_what_was_scaled_down() -> None:
    stage = busy(60, cap_w=30)
    stage.budget(50)
    stage.confirm("n0")
    stage.after(1)
    assert stage.committed_w == 50
    assert stage.budget(60)[0] == caps("n0", 30)


# Nodes that return with other hardware


def test_new_base_power_and_zones_are_charged() -> None:
    stage = Stage(1000)
    stage.up("n0")
    other = replace(node_spec(), base_power_uw=25 * W, zones=(package(), package("package-1")))
    readings = (reading(10), reading(40, "package-1"))
    stage.send(reports.NodeConnected(spec=other, caps=readings, processes=()))
    assert stage.charge_w("n0") == 25 + 10 + 40


def test_a_zone_that_is_gone_is_charged_no_more() -> None:
    stage = Stage(1000)
    stage.register("n0")
    both = replace(node_spec(), zones=(package(), package("package-1")))
    readings = (reading(10), reading(40, "package-1"))
    stage.send(reports.NodeConnected(spec=both, caps=readings, processes=()))
    stage.connect("n0")
    assert stage.charge_w("n0") == 20
    stage.silent("n0")
    stage.after(100)
    assert node(stage, N0) is NodeState.DOWN


def test_a_node_that_comes_back_without_the_cores_of_its_jobs_harms_only_itself() -> None:
    stage = busy()
    stage.silent("n0")
    stage.connect(node_spec("n0", cores=2), 50, (running("a", "0-3"),))
    assert node(stage, N0) is NodeState.SILENT
    assert "returned with cores 0-1" in stage.core.state.nodes[N0].message
    stage.connect("n0", 50, (running("a", "0-3"),))
    assert node(stage, N0) is NodeState.UP


# Restart


def test_after_a_restart_every_node_is_silent_and_charged_as_it_was() -> None:
    stage = busy()
    assert stage.start(2) == []
    assert stage.charge_w("n0") == 60
    assert node(stage, N0) is NodeState.SILENT
    bound = stage.core.state.nodes[N0].lease_until_ns
    assert bound == stage.now_ns + LEASE_NS + TIMEOUT_NS + SLACK_S * 1e9


def test_a_restart_does_not_trust_the_last_renewal_in_the_journal() -> None:
    # Renewals are written with a delay: the journal may end long before the crash.
    stage = busy()
    stage.now_ns += 3600 * 10**9
    stage.start(2)
    stage.after(1)
    assert node(stage, N0) is NodeState.SILENT
    assert stage.charge_w("n0") == 60


def test_a_shorter_lease_in_the_new_settings_does_not_end_the_old_one() -> None:
    stage = busy()
    stage.start(2, lease_ns=10**9)
    bound = stage.core.state.nodes[N0].lease_until_ns
    assert bound == stage.now_ns + LEASE_NS + TIMEOUT_NS + SLACK_S * 1e9


def test_a_raise_under_way_at_a_restart_stays_charged() -> None:
    stage = busy(80, cap_w=20)
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=40))
    stage.start(2)
    assert stage.charge_w("n0") == 50
    stage.connect("n0", 20, (running("a", "0-3"),))
    assert stage.charge_w("n0") == 50, "the old command may still arrive"
    assert stage.leased("n0", 20) == [caps("n0", 40)]


def test_a_lowering_under_way_at_a_restart_is_repeated() -> None:
    stage = busy()
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=20))
    stage.start(2)
    assert stage.charge_w("n0") == 60
    out = stage.connect("n0", 50, (running("a", "0-3"),))
    assert out[:2] == [renew("n0"), caps("n0", 20)]


def test_a_mask_under_way_at_a_restart_is_read_and_repeated() -> None:
    stage = busy()
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", cap_w=50))
    stage.start(2)
    assert str(stage.job("a").ranks[N0].occupied) == "0-3"
    out = stage.connect("n0", 50, (running("a", "0-3"),))
    assert mask("n0", "a", "0-1") in out


def test_a_mask_that_was_set_before_the_restart_is_not_repeated() -> None:
    stage = busy()
    stage.need_plan()
    stage.plan(on("a", "n0:0-1", cap_w=50))
    stage.start(2)
    out = stage.connect("n0", 50, (running("a", "0-1"),))
    assert mask("n0", "a", "0-1") not in out
    assert stage.job("a").ranks[N0].held == CpuSet.parse("0-1")


def test_a_round_under_way_at_a_restart_is_asked_for_again() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    stage.start(2)
    out = stage.connect("n0")
    assert [type(a).__name__ for a in out] == ["RenewLease", "Solve"]
    assert stage.plan(on("a", "n0:0-3"), number=1) == []
    assert stage.job("a").state is JobState.PENDING


def test_a_terminate_lost_with_a_restart_is_repeated() -> None:
    stage = busy()
    stage.cancel("a")
    stage.start(2)
    out = stage.connect("n0", 50, (running("a", "0-3"),))
    assert out == [renew("n0"), terminate("n0", "a"), solve(stage.core.state.rounds)]


def test_replaying_the_history_gives_the_same_state() -> None:
    stage = busy()
    stage.cancel("a")
    stage.start(2)
    stage.connect("n0", 50, (running("a", "0-3"),))
    core = CoordinatorCore(80 * W, CHECKED)
    for event, now_ns in stage.history:
        core.handle(event, now_ns)
    assert core.state == stage.core.state


def test_the_standing_cap_of_dram_is_raised_and_charged() -> None:
    dram = Zone(
        name="dram-0",
        kind=ZoneKind.DRAM,
        cap_uw_min=5 * W,
        cap_uw_max=30 * W,
        floor_uw=8 * W,
        window_ns=0,
    )
    stage = Stage(60, start=False)
    stage.core = CoordinatorCore(60 * W, CoreSettings(dram_cap_uw=18 * W, check_every=1))
    stage.start()
    stage.register("n0")
    spec = node_spec(zones=(package(), dram))
    stage.send(
        reports.NodeConnected(spec=spec, caps=(reading(10), reading(8, "dram-0")), processes=())
    )
    assert stage.leased("n0") == [caps("n0", 18, "dram-0")]
    stage.submit("a", job_spec())
    assert stage.core.snapshot(0).spendable_uw == (60 - 10 - 10 - 18) * W
    assert stage.core.state.floor_uw() == 38 * W
    assert PACKAGE in stage.core.state.ledger.accounts[N0].zones
