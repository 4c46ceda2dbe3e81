"""Calls to one agent: channel, command header and failure texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.agents.step_keys import StepKeys
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.learning.observations import NodeSample
from wattfold.coordinator.core.model import events as ev
from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb


class FencedError(Exception):
    """An agent obeys a newer coordinator. This coordinator must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Time limits of the contact with agents."""

    command_timeout_s: float = 2.0
    mask_deadline_s: float = 1.0
    map_deadline_s: float = 10.0
    term_grace_s: float = 5.0
    telemetry_interval_s: float = 1.0


async def _ask_nothing(_node_id: NodeId, _inventory: Callable[[], Awaitable[pb.Inventory]]) -> None:
    """Let a node obey without a question."""


@dataclass(slots=True, kw_only=True)
class Hooks:
    """Where an agent's news go."""

    post: Callable[[ev.Event], None]
    sampled: Callable[[NodeSample], None]
    heard: Callable[[NodeId, pb.Telemetry, int], None]
    """A message as it came, and when it was sent by our clock."""
    gone: Callable[[NodeId], None]
    epoch: Callable[[], int]
    coordinator_id: str
    fenced: Callable[[FencedError], None]
    step_key: StepKeys
    launch_data: Callable[[JobId], LaunchData | None]
    journal_number: Callable[[], int] = lambda: 0
    """Number of the last event on disk."""
    ask_first: Callable[[NodeId, Callable[[], Awaitable[pb.Inventory]]], Awaitable[None]] = (
        _ask_nothing
    )
    """Called before each contact, with a call that gives the inventory; may raise FencedError."""


class AgentCalls:
    """Calls to one agent."""

    def __init__(
        self, node_id: NodeId, address: str, token: str, hooks: Hooks, timeout_s: float
    ) -> None:
        self.node_id = node_id
        self.address = address
        self._hooks = hooks
        self._timeout_s = timeout_s
        self._metadata = channels.metadata(token)
        self._channel = channels.open_channel(address)
        self.stub = channels.agent_stub(self._channel)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    def header(self, request_id: str, cause: str) -> common_pb2.CommandHeader:
        """Return the header of a command."""
        return common_pb2.CommandHeader(
            epoch=self._hooks.epoch(),
            coordinator_id=self._hooks.coordinator_id,
            request_id=request_id,
            cause=cause,
            journal_number=self._hooks.journal_number(),
        )

    async def call(
        self,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer of a method of the stub. Raises FencedError and AioRpcError."""
        timeout = timeout_s or self._timeout_s
        try:
            return channels.readable(
                await method(request, timeout=timeout, metadata=self._metadata)
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ABORTED:
                raise self.fence(_text(error)) from error
            raise

    def fence(self, text: str) -> FencedError:
        """Return the error for an agent that obeys another coordinator."""
        return FencedError(
            f"agent {self.node_id} obeys another coordinator: {text}. If that coordinator is "
            "gone for good, start this coordinator with --moved",
        )

    def telemetry(self, request: pb.StreamTelemetryRequest) -> Any:
        """Open the telemetry stream."""
        return self.stub.StreamTelemetry(request, metadata=self._metadata)

    def reason(self, error: Exception) -> str:
        """Return the reason of a failed call, for people."""
        if not isinstance(error, grpc.aio.AioRpcError):
            return str(error)
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return f"no agent answers at {self.address}"
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"the agent at {self.address} did not answer in time"
        return _text(error) or error.code().name.lower()


def _text(error: grpc.aio.AioRpcError) -> str:
    return error.details() or ""
