"""Contact with one agent, and its telemetry.

It asks for inventory and processes, then follows the telemetry; when that breaks or pauses, the
node is silent and contact is sought again, for ever. Time in which this process was held up itself
is no pause.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import agent_messages as messages
from wattfold.coordinator.adapters.agent_calls import AgentCalls, AgentSettings, FencedError, Hooks
from wattfold.coordinator.adapters.agent_commands import AgentCommands
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.own_lag import OwnLag, Silence
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.node import NodeSpec
from wattfold.v1 import node_agent_pb2 as pb

log = logging.getLogger("wattfold.agents")

RECONNECT_S = 0.25
RECONNECT_S_MAX = 2.0
SILENT_AFTER_INTERVALS = 4


class AgentLink:
    """Contact with one agent."""

    def __init__(
        self,
        node_id: NodeId,
        address: str,
        token: str,
        hooks: Hooks,
        settings: AgentSettings,
        clock: Clock,
        lag: OwnLag,
    ) -> None:
        self.node_id = node_id
        self.address = address
        self._hooks = hooks
        self._settings = settings
        self._clock = clock
        self._silence = Silence(lag, clock.now_ns)
        self._calls = AgentCalls(node_id, address, token, hooks, settings.command_timeout_s)
        self.commands = AgentCommands(self._calls, hooks, settings, self._remembered)
        self._reported: set[tuple[JobId, int]] = set()
        """Ends that were posted, by job and attempt."""
        self._offset = messages.ClockOffset()
        self._not_held: messages.Powers = {}

    async def run(self) -> None:
        """Keeps contact until cancelled, or until the node obeys a newer coordinator."""
        delay_s, last_reason = RECONNECT_S, ""
        while True:
            try:
                spec = await self._connect()
                delay_s, last_reason = RECONNECT_S, ""
                await self._follow(spec)
                reason = "its telemetry stream ended"
            except FencedError as error:
                self._hooks.fenced(error)
                return
            except TimeoutError:
                reason = "its telemetry stopped arriving"
            except messages.MessageError as error:
                reason = f"the agent is not usable: {error}"
            except grpc.aio.AioRpcError as error:
                reason = self._calls.reason(error)
            except Exception as error:
                # A defect met with one node must neither end this task unseen nor harm others.
                log.exception(line("contact_failed", node=self.node_id))
                reason = f"contact failed: {error!r}"
            if reason != last_reason:
                log.warning(line("node_silent", node=self.node_id, reason=reason))
                self._hooks.gone(self.node_id)
                self._hooks.post(reports.NodeSilent(node_id=self.node_id, reason=reason))
                last_reason = reason
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 1.5, RECONNECT_S_MAX)

    async def close(self) -> None:
        """Gives commands under way up and closes the channel."""
        await self.commands.close()
        await self._calls.close()

    async def _connect(self) -> NodeSpec:
        calls = self._calls
        inventory: pb.Inventory = await calls.call(
            calls.stub.GetInventory, pb.GetInventoryRequest()
        )
        listed: pb.ListProcessesResponse = await calls.call(
            calls.stub.ListProcesses, pb.ListProcessesRequest()
        )
        spec = messages.node_spec(inventory, self.node_id, self.address)
        if inventory.epoch > self._hooks.epoch():
            raise calls.fence(f"its epoch {inventory.epoch} is newer than {self._hooks.epoch()}")
        self._offset = messages.ClockOffset()
        processes = tuple(messages.process(entry) for entry in listed.processes)
        self._reported = {(p.job_id, p.attempt) for p in processes if not p.running}
        self._not_held = messages.not_held(inventory, spec)
        self._hooks.post(
            reports.NodeConnected(
                spec=spec,
                caps=messages.readings_of_inventory(inventory),
                processes=processes,
                left=inventory.left,
            ),
        )
        log.info(line("node_connected", node=self.node_id, processes=len(processes)))
        return spec

    async def _follow(self, spec: NodeSpec) -> None:
        interval_s = self._settings.telemetry_interval_s
        request = pb.StreamTelemetryRequest(interval_ns=round(interval_s * 1e9))
        call = self._calls.telemetry(request)
        listening = asyncio.create_task(self._listen(call, spec))
        limit_ns = round(interval_s * SILENT_AFTER_INTERVALS * 1e9)
        self._silence.heard()
        try:
            while not listening.done():
                left_ns = limit_ns - self._silence.lasted_ns
                if left_ns <= 0:
                    raise TimeoutError
                await asyncio.wait([listening], timeout=left_ns / 1e9)
            await listening
        finally:
            call.cancel()
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, call: Any, spec: NodeSpec) -> None:
        """Takes messages until the stream ends; how long it may pause is judged by `_follow`."""
        while (message := await call.read()) is not grpc.aio.EOF:
            self._silence.heard()
            self._take(message, spec)
        await _raise_status(call)

    def _take(self, message: pb.Telemetry, spec: NodeSpec) -> None:
        sent_ns = self._offset.ours(message.uptime_ns, self._clock.now_ns())
        self._hooks.sampled(messages.sample(message, spec, sent_ns))
        self._hooks.heard(self.node_id, message, sent_ns)
        over = messages.not_held(message, spec)
        if messages.tells_more(self._not_held, over):
            self._not_held = over
            powers = tuple(sorted(over.items()))
            self._hooks.post(reports.CapsNotHeld(node_id=self.node_id, powers_uw=powers))
        ended = [messages.process(entry) for entry in message.ended]
        for reading in ended:
            if (reading.job_id, reading.attempt) not in self._reported:
                self._hooks.post(reports.ProcessEnded(node_id=self.node_id, process=reading))
        self._reported = {(reading.job_id, reading.attempt) for reading in ended}

    def _remembered(self, job_id: JobId, attempt: int) -> None:
        # It is told again with the next message, and forgotten then.
        self._reported.discard((job_id, attempt))


async def _raise_status(call: Any) -> None:
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        details = await call.details()
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
