"""Announced budgets: preparation, start at the announced time, and cancellation."""

from __future__ import annotations

import json

import pytest
from unit.core.stage import FLOOR_W, LEASE_NS, S, Stage, W, on

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import Announced, coming_uw, limits
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import Duty
from wattfold.coordinator.core.rules.nodes import node_orders
from wattfold.coordinator.core.rules.power import budget_events
from wattfold.coordinator.core.rules.snapshot import snapshot

LEAD_NS = 10 * S


def said(*parts: tuple[int, int]) -> list[Announced]:
    """Pairs of time, s, and budget, W."""
    return [
        Announced(number=number, at_ns=at_s * S, budget_uw=budget_w * W)
        for number, (at_s, budget_w) in enumerate(parts, 1)
    ]


@pytest.mark.parametrize(
    ("announced", "found"),
    [
        ([(100, 50)], [(90, 50)]),
        ([(100, 150)], [(100, 150)]),
        ([(5, 50)], []),  # The budget is prepared, so it is the limit now.
        ([(100, 50), (200, 80)], [(90, 50), (200, 80)]),
        ([(100, 50), (105, 80)], [(90, 50), (105, 80)]),
        # A rise that would last less than the lead is ignored, or granted as far as the fall
        # allows.
        ([(100, 150), (105, 80)], [(95, 80)]),
        ([(100, 150), (105, 120)], [(100, 120)]),
        ([(100, 150), (120, 80)], [(100, 150), (110, 80)]),
        ([(100, 50), (105, 40)], [(90, 50), (95, 40)]),
        ([(100, 100)], []),
    ],
)
def test_a_fall_limits_a_lead_before_its_time_and_a_rise_at_its_own(
    announced: list[tuple[int, int]], found: list[tuple[int, int]]
) -> None:
    steps = limits(said(*announced), 100 * W, 0, LEAD_NS)
    assert [(at_ns // S, limit_uw // W) for at_ns, limit_uw in steps] == found


def test_no_budget_that_is_due_counts_as_coming() -> None:
    assert coming_uw(said((10, 50)), 10 * S, LEAD_NS) == 0
    assert coming_uw(said((10, 50), (12, 70)), 9 * S, LEAD_NS) == 50 * W
    assert coming_uw(said((20, 50)), 10 * S, LEAD_NS) == 50 * W
    assert coming_uw(said((20, 50)), 10 * S - 1, LEAD_NS) == 0


def announce(stage: Stage, in_s: float, budget_w: int) -> int:
    """Announce a budget and return its start time, ns."""
    at_ns = stage.now_ns + round(in_s * S)
    stage.send(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_w * W))
    return at_ns


def busy() -> Stage:
    """Nodes n0, at 60 W with a job at 50 W, and n1, at 20 W, under a budget of 100 W."""
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    assert stage.core.state.ledger.committed_uw == 80 * W
    return stage


def wait_until(stage: Stage, at_ns: int) -> None:
    """Let time pass; agents answer, so leases are renewed and caps confirmed."""
    while stage.now_ns < at_ns:
        stage.now_ns = min(stage.now_ns + S // 2, at_ns)
        stage.send(ev.TimePassed())
        for node in list(stage.core.state.nodes.values()):
            if node.lease_request:
                held = stage.core.state.ledger.accounts[node.node_id].zones["package-0"]
                stage.leased(node.node_id, held.confirmed_uw / W)
            if node.caps_request:
                stage.confirm(node.node_id)


def test_a_fall_is_kept_when_its_time_comes_and_not_a_moment_later() -> None:
    stage = busy()
    ledger, state = stage.core.state.ledger, stage.core.state
    at_ns = announce(stage, 100, 60)
    lead_ns = budget_events.lead_ns(state)
    assert stage.wake_ns <= at_ns - lead_ns
    wait_until(stage, at_ns - lead_ns - 1)
    assert (ledger.limit_uw, ledger.committed_uw) == (100 * W, 80 * W)
    wait_until(stage, at_ns - lead_ns)
    assert (ledger.budget_uw, ledger.limit_uw) == (100 * W, 60 * W)
    assert ledger.over_deadline_ns == 0, "it is not late: its time has not come"
    wait_until(stage, at_ns - 1)
    assert ledger.committed_uw == 60 * W
    wait_until(stage, at_ns)
    assert (ledger.budget_uw, ledger.coming_uw, state.announced) == (60 * W, 0, ())
    assert ledger.over_deadline_ns == 0


@pytest.mark.parametrize(("cap_w", "starts"), [(20, True), (30, False)])
def test_nothing_starts_into_a_fall_that_is_prepared_for(cap_w: int, starts: bool) -> None:
    stage = busy()
    announce(stage, 5, 90)
    stage.submit("b")
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", cap_w=50), on("b", "n1:0-3", cap_w=cap_w))
    assert bool(stage.job("b").ranks) == starts
    if starts:
        stage.launched("n1", "b")
        wait_until(stage, stage.now_ns + 4 * S)
        assert stage.core.state.ledger.committed_uw == 90 * W


@pytest.mark.parametrize("asked", [False, True])
def test_a_node_that_falls_silent_when_caps_are_to_come_down_is_at_its_floor_in_time(
    asked: bool,
) -> None:
    stage = busy()
    ledger = stage.core.state.ledger
    at_ns = announce(stage, 60, 60)
    wait_until(stage, at_ns - budget_events.lead_ns(stage.core.state) - 1)
    if asked:
        stage.now_ns += 1
        stage.send(ev.TimePassed())
        stage.now_ns += 2 * S
        stage.caps_lost("n0")
    stage.silent("n0")
    while stage.now_ns < at_ns:
        stage.now_ns = min(stage.wake_ns if stage.wake_ns > stage.now_ns else at_ns, at_ns)
        stage.send(ev.TimePassed())
    assert ledger.over_deadline_ns == 0
    assert ledger.committed_uw <= 60 * W
    assert ledger.accounts[NodeId("n0")].charge_uw == 20 * W


def test_a_fall_that_a_node_does_not_follow_is_late_from_its_time_on() -> None:
    stage = busy()
    at_ns = announce(stage, 60, 60)
    lead_ns = budget_events.lead_ns(stage.core.state)
    wait_until(stage, at_ns - lead_ns)
    while stage.now_ns < at_ns:
        stage.now_ns += S
        stage.caps_are("n0", 50, error="refused")
        stage.leased("n0", 50)
    assert stage.core.state.ledger.over_deadline_ns == at_ns
    assert stage.core.state.ledger.committed_uw == 80 * W


def test_a_rise_is_in_force_from_its_time_on() -> None:
    stage = busy()
    ledger = stage.core.state.ledger
    at_ns = announce(stage, 30, 140)
    wait_until(stage, at_ns - 1)
    assert ledger.limit_uw == 100 * W
    wait_until(stage, at_ns)
    assert ledger.limit_uw == ledger.budget_uw == 140 * W


def test_one_that_is_taken_back_does_not_come() -> None:
    stage = busy()
    at_ns = announce(stage, 5, 60)
    assert stage.core.state.ledger.limit_uw == 60 * W
    stage.send(ev.BudgetCancelled(number=1))
    assert stage.core.state.ledger.limit_uw == 100 * W
    wait_until(stage, at_ns + S)
    assert stage.core.state.ledger.budget_uw == 100 * W
    stage.send(ev.BudgetCancelled(number=1))  # The announcement no longer exists: nothing happens.
    announce(stage, 5, 70)
    assert [one.number for one in stage.core.state.announced] == [2], "numbers are used once"


def test_an_order_changes_the_budget_of_now_and_not_what_is_announced() -> None:
    stage = busy()
    at_ns = announce(stage, 60, 60)
    wait_until(stage, at_ns - S)
    stage.budget(200)
    assert stage.core.state.ledger.limit_uw == 60 * W
    wait_until(stage, at_ns)
    assert stage.core.state.ledger.budget_uw == 60 * W


def test_the_last_word_about_a_time_counts() -> None:
    stage = busy()
    at_ns = announce(stage, 60, 60)
    stage.send(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=70 * W))
    assert [(one.number, one.budget_uw) for one in stage.core.state.announced] == [(2, 70 * W)]


def test_a_time_that_passed_while_nobody_was_there_has_come() -> None:
    """After an absence during the lead, the deadline starts at the restart.

    By then nodes have answered or are at their floors.
    """
    stage = busy()
    announce(stage, 60, 60)
    announce(stage, 70, 50)
    announce(stage, 1000, 90)
    text = codec.dump_state(stage.core.state)
    stage.core.state = codec.load_state(text)
    stage.now_ns += 500 * S
    stage.start(2)
    state = stage.core.state
    assert (state.ledger.budget_uw, len(state.announced)) == (50 * W, 1)
    assert state.ledger.over_deadline_ns > stage.now_ns, "not late yet"
    stage.after(LEASE_NS / S + 4)
    stage.after(2)
    assert state.ledger.committed_uw == 2 * (10 + FLOOR_W) * W
    assert state.ledger.over_deadline_ns == 0


def test_policies_see_what_may_be_spent_from_when_on() -> None:
    stage = busy()
    at_ns = announce(stage, 100, 60)
    announce(stage, 300, 120)
    lead_ns = budget_events.lead_ns(stage.core.state)
    seen = snapshot(stage.core.state, stage.now_ns)
    assert seen.budget_uw == 100 * W
    assert seen.ahead == ((at_ns - lead_ns, 60 * W), (at_ns + 200 * S, 120 * W))
    wait_until(stage, at_ns - S)
    later = snapshot(stage.core.state, stage.now_ns)
    assert (later.budget_uw, later.ahead) == (60 * W, ((at_ns + 200 * S, 120 * W),))


def test_a_state_of_before_has_nothing_announced() -> None:
    stored = json.loads(codec.dump_state(busy().core.state))
    for name in ("announced", "announcements", "longest_window_ns"):
        del stored[name]
    del stored["ledger"]["coming_uw"]
    state = codec.load_state(json.dumps(stored))
    assert (state.announced, state.ledger.limit_uw) == ((), 100 * W)


def test_what_was_announced_before_there_were_schedules_belongs_to_none() -> None:
    stage = busy()
    announce(stage, 60, 60)
    stored = json.loads(codec.dump_state(stage.core.state))
    del stored["announced"][0]["schedule"]
    assert codec.load_state(json.dumps(stored)).announced == stage.core.state.announced


def test_a_schedule_survives_the_journal() -> None:
    stage = busy()
    one = ev.BudgetAnnounced(at_ns=stage.now_ns + 60 * S, budget_uw=60 * W)
    event = ev.BudgetsScheduled(schedule="day", budgets=(one,))
    assert codec.load_event(*codec.dump_event(event)) == event
    stage.send(event)
    state = codec.load_state(codec.dump_state(stage.core.state))
    assert [one.schedule for one in state.announced] == ["day"]
    assert state.announced == stage.core.state.announced


def test_a_node_declared_outside_is_not_resumed_against_an_announced_budget() -> None:
    """Its power was not part of the minimum when the budget was announced."""
    stage = busy()
    node = stage.core.state.nodes[NodeId("n1")]
    node.duty = Duty.LEFT
    stage.order("n1", NodeOrder.FORGET_OUTSIDE)
    assert node.duty is Duty.OUTSIDE
    announce(stage, 60, least_w := 10 + FLOOR_W)
    refused = node_orders.announced_conflict(stage.core.state, node, NodeOrder.RESUME)
    assert f"announced budget 1 of {least_w}.0 W could not be kept" in refused
    assert f"at least {2 * least_w}.0 W" in refused
    stage.order("n1", NodeOrder.RESUME)
    assert node.duty is Duty.OUTSIDE
    stage.send(ev.BudgetCancelled(number=1))
    stage.order("n1", NodeOrder.RESUME)
    assert node.duty is Duty.SERVING
