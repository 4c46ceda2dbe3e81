"""A connection without data stays, and one that ends because of its age is no silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from believes.any_site import AnyAgent
from believes.sound_node import inventory
from believes.watched import no_traceback

from wattfold.contract.ids import NodeId
from wattfold.contract.keep_alive import PING_EVERY_MS
from wattfold.coordinator.adapters.agents import link
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.channels import agent_stub, open_channel
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.serving import _server
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.app import _serve
from wattfold.v1 import coordinator_pb2, coordinator_pb2_grpc, node_agent_pb2_grpc
from wattfold.v1 import node_agent_pb2 as pb

N0 = NodeId("n0")
QUIET_S = 4 * PING_EVERY_MS / 1000
"""A server that permits no pings ends a connection at the third."""
WITHIN_S = 240.0
SETTINGS = AgentSettings(command_timeout_s=WITHIN_S, telemetry_interval_s=WITHIN_S)


class SlowAgent(node_agent_pb2_grpc.NodeAgentServicer):
    """Sends telemetry now and then."""

    async def StreamTelemetry(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[pb.Telemetry]:
        while True:
            yield pb.Telemetry()
            await asyncio.sleep(request.interval_ns / 1e9)


class SlowCoordinator(coordinator_pb2_grpc.CoordinatorServicer):
    """Has something to show now and then."""

    async def Watch(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[coordinator_pb2.ClusterView]:
        while True:
            yield coordinator_pb2.ClusterView()
            await asyncio.sleep(request.interval_ns / 1e9)


async def two_messages(stream: Any) -> None:
    for _ in range(2):
        assert await stream.read() is not grpc.aio.EOF
    stream.cancel()


def test_our_own_pings_end_no_connection_without_data(tmp_path: Path) -> None:
    folders = ["--state-dir", str(tmp_path / "s"), "--run-dir", str(tmp_path), "--emulate"]
    config = replace(load(folders), listen=f"unix:{tmp_path}/agent.sock")
    every_ns = round(QUIET_S * 1e9)

    async def go() -> None:
        agent, to_agent = await _serve(config, SlowAgent())  # type: ignore[arg-type]
        head = await _server(f"unix:{tmp_path}/head.sock", SlowCoordinator(), [])  # type: ignore[arg-type]
        try:
            async with (
                asyncio.timeout(WITHIN_S),
                open_channel(to_agent) as telemetry,
                open_channel(f"unix:{tmp_path}/head.sock") as watching,
            ):
                request = pb.StreamTelemetryRequest(interval_ns=every_ns)
                watch: Any = coordinator_pb2_grpc.CoordinatorStub
                await asyncio.gather(
                    two_messages(agent_stub(telemetry).StreamTelemetry(request)),
                    two_messages(
                        watch(watching).Watch(coordinator_pb2.WatchRequest(interval_ns=every_ns))
                    ),
                )
        finally:
            await agent.stop(0)
            await head.stop(0)

    asyncio.run(go())


class AgeingAgent(AnyAgent):
    """Its server ends connections after three seconds. Counts its streams."""

    def __init__(self) -> None:
        super().__init__(N0)
        self._server = grpc.aio.server(
            options=[("grpc.max_connection_age_ms", 3000), ("grpc.max_connection_age_grace_ms", 1)]
        )
        self.streams = 0
        self.instance = "a"
        self.enough = asyncio.Event()

    async def _stream(self, body: bytes, context: Any) -> AsyncIterator[bytes]:
        self.streams += 1
        if self.streams == 3:
            self.enough.set()
        async for message in super()._stream(body, context):
            yield message

    def _sound(self, name: str, request: Any) -> Any:
        if name != "GetInventory":
            return super()._sound(name, request)
        answer = inventory(N0)
        answer.agent_instance = self.instance
        return answer


async def followed(agent: AgeingAgent) -> list[ev.Event]:
    """What the link of an agent posts until its third stream has begun."""
    posted: list[ev.Event] = []
    await agent.start()
    hooks = Hooks(
        post=posted.append,
        sampled=lambda _: None,
        heard=lambda *_: None,
        gone=lambda _: None,
        epoch=lambda: 1,
        coordinator_id="c",
        fenced=lambda _: None,
        launch_data=lambda _: None,
        step_key=lambda _: b"",
    )
    clock = Clock()
    contact = AgentLink(
        N0, agent.address, "", hooks, SETTINGS, clock, OwnLag(clock.now_ns), Contacts()
    )
    running = asyncio.create_task(contact.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            await agent.enough.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await contact.close()
        await agent.stop()
    return posted


def test_a_stream_that_ends_because_of_its_age_is_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The age counts from the connection on. On a busy machine a stream may begin much later.
    monkeypatch.setattr(link, "STEADY_NS", 10**8)

    async def go() -> None:
        with no_traceback():
            posted = await followed(AgeingAgent())
        assert [type(event) for event in posted] == [reports.NodeConnected]

    asyncio.run(go())


def test_an_agent_that_was_started_again_was_silent() -> None:
    class Restarted(AgeingAgent):
        async def _stream(self, body: bytes, context: Any) -> AsyncIterator[bytes]:
            self.instance += "a"
            async for message in super()._stream(body, context):
                yield message

    async def go() -> None:
        kinds = [type(event) for event in await followed(Restarted())]
        connected, silent = reports.NodeConnected, reports.NodeSilent
        assert kinds == [connected, silent, connected, silent, connected]

    asyncio.run(go())
