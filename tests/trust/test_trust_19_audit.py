"""The audit log records who made each request, and the log records normal work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from trust.head import Head
from trust.other_account import ask
from unit.adapters.test_service import Bench, big, run, submitted

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.asking import ASKING, Asking, asker
from wattfold.coordinator.adapters.channels import TokenInterceptor
from wattfold.coordinator.adapters.door.auditing import (
    LOOKS,
    STRANGERS_MAX_PER_MINUTE,
    AuditInterceptor,
)
from wattfold.coordinator.adapters.door.peer_door import PeerDoor
from wattfold.coordinator.adapters.door.peers import NOBODY, account_of, own_end, peer_of
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

METHODS = {method.name: method for method in pb.DESCRIPTOR.services_by_name["Coordinator"].methods}
OWN = account_of(os.geteuid())
TOKEN = "a token of sixteen or more"
LOG_LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [A-Z]+ event=[a-z_]+"
    r'(?: [a-z_]+=(?:[^ "=]+|"(?:[^"\\]|\\.)*"))*$'
)


def entry(**fields: Any) -> AuditEntry:
    values = {"time_s": 1.0, "account": "ada", "uid": 7, "peer": "unix", "action": "Cancel"}
    return AuditEntry(**{**values, **fields})


# The interceptor, in front of a service that implements only one call.


class Refuses(coordinator_pb2_grpc.CoordinatorServicer):
    """Answers Cancel with the length of the caller's account name; every other call is
    unimplemented.
    """

    async def Cancel(  # noqa: N802 - the name of the call
        self, request: pb.CancelRequest, context: Any
    ) -> pb.CancelResponse:
        return pb.CancelResponse(state=len(asker().account))


async def served(
    folder: Path,
    test: Callable[[grpc.aio.Channel, list[AuditEntry]], Awaitable[None]],
    *more: grpc.aio.ServerInterceptor,
    door: bool = True,
) -> None:
    noted: list[AuditEntry] = []
    entrance = PeerDoor(folder / "c.sock", folder / "inner.sock") if door else None
    audit = AuditInterceptor(noted.append, entrance.key if entrance else "")
    server = grpc.aio.server(interceptors=[audit, *more])
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Refuses(), server)
    if entrance is None:
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    else:
        address = f"unix:{folder}/c.sock"
        server.add_insecure_port(f"unix:{entrance.behind}")
    await server.start()
    if entrance:
        entrance.open()
    try:
        async with asyncio.timeout(240), grpc.aio.insecure_channel(address) as channel:
            await test(channel, noted)
    finally:
        if entrance:
            await asyncio.to_thread(entrance.close)
        await server.stop(0)


def call(channel: grpc.aio.Channel, name: str, request: Any) -> Awaitable[bytes]:
    method = channel.unary_unary(f"/wattfold.v1.Coordinator/{name}")
    answer: Awaitable[bytes] = method(request.SerializeToString())
    return answer


def request_of(name: str) -> Any:
    return getattr(pb, METHODS[name].input_type.name)()


def test_what_is_said_to_be_a_mere_look_is_a_call() -> None:
    assert METHODS.keys() >= LOOKS


@pytest.mark.parametrize("name", sorted(METHODS.keys() - LOOKS))
def test_every_other_call_is_audited(folder: Path, name: str) -> None:
    async def test(channel: grpc.aio.Channel, noted: list[AuditEntry]) -> None:
        # All but one call are refused by the service.
        with contextlib.suppress(grpc.aio.AioRpcError):
            await call(channel, name, request_of(name))
        assert [(e.action, e.account, e.uid) for e in noted] == [(name, OWN, os.geteuid())]
        assert noted[0].outcome == ("done" if name == "Cancel" else "refused")

    asyncio.run(served(folder, test))


def test_a_look_is_not(folder: Path) -> None:
    async def test(channel: grpc.aio.Channel, noted: list[AuditEntry]) -> None:
        with pytest.raises(grpc.aio.AioRpcError):
            await call(channel, "GetPower", pb.GetPowerRequest())
        assert noted == []

    asyncio.run(served(folder, test))


def test_values_are_kept_and_secrets_are_not(folder: Path) -> None:
    async def test(channel: grpc.aio.Channel, noted: list[AuditEntry]) -> None:
        spec = pb.JobSpec(
            argv=["run", "--password=xyzzy"], env={"K": "xyzzy"}, name="my job", kind=1
        )
        with pytest.raises(grpc.aio.AioRpcError):
            await call(channel, "Submit", pb.SubmitRequest(spec=spec, idempotency_key="xyzzy"))
        await call(channel, "Cancel", pb.CancelRequest(job_id="7"))
        assert noted[0].detail == 'name="my job" kind=job_kind_rigid'
        assert "xyzzy" not in str(noted)
        assert (noted[1].job, noted[1].detail) == ("7", "")

    asyncio.run(served(folder, test))


def test_a_connection_past_the_door_is_nobodys(folder: Path) -> None:
    async def test(channel: grpc.aio.Channel, noted: list[AuditEntry]) -> None:
        async with grpc.aio.insecure_channel(f"unix:{folder}/inner.sock") as inner:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(inner, "Cancel", pb.CancelRequest())
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(served(folder, test))


def test_large_answers_come_through_the_door_whole(folder: Path) -> None:
    class Large(coordinator_pb2_grpc.CoordinatorServicer):
        async def ListJobs(  # noqa: N802 - the name of the call
            self, request: Any, context: Any
        ) -> pb.ListJobsResponse:
            return pb.ListJobsResponse(jobs=[pb.Job(message="x" * 1000)] * 3000)

    async def go() -> None:
        door = PeerDoor(folder / "c.sock", folder / "inner.sock")
        server = grpc.aio.server()
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Large(), server)
        server.add_insecure_port(f"unix:{door.behind}")
        await server.start()
        door.open()
        async with asyncio.timeout(240), grpc.aio.insecure_channel(f"unix:{folder}/c.sock") as at:
            answers = await asyncio.gather(
                *(call(at, "ListJobs", pb.ListJobsRequest()) for _ in range(8))
            )
        await asyncio.to_thread(door.close)
        await server.stop(0)
        assert {len(answer) for answer in answers} == {3000 * 1006}

    asyncio.run(go())
    assert not (folder / "c.sock").exists()


def test_over_tcp_it_is_the_account_of_the_token(folder: Path) -> None:
    async def test(channel: grpc.aio.Channel, noted: list[AuditEntry]) -> None:
        method = channel.unary_unary("/wattfold.v1.Coordinator/Cancel")
        await method(b"", metadata=(("authorization", f"Bearer {TOKEN}"),))
        for _ in range(STRANGERS_MAX_PER_MINUTE + 20):
            with pytest.raises(grpc.aio.AioRpcError):
                await method(b"")
        assert (noted[0].account, noted[0].outcome) == (OWN, "done")
        assert noted[0].peer.startswith("ipv4:127.0.0.1:")
        strangers = noted[1:]
        assert {(e.account, e.uid, e.outcome) for e in strangers} == {("", -1, "refused")}
        # Twice as many if a minute ended meanwhile.
        assert len(strangers) in range(STRANGERS_MAX_PER_MINUTE, STRANGERS_MAX_PER_MINUTE + 21)

    asyncio.run(served(folder, test, TokenInterceptor(TOKEN), door=False))


@pytest.mark.parametrize(
    "name", ["unix:", "unix:/tmp/x", "unix-abstract:wattfold-peer-other-0-1", "unix-abstract:x"]
)
def test_a_name_the_door_has_not_given_says_nothing(name: str) -> None:
    assert peer_of(name, "key") is NOBODY
    given = own_end(0, "key", 1).replace("\0", "unix-abstract:")
    assert peer_of(given, "key").uid == 0


# Stored entries.


def test_an_entry_is_stored_with_its_event(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        asking = Asking(peer=NOBODY, entry=entry(action="Submit"))
        ASKING.set(asking)
        await bench.service.request(submitted("a"))
        assert asking.stored
        assert [e.job for e in bench.service.audit(AuditFilter())] == ["a"]

    run(tmp_path, test)


def test_an_event_that_is_withdrawn_takes_its_entry_along(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        asking = Asking(peer=NOBODY, entry=entry(action="Submit"))
        ASKING.set(asking)
        bench.disk_is_full(True)
        with pytest.raises(JournalError):
            await bench.service.request(big("a"))
        bench.disk_is_full(False)
        assert not asking.stored
        assert bench.service.audit(AuditFilter()) == []

    run(tmp_path, test)


def test_the_oldest_go_and_filters_find_the_others(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", kept_requests=10)
    for number in range(15):
        odd = "ada" if number % 2 else "eve"
        journal.note(entry(time_s=float(number), account=odd, job=str(number), node="n0"))
    journal.commit()

    def jobs(**wanted: Any) -> list[int]:
        return [int(e.job) for e in journal.audit(AuditFilter(**wanted))]

    assert jobs() == list(range(5, 15))
    assert jobs(limit=3) == [12, 13, 14]
    assert jobs(since_s=7.0, until_s=9.0) == [7, 8, 9]
    assert jobs(account="ada") == [5, 7, 9, 11, 13]
    assert jobs(job="6", action="cancel", node="n0") == [6]
    assert jobs(action="Submit") == jobs(node="n1") == []
    journal.close()


# The complete entry.


def test_who_lowered_the_budget(folder: Path) -> None:
    with Head(folder) as head:
        assert head.wattfold("budget", "set", "80").returncode == 0
        assert head.wattfold("cancel", "99").returncode == 4
        head.stop()
        head.start()
        (lowered,) = head.json("audit", "--action", "SetBudget")["entries"]
        assert (lowered["account"], lowered["uid"], lowered["peer"]) == (OWN, os.geteuid(), "unix")
        assert lowered["outcome"] == "done"
        assert "budget_w=80.0" in lowered["detail"]
        (refused,) = head.json("audit", "--job", "99", "--since", "1h")["entries"]
        assert (refused["outcome"], refused["message"]) == ("refused", "no job '99'")
        text = head.wattfold("audit").stdout
        assert OWN in text
        assert "SetBudget" in text
        assert head.wattfold("audit", "--until", "2001-01-01").stdout.startswith(
            "No matching requests"
        )
        wrong = head.wattfold("audit", "--since", "yesterday")
        assert wrong.returncode == 2
        assert "not a time: 'yesterday'" in wrong.stderr
    lines = head.log.read_text().splitlines()
    assert [text for text in lines if not LOG_LINE.match(text)] == []
    changed = next(text for text in lines if "event=budget_changed" in text and "=80.0" in text)
    assert "before_w=100.0" in changed
    assert any("event=asked action=SetBudget" in text for text in lines)


@pytest.mark.skipif(os.geteuid() != 0, reason="asks as another account")
def test_the_kernel_names_the_account(folder: Path) -> None:
    with Head(folder) as head:
        for path, mode in ((folder, 0o755), (folder / "run", 0o755)):
            path.chmod(mode)
        (folder / "run/c.sock").chmod(0o666)
        head.submit(held=True)
        code, text = asyncio.run(ask(65534, head.address, "release", "1"))
        assert (code, f"belongs to {OWN}; only" in text) == (1, True), text
        (found,) = head.json("audit", "--action", "Release")["entries"]
        assert (found["uid"], found["account"]) == (65534, account_of(65534))
        assert (found["job_id"], found["outcome"]) == ("1", "refused")
        code, text = asyncio.run(ask(65534, head.address, "--json", "audit"))
        assert [e["action"] for e in json.loads(text)["entries"]] == ["Release"]
        code, text = asyncio.run(ask(65534, head.address, "audit", "--user", OWN))
        assert code == 1
        assert "only operators may see" in text


@pytest.mark.parametrize("value", ["a b", 'a"b', "a=b", "", "a\nb", "\x1b[2J"])
def test_a_line_is_one_line_and_can_be_taken_apart(value: str) -> None:
    text = line("told", reason=value, job=JobId("7"))
    found = re.fullmatch(r'event=told reason=("(?:[^"\\]|\\.)*") job=7', text)
    assert found is not None, text
    assert json.loads(found[1]) == value
    assert "\x1b" not in text
