"""Budget requests: reasons for a refusal, displayed values, and later notifications."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import S, Stage, W, on

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.site_messages import power_message
from wattfold.coordinator.adapters.door.access import Right, right_of
from wattfold.coordinator.adapters.door.auditing import LOOKS
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.budgets import (
    AnnouncedLog,
    announced_message,
    announcement_refusal,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import ANNOUNCED_MAX
from wattfold.v1 import coordinator_pb2 as pb

SETTLE_NS = 3 * S


class FixedClock(Clock):
    """Clock of a stage. Its zero is in 2027."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(origin_s=1_800_000_000.0)
        self._stage = stage

    def now_ns(self) -> int:
        return self._stage.now_ns


def site() -> Stage:
    """Nodes n0, at 60 W with a job, and n1, at its idle 20 W, under a budget of 100 W."""
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.submit("a")
    stage.plan(on("a", "n0:0-3", cap_w=50))
    stage.launched("n0", "a")
    stage.confirm("n0")
    return stage


def refusal(stage: Stage, budget_w: float, in_s: float) -> str:
    clock = FixedClock(stage)
    at_s = clock.wall_s(stage.now_ns) + in_s
    return announcement_refusal(stage.core.state, round(budget_w * W), at_s, clock, SETTLE_NS)


@pytest.mark.parametrize(
    ("budget_w", "in_s", "why"),
    [
        (60, 100, ""),
        (60, 3.1, ""),
        (80, 0.1, ""),  # The committed power is allowed.
        (200, 0.1, ""),
        (60, 2.9, "60.0 W is not possible from .*: 80.0 W are committed, .* up to 3.0 s"),
        (39, 1000, "budget 39.0 W is below 40.0 W, the minimum power"),
        (0, 1000, "below"),
        (60, 0, "is 0 s ago; give a future time"),
        (60, -100, "is 100 s ago"),
        (60, float("nan"), "at most ten years ahead"),
        (60, float("inf"), "at most ten years ahead"),
        (60, 11 * 366 * 86400, "at most ten years ahead"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_it_would_take(
    budget_w: float, in_s: float, why: str
) -> None:
    refused = refusal(site(), budget_w, in_s)
    assert bool(refused) == bool(why)
    assert re.search(why, refused)


def test_of_a_silent_node_the_lease_has_to_run_out() -> None:
    stage = site()
    stage.silent("n0")
    lease_ns = stage.core.state.nodes["n0"].lease_until_ns - stage.now_ns
    assert refusal(stage, 60, lease_ns / S + 1.1) == ""
    assert f"up to {lease_ns / S + 1:.1f} s" in refusal(stage, 60, 5)


def test_one_for_a_time_and_so_many_in_all() -> None:
    stage = site()
    stage.send(ev.BudgetAnnounced(at_ns=100 * S, budget_uw=60 * W))
    assert "cancel it first" in refusal(stage, 70, 100)
    times_ns = ((100 + number) * S for number in range(1, ANNOUNCED_MAX))
    budgets = tuple(ev.BudgetAnnounced(at_ns=at_ns, budget_uw=60 * W) for at_ns in times_ns)
    stage.send(ev.BudgetsScheduled(schedule="many", budgets=budgets))
    assert "1 announced budgets beside 10000 others exceed the limit" in refusal(stage, 70, 99)


def test_power_shows_what_is_announced_and_what_is_on_its_way() -> None:
    stage = site()
    clock = FixedClock(stage)
    stage.send(ev.BudgetAnnounced(at_ns=100 * S, budget_uw=60 * W))
    stage.send(ev.BudgetAnnounced(at_ns=200 * S, budget_uw=90 * W))

    def shown() -> pb.Power:
        return power_message(stage.core.state, Observations(), clock, "easy")

    fall, rise = shown().announced
    assert (fall.number, fall.at_s, fall.budget_uw) == (1, clock.origin_s + 100, 60 * W)
    assert fall.from_s < fall.at_s
    assert rise.from_s == rise.at_s, "a rise over the fall before it"
    assert shown().pending_budget_uw == 0
    stage.now_ns = 99 * S
    stage.send(ev.TimePassed())
    assert (shown().budget_uw, shown().pending_budget_uw) == (100 * W, 60 * W)
    assert shown().pending_deadline_s == clock.origin_s + 100
    stage.confirm("n0")
    stage.now_ns += S
    stage.send(ev.TimePassed())
    assert (shown().budget_uw, shown().pending_budget_uw) == (60 * W, 0), "kept, and in force"


def test_what_becomes_impossible_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    stage = site()
    log = AnnouncedLog(FixedClock(stage))
    stage.send(ev.BudgetAnnounced(at_ns=500 * S, budget_uw=50 * W))
    with caplog.at_level(logging.WARNING):
        log.look(stage.core.state)
        assert not caplog.messages
        stage.up("n2")
        for _ in range(2):
            log.look(stage.core.state)
        (told,) = caplog.messages
        assert "event=budget_ahead_impossible" in told or "budget_ahead_impossible" in told
        assert "nodes now need at least 60.0 W" in told
        (one,) = stage.core.state.announced
        message = announced_message(stage.core.state, one, FixedClock(stage))
        assert "nodes now need at least 60.0 W" in message.obstacle
        caplog.clear()
        stage.order("n2", ev.NodeOrder.FORGET_OUTSIDE)
        stage.silent("n2")
        stage.order("n2", ev.NodeOrder.FORGET_UNPOWERED)
        log.look(stage.core.state)
        assert "budget_ahead_possible" in " ".join(caplog.messages)
        stage.send(ev.BudgetCancelled(number=1))
        log.look(stage.core.state)
        assert len(caplog.messages) == 1


def test_a_later_and_lower_announcement_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    stage = site()
    log = AnnouncedLog(FixedClock(stage))
    with caplog.at_level(logging.WARNING):
        for at_s, budget_w in ((500, 90), (600, 50)):
            stage.send(ev.BudgetAnnounced(at_ns=at_s * S, budget_uw=budget_w * W))
            log.look(stage.core.state)
        assert not caplog.messages
        stage.up("n2")
        log.look(stage.core.state)
        assert ["number=2" in told for told in caplog.messages] == [True]


def test_announced_and_taken_back_over_the_wire(tmp_path: Path) -> None:
    async def run() -> None:
        async with ApiSite(tmp_path) as site:
            at_s = time.time() + 3600
            request = pb.AnnounceBudgetRequest(budget_uw=500 * W, at_s=at_s)
            made = (await site.stub.AnnounceBudget(request)).announced
            assert (made.number, made.budget_uw) == (1, 500 * W)
            assert abs(made.at_s - at_s) < 0.01
            assert len((await site.stub.GetPower(pb.GetPowerRequest())).announced) == 1
            with pytest.raises(grpc.aio.AioRpcError, match="cancel it first"):
                await site.stub.AnnounceBudget(request)
            taken = await site.stub.CancelBudget(pb.CancelBudgetRequest(number=1))
            assert taken.cancelled.number == 1
            with pytest.raises(grpc.aio.AioRpcError, match="announced: none") as caught:
                await site.stub.CancelBudget(pb.CancelBudgetRequest(number=1))
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    asyncio.run(run())


def test_only_operators_announce_and_all_of_it_is_audited() -> None:
    for action in ("AnnounceBudget", "CancelBudget", "ScheduleBudgets"):
        assert right_of(action) is Right.OPERATOR
        assert action not in LOOKS
