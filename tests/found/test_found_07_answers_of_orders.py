"""The answer to an accepted order comes from the state, not from the process that builds views."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unit.adapters.api_site import ApiSite

from wattfold.coordinator.adapters.copies.picture_feed import NoPictureError
from wattfold.v1 import coordinator_pb2 as pb


class BusyWorker:
    """A view process that never answers."""

    async def call(self, function: Callable[..., Any], *args: object, deadline_s: float) -> Any:
        del function, args, deadline_s
        await asyncio.get_running_loop().create_future()


def test_a_budget_is_answered_while_the_view_process_is_busy(tmp_path: Path) -> None:
    async def run() -> pb.Power:
        async with ApiSite(tmp_path) as site:
            site.feed._worker = BusyWorker()
            looking = asyncio.ensure_future(site.stub.GetPower(pb.GetPowerRequest()))
            request = pb.SetBudgetRequest(budget_uw=700_000_000)
            answer = await site.stub.SetBudget(request, timeout=240)
            assert not looking.done()
            looking.cancel()
            power: pb.Power = answer.power
            return power

    power = asyncio.run(run())
    assert power.budget_uw == 700_000_000
    assert power.policy == "fifo-easy"


def test_an_accepted_budget_is_never_answered_as_a_failure(tmp_path: Path) -> None:
    async def run() -> int:
        async with ApiSite(tmp_path) as site:

            async def refuse() -> bytes:
                raise NoPictureError("1000 read requests already wait for an answer; try again")

            site.pictures.power = refuse  # type: ignore[method-assign]
            answer = await site.stub.SetBudget(pb.SetBudgetRequest(budget_uw=700_000_000))
            return int(answer.power.budget_uw)

    assert asyncio.run(run()) == 700_000_000


def test_the_answer_shows_what_a_later_look_shows(tmp_path: Path) -> None:
    async def run() -> tuple[pb.Power, pb.Power]:
        async with ApiSite(tmp_path) as site:
            answer = await site.stub.SetBudget(pb.SetBudgetRequest(budget_uw=700_000_000))
            return answer.power, await site.stub.GetPower(pb.GetPowerRequest())

    answered, seen = asyncio.run(run())
    assert answered == seen
