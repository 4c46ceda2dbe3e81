"""The coordinator's side of the agents: contact, telemetry, commands.

One `AgentLink` a node keeps contact: it asks for inventory and processes, then follows the
telemetry; when that breaks or pauses, the node is silent and contact is sought again, for ever.
Time in which this process was held up itself is no pause.
Commands of the core go out as calls of their own; every outcome, a time-out too, becomes an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import agent_messages as messages
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import JournalError
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.adapters.observations import NodeSample
from wattfold.coordinator.adapters.own_lag import OwnLag, Silence
from wattfold.coordinator.adapters.step_keys import StepKeys
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.node import NodeSpec
from wattfold.v1 import common_pb2, node_agent_pb2_grpc
from wattfold.v1 import node_agent_pb2 as pb

log = logging.getLogger("wattfold.agents")

SIGTERM = 15
RECONNECT_S = 0.25
RECONNECT_S_MAX = 2.0
SILENT_AFTER_INTERVALS = 4
LAUNCH_TIMEOUT_S = 10.0
LAUNCHES_AT_ONCE = 16
_PERMANENT = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)
_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class FencedError(Exception):
    """An agent obeys a newer coordinator: this one must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Times of the contact with agents."""

    command_timeout_s: float = 2.0
    mask_deadline_s: float = 1.0
    map_deadline_s: float = 10.0
    term_grace_s: float = 5.0
    telemetry_interval_s: float = 1.0


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
        self._metadata = channels.metadata(token)
        self._channel = channels.open_channel(address)
        self._stub = node_agent_pb2_grpc.NodeAgentStub(self._channel)
        self._reported: set[tuple[JobId, int]] = set()
        """Ends that were posted, by job and attempt."""
        self._offset = messages.ClockOffset()
        self._commands: set[asyncio.Task[None]] = set()
        self._not_held: messages.Powers = {}

    async def run(self) -> None:
        """Keeps contact until cancelled, or until the node obeys a newer coordinator."""
        delay_s, last_reason = RECONNECT_S, ""
        while True:
            try:
                spec = await self._connect()
                delay_s, last_reason = RECONNECT_S, ""
                await self._follow(spec)
                reason = "its telemetry ended"
            except FencedError as error:
                self._hooks.fenced(error)
                return
            except TimeoutError:
                reason = "its telemetry paused"
            except messages.MessageError as error:
                reason = f"it is not usable: {error}"
            except grpc.aio.AioRpcError as error:
                reason = _reason(error, self.address)
            except Exception as error:
                # A defect met with one node must neither end this task unseen nor harm others.
                log.exception(line("contact_failed", node=self.node_id))
                reason = f"contact with it failed: {error!r}"
            if reason != last_reason:
                log.warning(line("node_silent", node=self.node_id, reason=reason))
                self._hooks.gone(self.node_id)
                self._hooks.post(reports.NodeSilent(node_id=self.node_id, reason=reason))
                last_reason = reason
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 1.5, RECONNECT_S_MAX)

    async def close(self) -> None:
        """Gives commands under way up and closes the channel."""
        for task in list(self._commands):
            task.cancel()
        await asyncio.gather(*self._commands, return_exceptions=True)
        await self._channel.close()

    async def _connect(self) -> NodeSpec:
        timeout = self._settings.command_timeout_s
        inventory: pb.Inventory = await self._stub.GetInventory(
            pb.GetInventoryRequest(),
            timeout=timeout,
            metadata=self._metadata,
        )
        listed: pb.ListProcessesResponse = await self._stub.ListProcesses(
            pb.ListProcessesRequest(),
            timeout=timeout,
            metadata=self._metadata,
        )
        spec = messages.node_spec(inventory, self.node_id, self.address)
        if inventory.epoch > self._hooks.epoch():
            raise self._fence(f"epoch {inventory.epoch} is newer than {self._hooks.epoch()}")
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
        call = self._stub.StreamTelemetry(request, metadata=self._metadata)
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

    def perform(self, action: act.Action) -> None:
        """Starts the call of an action."""
        task = asyncio.create_task(self._perform(action))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _perform(self, action: act.Action) -> None:
        try:
            match action:
                case act.SetCaps():
                    await self._set_caps(action)
                case act.Leave():
                    await self._leave(action)
                case act.SetMask():
                    await self._set_mask(action)
                case act.Launch():
                    await self._launch(action)
                case act.Terminate():
                    await self._terminate(action)
                case act.Suspend():
                    await self._suspend(action)
                case act.ForgetProcess():
                    await self._forget(action)
                case act.RenewLease():
                    await self._renew(action)
        except FencedError as error:
            self._hooks.fenced(error)

    def _header(self, request_id: str, cause: str) -> common_pb2.CommandHeader:
        return common_pb2.CommandHeader(
            epoch=self._hooks.epoch(),
            coordinator_id=self._hooks.coordinator_id,
            request_id=request_id,
            cause=cause,
        )

    async def _call(
        self,
        method: Callable[..., Awaitable[Any]],
        request: Any,
        timeout_s: float | None = None,
    ) -> Any:
        timeout = timeout_s or self._settings.command_timeout_s
        try:
            return await method(request, timeout=timeout, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION and "epoch" in _text(error):
                raise self._fence(_text(error)) from error
            raise

    def _fence(self, text: str) -> FencedError:
        return FencedError(
            f"agent {self.node_id} obeys another coordinator: {text}. If that one is gone for "
            "good, start with --first-epoch above its epoch",
        )

    async def _set_caps(self, action: act.SetCaps) -> None:
        request = pb.SetCapsRequest(
            header=self._header(action.request_id, action.cause),
            caps=[pb.ZoneCap(name=name, cap_uw=cap) for name, cap in action.caps],
        )
        unconfirmed = ""
        try:
            answer = await self._call(self._stub.SetCaps, request)
            if any(r.status == pb.CAP_STATUS_NO_LEASE for r in answer.results):
                unconfirmed = "the lease had ended"
        except grpc.aio.AioRpcError as error:
            unconfirmed = _reason(error, self.address)
        if unconfirmed:
            event: ev.Event = reports.CapsUnconfirmed(
                node_id=self.node_id,
                request_id=action.request_id,
                reason=unconfirmed,
            )
        else:
            event = reports.CapsAnswered(
                node_id=self.node_id,
                request_id=action.request_id,
                caps=messages.readings_of_results(answer.results),
            )
        self._hooks.post(event)

    async def _leave(self, action: act.Leave) -> None:
        request = pb.LeaveRequest(header=self._header(action.request_id, action.cause))
        event: ev.Event
        try:
            answer = await self._call(self._stub.Leave, request)
            event = reports.LeaveAnswered(
                node_id=self.node_id,
                request_id=action.request_id,
                caps=messages.readings_of_leave(answer),
            )
        except grpc.aio.AioRpcError as error:
            event = reports.LeaveFailed(
                node_id=self.node_id,
                request_id=action.request_id,
                reason=_reason(error, self.address),
                refused=error.code() in (grpc.StatusCode.FAILED_PRECONDITION, *_PERMANENT),
            )
        self._hooks.post(event)

    async def _set_mask(self, action: act.SetMask) -> None:
        mapped = bool(action.processor_map)
        deadline_s = self._settings.map_deadline_s if mapped else self._settings.mask_deadline_s
        request = pb.SetMaskRequest(
            header=self._header(action.request_id, action.cause),
            job_id=action.job_id,
            cpus=str(action.cpus),
            deadline_ns=round(deadline_s * 1e9),
            processor_map=action.processor_map,
            resident=action.resident,
        )
        timeout_s = deadline_s + self._settings.command_timeout_s
        event: ev.Event
        try:
            answer = await self._call(self._stub.SetMask, request, timeout_s)
            event = reports.MaskConfirmed(
                node_id=self.node_id,
                job_id=action.job_id,
                cpus=CpuSet.parse(answer.cpus),
                confined=answer.shim == pb.SHIM_STATE_CONFINED,
                attempt=action.attempt,
                resident=action.resident,
                processor_map=action.processor_map,
                map_applied=mapped and messages.has_map(answer, action),
                took_ns=answer.acknowledged_in_ns,
                stalled_ns=answer.stalled_ns if answer.HasField("stalled_ns") else -1,
                moved_bytes=answer.moved_bytes if answer.HasField("moved_bytes") else -1,
            )
            if mapped:
                messages.log_map(log, action, answer)
        except (grpc.aio.AioRpcError, ValueError) as error:
            event = reports.MaskFailed(
                node_id=self.node_id,
                job_id=action.job_id,
                reason=_reason(error, self.address),
                attempt=action.attempt,
            )
        self._hooks.post(event)

    async def _launch(self, action: act.Launch) -> None:
        launch, missing = self._launch_data(action)
        if launch is None:
            self._hooks.post(missing)
            return
        request = messages.launch_request(
            action,
            self._header(action.request_id, action.cause),
            launch,
            self._hooks.step_key(action.job_id),
        )
        event: ev.Event
        try:
            answer = await self._call(self._stub.Launch, request, LAUNCH_TIMEOUT_S)
            event = reports.JobLaunched(
                node_id=self.node_id,
                job_id=action.job_id,
                pid=answer.pid,
                attempt=action.attempt,
            )
        except grpc.aio.AioRpcError as error:
            event = reports.LaunchFailed(
                node_id=self.node_id,
                job_id=action.job_id,
                reason=_reason(error, self.address),
                permanent=error.code() in _PERMANENT,
                attempt=action.attempt,
            )
        self._hooks.post(event)

    def _launch_data(self, action: act.Launch) -> tuple[LaunchData | None, reports.LaunchFailed]:
        """What the start needs, and what to tell of it if it is not there."""
        launch, reason = None, "its environment is not in the journal any more: submit it again"
        permanent = True
        try:
            launch = self._hooks.launch_data(action.job_id)
        except JournalError as error:
            reason, permanent = str(error), False
        failed = reports.LaunchFailed(
            node_id=self.node_id,
            job_id=action.job_id,
            reason=reason,
            permanent=permanent,
            attempt=action.attempt,
        )
        return launch, failed

    async def _terminate(self, action: act.Terminate) -> None:
        request = pb.EndAttemptRequest(
            header=self._header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
            signal=action.signal or SIGTERM,
            grace_ns=action.grace_ns or round(self._settings.term_grace_s * 1e9),
            saves=action.saves,
        )
        reason, refused = "it is not there", True
        try:
            found = await self._end_attempt(request)
        except grpc.aio.AioRpcError as error:
            found, reason = False, _reason(error, self.address)
            refused = error.code() not in _UNANSWERED
        if not found:
            failed = reports.TerminateFailed(
                node_id=self.node_id,
                job_id=action.job_id,
                reason=reason,
                refused=refused,
                attempt=action.attempt,
            )
            self._hooks.post(failed)

    async def _end_attempt(self, request: pb.EndAttemptRequest) -> bool:
        """Whether it was there to be ended."""
        try:
            return bool((await self._call(self._stub.EndAttempt, request)).found)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        # An agent of an earlier version, which knows of no attempts.
        signal = pb.SignalRequest(
            header=request.header, job_id=request.job_id, signal=SIGTERM, grace_ns=request.grace_ns
        )
        return bool((await self._call(self._stub.Signal, signal)).found)

    async def _suspend(self, action: act.Suspend) -> None:
        request = pb.SuspendRequest(
            header=self._header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
            suspended=action.suspended,
        )
        event: ev.Event
        try:
            answer = await self._call(self._stub.Suspend, request)
            reason = "" if answer.found else "it is not there"
        except grpc.aio.AioRpcError as error:
            reason = _reason(error, self.address)
        if reason:
            event = reports.SuspensionFailed(
                node_id=self.node_id,
                job_id=action.job_id,
                reason=reason,
                attempt=action.attempt,
            )
        else:
            event = reports.SuspensionConfirmed(
                node_id=self.node_id,
                job_id=action.job_id,
                suspended=action.suspended,
                attempt=action.attempt,
            )
        self._hooks.post(event)

    async def _forget(self, action: act.ForgetProcess) -> None:
        request = pb.ForgetProcessRequest(
            header=self._header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
        )
        try:
            await self._call(self._stub.ForgetProcess, request)
        except grpc.aio.AioRpcError as error:
            reason, job = _reason(error, self.address), action.job_id
            log.warning(line("forget_failed", node=self.node_id, job=job, reason=reason))
            # It is told again with the next message, and forgotten then.
            self._reported.discard((job, action.attempt))

    async def _renew(self, action: act.RenewLease) -> None:
        request = pb.RenewLeaseRequest(
            header=self._header(action.request_id, action.cause),
            duration_ns=action.duration_ns,
        )
        try:
            answer = await self._call(self._stub.RenewLease, request)
        except grpc.aio.AioRpcError as error:
            reason = _reason(error, self.address)
            self._hooks.post(
                reports.LeaseUnconfirmed(
                    node_id=self.node_id,
                    request_id=action.request_id,
                    reason=reason,
                ),
            )
            return
        self._hooks.post(
            reports.LeaseRenewed(
                node_id=self.node_id,
                request_id=action.request_id,
                caps=messages.readings_of_caps(answer.caps),
            ),
        )


class Agents:
    """All links; carries out the core's commands.

    A plan may start a thousand jobs at once. Launches go out some at a time, with a turn for all
    others in between; what power and cores depend on goes out at once.
    """

    def __init__(self) -> None:
        self._links: dict[NodeId, AgentLink] = {}
        self._tasks: dict[NodeId, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._launches: deque[act.Launch] = deque()
        self._launching: asyncio.Task[None] | None = None

    def add(self, link: AgentLink) -> None:
        """Begins contact with an agent."""
        self._links[link.node_id] = link
        self._tasks[link.node_id] = asyncio.create_task(link.run())

    def drop(self, node_id: NodeId) -> None:
        """Ends contact with an agent; what was under way gets no answer any more."""
        link, task = self._links.pop(node_id), self._tasks.pop(node_id)
        task.cancel()
        closing = asyncio.create_task(_close(link, task))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def perform(self, action: act.Action) -> None:
        """Sends a command to its node."""
        assert not isinstance(action, act.Solve | act.WakeAt)
        if not isinstance(action, act.Launch):
            self._send(action)
            return
        self._launches.append(action)
        if self._launching is None or self._launching.done():
            self._launching = asyncio.create_task(self._launch_all())

    def _send(self, action: act.Action) -> None:
        assert not isinstance(action, act.Solve | act.WakeAt)
        link = self._links.get(action.node_id)
        if link is not None:
            link.perform(action)

    async def _launch_all(self) -> None:
        while self._launches:
            for _ in range(min(LAUNCHES_AT_ONCE, len(self._launches))):
                self._send(self._launches.popleft())
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Ends all contact."""
        launching = [self._launching] if self._launching is not None else []
        for task in (*self._tasks.values(), *launching):
            task.cancel()
        ended = (*self._tasks.values(), *launching, *self._closing)
        await asyncio.gather(*ended, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))


async def _close(link: AgentLink, task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
    await link.close()


async def _raise_status(call: Any) -> None:
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        details = await call.details()
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def _text(error: grpc.aio.AioRpcError) -> str:
    return error.details() or ""


def _reason(error: Exception, address: str) -> str:
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return f"no agent answers at {address}"
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"the agent at {address} did not answer in time"
    return _text(error) or error.code().name.lower()
