"""Programs of the site, called by a process that serves gRPC."""

from __future__ import annotations

import asyncio
import os
import pwd
from pathlib import Path
from typing import Any

import grpc
import pytest

from wattfold.coordinator.adapters.site_programs import SiteProgramError, run_program
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

NOBODY = "nobody"
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the account")


class Jobs(coordinator_pb2_grpc.CoordinatorServicer):
    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        return pb.ListJobsResponse()


async def beside_calls(folder: Path, words: list[str], account: str, times: int) -> list[str]:
    """Run a program so many times while a server in this process answers calls."""
    server = grpc.aio.server()
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Jobs(), server)
    server.add_insecure_port(f"unix:{folder}/s")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{folder}/s") as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)

        async def call_for_ever() -> None:
            while True:
                await stub.ListJobs(pb.ListJobsRequest())

        calls = [asyncio.create_task(call_for_ever()) for _ in range(4)]
        told = [await run_program(words, account) for _ in range(times)]
        for task in calls:
            task.cancel()
    await server.stop(None)
    return told


@root
def test_a_program_of_another_account_does_not_crash_in_a_server(tmp_path: Path) -> None:
    # After a fork, handlers of gRPC crash or hang 3 of 10 programs before they begin.
    told = asyncio.run(beside_calls(tmp_path, ["/usr/bin/id", "-un"], NOBODY, 20))
    assert told == [f"{NOBODY}\n"] * 20


@root
def test_a_program_has_the_groups_of_its_account_and_no_privileges() -> None:
    words = ["/bin/sh", "-c", "id -G; grep -E '^(Cap(Eff|Prm)|Uid)' /proc/self/status"]
    told = asyncio.run(run_program(words, NOBODY)).splitlines()
    entry = pwd.getpwnam(NOBODY)
    groups = {int(word) for word in told[0].split()}
    assert groups == set(os.getgrouplist(NOBODY, entry.pw_gid))
    assert told[1].split() == ["Uid:", *[str(entry.pw_uid)] * 4]
    assert {line.split()[1] for line in told[2:]} == {"0" * 16}


@root
def test_a_missing_program_of_another_account_is_named() -> None:
    with pytest.raises(SiteProgramError, match="/nonexistent/x: No such file"):
        asyncio.run(run_program(["/nonexistent/x"], NOBODY))


def test_the_input_need_not_be_read() -> None:
    assert asyncio.run(run_program(["/bin/true"], "", b"x" * 1_000_000)) == ""


def test_the_end_of_the_output_is_kept() -> None:
    words = ["/bin/sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo last"]
    assert asyncio.run(run_program(words, "")).endswith("xlast\n")
