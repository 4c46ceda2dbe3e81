"""An agent limits the connections of one address and of all addresses."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wattfold.nodeagent import app
from wattfold.nodeagent.adapters import connection_limit
from wattfold.nodeagent.adapters.connection_limit import ConnectionLimit
from wattfold.v1 import node_agent_pb2_grpc

HOST, OTHER = "127.0.0.1", "127.0.0.2"


def connected(port: int, source: str = OTHER) -> socket.socket:
    made = socket.create_connection((HOST, port), timeout=240, source_address=(source, 0))
    made.settimeout(240)
    return made


@contextlib.contextmanager
def closing(connections: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def test_the_newest_of_an_address_with_too_many_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_limit, "CONNECTIONS_MAX_OF_ONE", 4)
    monkeypatch.setattr(connection_limit, "DESCRIPTORS_MIN", 0)
    listening = socket.create_server((HOST, 0))
    port = listening.getsockname()[1]
    many = [connected(port) for _ in range(10)]
    few = [connected(port, HOST) for _ in range(3)]
    served = [listening.accept()[0] for _ in range(13)]

    async def look() -> int:
        return ConnectionLimit(f"{HOST}:{port}").look()

    with closing([listening, *many, *few, *served]):
        assert asyncio.run(look()) == 6
        assert [connection.recv(1) for connection in many[4:]] == [b""] * 6
        for server in served:
            with contextlib.suppress(BrokenPipeError):
                server.sendall(b"x")
        assert [connection.recv(1) for connection in many[:4] + few] == [b"x"] * 7


def test_the_agent_takes_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "CONNECTIONS_MAX", 5)
    config = SimpleNamespace(listen=f"{HOST}:0", token="", run_dir=tmp_path)

    async def run() -> list[int]:
        servicer = cast(Any, node_agent_pb2_grpc.NodeAgentServicer())
        server, address = await app._serve(cast(Any, config), servicer)
        port = int(address.rpartition(":")[2])
        connections: list[socket.socket] = []
        said = []
        with closing(connections):
            for _ in range(8):
                connections.append(await asyncio.to_thread(connected, port))
                said.append(len(await asyncio.to_thread(connections[-1].recv, 1)))
            await server.stop(0)
        return said

    assert asyncio.run(run()) == [1] * 5 + [0] * 3
