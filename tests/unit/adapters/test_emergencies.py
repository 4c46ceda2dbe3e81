"""Emergencies from the outside: calls, a file, and a journal that cannot be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from unit.adapters.api_site import BUDGET_UW, ORDER, ApiSite, S
from unit.adapters.test_config import complaint, read

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.adapters.emergencies import Emergencies, EmergencyFile, parse_limit
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.core.model.emergency import EmergencyOrder, JobStep
from wattfold.v1 import coordinator_pb2 as pb


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_an_emergency_by_calls(tmp_path: Path) -> None:
    async def test() -> None:
        async with ApiSite(tmp_path) as site:
            state = site.core.state
            asked = pb.BeginEmergencyRequest(limit_share=0.25, dry_run=True)
            answer = await site.stub.BeginEmergency(asked)
            assert answer.limit_uw == BUDGET_UW // 4
            assert state.emergency is None
            asked.dry_run = False
            await site.stub.BeginEmergency(asked)
            assert state.emergency is not None
            assert state.emergency.order == ORDER
            assert (
                await site.stub.GetPower(pb.GetPowerRequest())
            ).emergency.limit_uw == BUDGET_UW // 4
            await site.stub.EndEmergency(pb.EndEmergencyRequest())
            assert state.emergency is None
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await site.stub.EndEmergency(pb.EndEmergencyRequest())
            assert caught.value.details() == "no emergency is in force"

    asyncio.run(test())


@pytest.mark.parametrize(
    "wrong", [{}, {"limit_share": 1.5}, {"limit_share": -1}, {"limit_uw": 1, "limit_share": 0.5}]
)
def test_requests_without_one_limit_are_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    async def test() -> None:
        async with ApiSite(tmp_path) as site:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await site.stub.BeginEmergency(pb.BeginEmergencyRequest(**wrong))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    asyncio.run(test())


def test_a_full_disk_refuses_no_emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with ApiSite(tmp_path) as site:

            def full() -> None:
                raise JournalError("no space left")

            with monkeypatch.context() as patch:
                patch.setattr(site.journal, "commit", full)
                answer = await site.stub.BeginEmergency(pb.BeginEmergencyRequest(limit_uw=5))
                assert answer.not_stored
                await until(lambda: site.core.state.ledger.limit_uw == 5)

    asyncio.run(test())


def test_a_file_begins_and_ends_an_emergency(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        path = tmp_path / "emergency"
        async with ApiSite(tmp_path) as site:
            state = site.core.state
            emergencies = Emergencies(site.service, ORDER, lambda: S, S, S)
            follower = asyncio.create_task(EmergencyFile(path, emergencies).follow_for_ever())
            path.write_text("60%\n")
            await until(lambda: state.emergency is not None)
            assert state.ledger.limit_uw == BUDGET_UW * 6 // 10
            path.write_text("0.2kW")
            await until(lambda: state.ledger.limit_uw == uw_from_w(200))
            path.write_text("nonsense")
            await until(lambda: "emergency_file_failed" in caplog.text)
            assert state.ledger.limit_uw == uw_from_w(200), "what is in force stays in force"
            path.unlink()
            await until(lambda: state.emergency is None)
            follower.cancel()

    asyncio.run(test())


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("40kW", uw_from_w(40_000)),
        ("500", uw_from_w(500)),
        ("500W\n", uw_from_w(500)),
        ("1.5MW", uw_from_w(1.5e6)),
        ("60%", 0.6),
        ("100%", 1.0),
    ],
)
def test_limits_of_the_file(text: str, limit: float) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["", "0", "-5W", "0%", "101%", "nan", "nan%", "inf", "5 k m", "%"])
def test_wrong_limits_of_the_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"no limit|could not convert"):
        parse_limit(text)


def test_the_configuration_of_emergencies(tmp_path: Path) -> None:
    assert read(tmp_path, "").emergency.order == EmergencyOrder()
    text = """[emergency]
protect_queues = ["urgent"]
protect_users = ["ada"]
protect_priority = 2
jobs = "end"
file = "/run/wattfold/emergency"
"""
    found = read(tmp_path, text).emergency
    order = EmergencyOrder(queues=("urgent",), users=("ada",), priority=2.0, jobs=JobStep.END)
    assert (found.order, found.file) == (order, Path("/run/wattfold/emergency"))
    assert "is a list of names" in complaint(tmp_path, "[emergency]\nprotect_users = [1]")
    assert "must be an absolute path" in complaint(tmp_path, '[emergency]\nfile = "here"')
    assert "jobs" in complaint(tmp_path, '[emergency]\njobs = "pray"')
