"""Contact with one agent, and its telemetry.

The link requests the inventory and the processes, then follows the telemetry. If the stream breaks
or pauses, the node is silent, and the link tries to reconnect without limit. Time in which this
process itself was delayed does not count as a pause.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.agents import messages
from wattfold.coordinator.adapters.agents.calls import AgentCalls, AgentSettings, FencedError, Hooks
from wattfold.coordinator.adapters.agents.commands import AgentCommands
from wattfold.coordinator.adapters.agents.inventories import MessageError, node_spec, unknown_parts
from wattfold.coordinator.adapters.agents.own_lag import OwnLag, Silence
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.v1 import node_agent_pb2 as pb

log = logging.getLogger("wattfold.agents")

RECONNECT_S = 0.25
RECONNECT_S_MAX = 2.0
SILENT_AFTER_INTERVALS = 4
CONTACTS_AT_ONCE = 32
STEADY_NS = 2_000_000_000
"""A telemetry stream that ends sooner is no stream that has become old."""


class Contacts:
    """Turns for the first contact, so that a thousand nodes do not delay each other.

    Nodes that did not answer wait in a separate queue, so their timeouts delay no other node.
    """

    def __init__(self, at_once: int = CONTACTS_AT_ONCE) -> None:
        self._first = asyncio.Semaphore(at_once)
        self._again = asyncio.Semaphore(at_once)

    def turn(self, answered: bool) -> asyncio.Semaphore:
        """Return the turn to hold during a contact. ``answered``: False after a failed contact."""
        return self._first if answered else self._again


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
        contacts: Contacts,
    ) -> None:
        self.node_id = node_id
        self.address = address
        self._hooks = hooks
        self._settings = settings
        self._clock = clock
        self._contacts = contacts
        self._silence = Silence(lag, clock.now_ns)
        self._calls = AgentCalls(node_id, address, token, hooks, settings.command_timeout_s)
        self.commands = AgentCommands(self._calls, hooks, settings, self._remembered, self._closed)
        self._reported: set[tuple[JobId, int]] = set()
        """Ends that were posted, by job and attempt."""
        self._adopted: tuple[AdoptedJob, ...] = ()
        """Jobs of another owner, as were posted last."""
        self._offset = messages.ClockOffset()
        self._not_held: messages.Powers = {}
        self.connected: bool | None = None
        """Whether there is contact; None before the first attempt has ended."""
        self._fault = ""
        """Why its node cannot start jobs, as was posted last."""
        self._instance = ""
        """Start of the agent that is in contact."""
        self._unknown: tuple[str, ...] = ()
        """Parts of the node that this version does not know, as was logged last."""

    async def run(self) -> None:
        """Keeps contact until cancelled, or until the node obeys a newer coordinator."""
        delay_s, last_reason, answered = RECONNECT_S, "", True
        while True:
            try:
                async with self._contacts.turn(answered):
                    answered = False
                    spec = await self._connect()
                delay_s, last_reason, answered = RECONNECT_S, "", True
                self.connected = True
                await self._follow_on(spec)
                reason = "its telemetry stream ended"
            except FencedError as error:
                self._hooks.fenced(error)
                return
            except TimeoutError:
                reason = "its telemetry stopped arriving"
            except MessageError as error:
                reason = f"the agent is not usable: {error}"
            except grpc.aio.AioRpcError as error:
                reason = self._calls.reason(error)
            except Exception as error:
                # A defect met with one node must neither end this task unseen nor harm others.
                log.exception(line("contact_failed", node=self.node_id))
                reason = f"contact failed: {error!r}"
            self.connected = False
            if reason != last_reason:
                log.warning(line("node_silent", node=self.node_id, reason=reason))
                self._hooks.gone(self.node_id)
                self._hooks.post(reports.NodeSilent(node_id=self.node_id, reason=reason))
                last_reason = reason
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 1.5, RECONNECT_S_MAX)

    def lost(self) -> None:
        """Mark the contact as ended."""
        self.connected = False
        self._hooks.gone(self.node_id)

    async def close(self) -> None:
        """Cancel the pending commands and close the channel."""
        await self.commands.close()
        await self._calls.close()

    async def _connect(self) -> NodeSpec:
        calls = self._calls
        inventory = await self._take_command()
        listed: pb.ListProcessesResponse = await calls.call(
            calls.stub.ListProcesses, pb.ListProcessesRequest()
        )
        spec = node_spec(inventory, self.node_id, self.address)
        if inventory.epoch > self._hooks.epoch():
            raise calls.fence(f"its epoch {inventory.epoch} is newer than {self._hooks.epoch()}")
        self._instance = inventory.agent_instance
        self._offset = messages.ClockOffset()
        processes = messages.processes(listed)
        self._reported = {(p.job_id, p.attempt) for p in processes if not p.running}
        running = (p for p in listed.processes if p.state == pb.PROCESS_STATE_RUNNING)
        self._adopted = messages.adopted(running)
        self._not_held = messages.not_held(inventory, spec)
        self._fault = inventory.launch_fault
        self._hooks.post(
            reports.NodeConnected(
                spec=spec,
                caps=messages.readings_of_inventory(inventory),
                processes=processes,
                left=inventory.left,
                fault=inventory.launch_fault,
            ),
        )
        log.info(line("node_connected", node=self.node_id, processes=len(processes)))
        self._tell_unknown(inventory)
        return spec

    def _tell_unknown(self, inventory: pb.Inventory) -> None:
        """Log the parts of a newer agent that this version cannot use, in one line."""
        unknown = unknown_parts(inventory)
        if unknown and unknown != self._unknown:
            parts, means = (
                ", ".join(unknown),
                "not used, charged with their maximum power; update the coordinator",
            )
            log.warning(line("node_parts_unknown", node=self.node_id, parts=parts, means=means))
        self._unknown = unknown

    async def _take_command(self) -> pb.Inventory:
        """The inventory of a node that obeys from here on, so that no other changes its caps."""
        calls = self._calls
        await self._hooks.ask_first(
            self.node_id, lambda: calls.call(calls.stub.GetInventory, pb.GetInventoryRequest())
        )
        header = calls.header("", "contact")
        try:
            found: pb.Inventory = await calls.call(
                calls.stub.GetInventory, pb.GetInventoryRequest(header=header)
            )
        except grpc.aio.AioRpcError as error:
            if not messages.of_the_node(error):
                raise
            # The agent cannot store its coordinator and refuses commands; its facts count.
            found = await calls.call(calls.stub.GetInventory, pb.GetInventoryRequest())
        return found

    async def _follow_on(self, spec: NodeSpec) -> None:
        """Follows the telemetry over connections that end while the agent keeps running.

        An agent, or what is between, may end a connection because of its age. That is no silence
        if the same agent answers at once.
        """
        while True:
            began_ns = self._clock.now_ns()
            try:
                await self._follow(spec)
            except grpc.aio.AioRpcError as error:
                old = self._clock.now_ns() - began_ns >= STEADY_NS
                if not old or error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            if self._clock.now_ns() - began_ns < STEADY_NS:
                return
            inventory: pb.Inventory = await self._calls.call(
                self._calls.stub.GetInventory, pb.GetInventoryRequest()
            )
            if inventory.agent_instance != self._instance:
                return

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
            self._take(channels.readable(message), spec)
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
        if message.launch_fault != self._fault:
            self._fault = message.launch_fault
            fault = reports.LaunchFaultReported(node_id=self.node_id, reason=self._fault)
            self._hooks.post(fault)
        ended = [messages.process(entry) for entry in message.ended]
        for reading in ended:
            if (reading.job_id, reading.attempt) not in self._reported:
                self._hooks.post(reports.ProcessEnded(node_id=self.node_id, process=reading))
        self._reported = {(reading.job_id, reading.attempt) for reading in ended}
        self._take_adopted(messages.adopted(message.jobs))

    def _take_adopted(self, adopted: tuple[AdoptedJob, ...]) -> None:
        """Report new and changed jobs of another owner, after the ends of their earlier steps."""
        gone = {job_id for job_id, _ in self._reported}
        known = {job for job in self._adopted if job.job_id not in gone}
        if news := tuple(job for job in adopted if job not in known):
            self._hooks.post(reports.AdoptedJobsSeen(node_id=self.node_id, jobs=news))
        self._adopted = adopted

    def _closed(self, reason: str) -> None:
        # The failed launch reports it to the core. The next message shows whether it persists.
        self._fault = self._fault or reason

    def _remembered(self, job_id: JobId, attempt: int) -> None:
        # It is reported again with the next message, and forgotten then.
        self._reported.discard((job_id, attempt))


async def _raise_status(call: Any) -> None:
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        details = await call.details()
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
