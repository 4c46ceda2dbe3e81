"""Schedules of budgets: what is announced, kept, cancelled and refused, all or nothing."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.adapters.test_budgets import SETTLE_NS, FixedClock, site
from unit.core.stage import S, Stage, W

from wattfold.coordinator.adapters.requests import schedules
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import AHEAD_MAX, ANNOUNCED_MAX
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.v1 import coordinator_pb2 as pb

ORIGIN_S = 1_800_000_000.0


def propose(
    stage: Stage, *budgets: tuple[float, float], name: str = "day"
) -> schedules.ScheduleProposal:
    """Judge a schedule of pairs: seconds from the start of the stage, and watts."""
    asked = pb.ScheduleBudgetsRequest(name=name)
    for at_s, budget_w in budgets:
        asked.budgets.add(at_s=ORIGIN_S + at_s, budget_uw=round(budget_w * W))
    return schedules.propose(stage.core.state, asked, FixedClock(stage), SETTLE_NS)


def put(
    stage: Stage, *budgets: tuple[float, float], name: str = "day"
) -> schedules.ScheduleProposal:
    proposal = propose(stage, *budgets, name=name)
    assert proposal.reason == ""
    stage.send(proposal.event)
    return proposal


def there(stage: Stage) -> list[tuple[int, int, int, str]]:
    """Number, time, s, budget, W, and schedule of what is announced."""
    return [
        (one.number, one.at_ns // S, one.budget_uw // W, one.schedule)
        for one in stage.core.state.announced
    ]


def test_a_schedule_replaces_its_own_announcements_and_no_others() -> None:
    stage = site()
    stage.send(ev.BudgetAnnounced(at_ns=150 * S, budget_uw=70 * W))
    put(stage, (100, 60), (200, 90))
    put(stage, (300, 50), name="night")
    second = put(stage, (250, 80), (100, 60), (200, 95))
    assert there(stage) == [
        (2, 100, 60, "day"),
        (1, 150, 70, ""),
        (5, 200, 95, "day"),
        (6, 250, 80, "day"),
        (4, 300, 50, "night"),
    ]
    assert [one.number for one in second.kept] == [2]
    assert [one.number for one in second.cancelled] == [3]
    put(stage)
    assert [number for number, *_ in there(stage)] == [1, 4], "an empty schedule is cancelled"


@pytest.mark.parametrize(
    ("budgets", "why"),
    [
        ([(100, 60), (200, 39)], "1 of 2 budgets are refused, .* 39.0 W is below 40.0 W"),
        ([(150, 60)], "already announced"),
        ([(100, 60), (100, 70)], "two budgets for this time"),
        ([(-5, 60)], "ago"),
        ([(2, 60)], "80.0 W are committed"),
        ([(float("nan"), 60)], "at most ten years ahead"),
        ([(1e18, 60), (200, 0), (300, 1), (400, 2), (500, 3)], "and 2 more; --preview shows"),
        ([(100 + one, 60) for one in range(ANNOUNCED_MAX)], "exceed the limit of 10000"),
        ([], "no budget of a schedule day is announced"),
    ],
)
def test_one_refused_budget_refuses_all(budgets: list[tuple[float, float]], why: str) -> None:
    stage = site()
    stage.send(ev.BudgetAnnounced(at_ns=150 * S, budget_uw=70 * W))
    assert re.search(why, propose(stage, *budgets).reason)


@pytest.mark.parametrize("name", ["", "a b", "x" * 64])
def test_a_schedule_has_a_name(name: str) -> None:
    assert "is no name of a schedule" in propose(site(), (100, 60), name=name).reason


def test_a_budget_that_is_being_prepared_may_stay_in_its_schedule() -> None:
    """A schedule that is sent again every day must not be refused for its next budget."""
    stage = site()
    put(stage, (100, 60))
    stage.now_ns = 99 * S
    stage.send(ev.TimePassed())
    assert stage.core.state.ledger.limit_uw == 60 * W
    again = put(stage, (100, 60), (200, 70))
    assert [one.number for one in again.kept] == [1]
    assert stage.core.state.ledger.limit_uw == 60 * W
    assert "80.0 W are committed" in propose(stage, (100, 59)).reason


def test_what_became_impossible_on_the_way_changes_nothing() -> None:
    stage = site()
    put(stage, (100, 60))
    proposal = propose(stage, (100, 70), (200, 45))
    assert proposal.reason == ""
    stage.up("n2")
    stage.send(proposal.event)
    assert there(stage) == [(1, 100, 60, "day")]
    assert schedules.missing(stage.core.state, proposal, stage.now_ns)


def test_what_was_announced_for_a_time_on_the_way_stays() -> None:
    stage = site()
    proposal = propose(stage, (100, 70))
    stage.send(ev.BudgetAnnounced(at_ns=100 * S, budget_uw=60 * W))
    stage.send(proposal.event)
    assert there(stage) == [(1, 100, 60, "")]


def test_policies_plan_with_the_next_budgets_only() -> None:
    stage = site()
    put(stage, *((100 + 60 * number, 60 + number % 2) for number in range(AHEAD_MAX + 50)))
    ahead = snapshot(stage.core.state, stage.now_ns).ahead
    assert len(ahead) == AHEAD_MAX
    assert ahead[0].budget_uw == 60 * W


def test_a_preview_shows_everything_and_changes_nothing() -> None:
    stage = site()
    put(stage, (100, 60), (200, 90))
    proposal = propose(stage, (100, 60), (300, 70), (400, 90), (500, 30))
    shown = schedules.preview(stage.core.state, proposal, FixedClock(stage))
    assert [(one.number, one.at_s - ORIGIN_S) for one in shown.kept] == [(1, 100)]
    assert [(one.number, one.at_s - ORIGIN_S) for one in shown.cancelled] == [(2, 200)]
    assert [(one.number, one.at_s - ORIGIN_S) for one in shown.announced] == [(0, 300), (0, 400)]
    assert [one.from_s < one.at_s for one in shown.announced] == [False, False], "both rise"
    assert [one.obstacle[:21] for one in shown.refused] == ["budget 30.0 W is belo"]
    assert shown.minimum_uw == 40 * W
    assert len(there(stage)) == 2


def test_scheduled_over_the_wire(tmp_path: Path) -> None:
    async def run() -> None:
        async with ApiSite(tmp_path) as site:
            at_s = float(int(time.time()) + 3600)
            asked = pb.ScheduleBudgetsRequest(name="year", dry_run=True)
            for hour in range(300):
                asked.budgets.add(at_s=at_s + 3600 * hour, budget_uw=(500 + hour % 2) * W)
            shown = await site.stub.ScheduleBudgets(asked)
            assert (len(shown.announced), shown.announced[0].number) == (300, 0)
            power = await site.stub.GetPower(pb.GetPowerRequest())
            assert not power.announced
            asked.dry_run = False
            made = await site.stub.ScheduleBudgets(asked)
            assert [one.number for one in made.announced] == list(range(1, 301))
            power = await site.stub.GetPower(pb.GetPowerRequest())
            assert (len(power.announced), power.announced_later) == (256, 44)
            power = await site.stub.GetPower(pb.GetPowerRequest(all_announced=True))
            assert (len(power.announced), power.announced_later) == (300, 0)
            asked.budgets[7].budget_uw = 0
            with pytest.raises(grpc.aio.AioRpcError, match="1 of 300 budgets are refused"):
                await site.stub.ScheduleBudgets(asked)
            del asked.budgets[:]
            gone = await site.stub.ScheduleBudgets(asked)
            assert len(gone.cancelled) == 300
            assert gone.cancelled[0].schedule == "year"

    asyncio.run(run())
