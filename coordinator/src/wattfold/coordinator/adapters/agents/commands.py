"""Commands of the core to one agent. Every outcome, including a timeout, becomes an event."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agents import messages
from wattfold.coordinator.adapters.agents.calls import AgentCalls, AgentSettings, FencedError, Hooks
from wattfold.coordinator.adapters.agents.launch_messages import launch_request
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.requests.field_checks import GRACE_NS_MAX
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.v1 import node_agent_pb2 as pb

log = logging.getLogger("wattfold.agents")

SIGTERM = 15
LAUNCH_TIMEOUT_S = 10.0
_PERMANENT = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
)
_UNANSWERED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class AgentCommands:
    """Commands to one agent.

    ``remembered`` is called with the attempt whose record the agent has kept, ``closed`` with the
    reason why the agent could not start a job on its node.
    """

    def __init__(
        self,
        calls: AgentCalls,
        hooks: Hooks,
        settings: AgentSettings,
        remembered: Callable[[JobId, int], None],
        closed: Callable[[str], None],
    ) -> None:
        self.node_id = calls.node_id
        self._calls = calls
        self._hooks = hooks
        self._settings = settings
        self._remembered = remembered
        self._closed = closed
        self._under_way: set[asyncio.Task[None]] = set()
        self._ended = False

    async def close(self) -> None:
        """Cancel the pending calls, and start none from now on."""
        self._ended = True
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def perform(self, action: act.Action) -> None:
        """Start the call of an action; after `close`, drop it, as a killed coordinator does."""
        if self._ended:
            return
        task = asyncio.create_task(self._perform(action))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

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

    async def _set_caps(self, action: act.SetCaps) -> None:
        request = pb.SetCapsRequest(
            header=self._calls.header(action.request_id, action.cause),
            caps=[pb.ZoneCap(name=name, cap_uw=cap) for name, cap in action.caps],
        )
        unconfirmed = ""
        try:
            answer = await self._calls.call(self._calls.stub.SetCaps, request)
            if any(r.status == pb.CAP_STATUS_NO_LEASE for r in answer.results):
                unconfirmed = "the lease had expired"
        except grpc.aio.AioRpcError as error:
            unconfirmed = self._calls.reason(error)
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
        request = pb.LeaveRequest(header=self._calls.header(action.request_id, action.cause))
        event: ev.Event
        try:
            answer = await self._calls.call(self._calls.stub.Leave, request)
            event = reports.LeaveAnswered(
                node_id=self.node_id,
                request_id=action.request_id,
                caps=messages.readings_of_leave(answer),
            )
        except grpc.aio.AioRpcError as error:
            event = reports.LeaveFailed(
                node_id=self.node_id,
                request_id=action.request_id,
                reason=self._calls.reason(error),
                refused=error.code() in (grpc.StatusCode.FAILED_PRECONDITION, *_PERMANENT),
            )
        self._hooks.post(event)

    async def _set_mask(self, action: act.SetMask) -> None:
        mapped = bool(action.processor_map)
        deadline_s = self._settings.map_deadline_s if mapped else self._settings.mask_deadline_s
        request = pb.SetMaskRequest(
            header=self._calls.header(action.request_id, action.cause),
            job_id=action.job_id,
            cpus=str(action.cpus),
            deadline_ns=round(deadline_s * 1e9),
            processor_map=action.processor_map,
            resident=action.resident,
        )
        timeout_s = deadline_s + self._settings.command_timeout_s
        event: ev.Event
        try:
            answer = await self._calls.call(self._calls.stub.SetMask, request, timeout_s)
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
                reason=self._calls.reason(error),
                attempt=action.attempt,
            )
        self._hooks.post(event)

    async def _launch(self, action: act.Launch) -> None:
        launch, missing = self._launch_data(action)
        if launch is None:
            self._hooks.post(missing)
            return
        request = launch_request(
            action,
            self._calls.header(action.request_id, action.cause),
            launch,
            self._hooks.step_key(action.job_id),
        )
        event: ev.Event
        try:
            answer = await self._calls.call(self._calls.stub.Launch, request, LAUNCH_TIMEOUT_S)
            event = reports.JobLaunched(
                node_id=self.node_id,
                job_id=action.job_id,
                pid=answer.pid,
                attempt=action.attempt,
            )
        except grpc.aio.AioRpcError as error:
            node_fault, reason = messages.of_the_node(error), self._calls.reason(error)
            event = reports.LaunchFailed(
                node_id=self.node_id,
                job_id=action.job_id,
                reason=reason.removeprefix(f"job {action.job_id}: ") if node_fault else reason,
                permanent=not node_fault and error.code() in _PERMANENT,
                attempt=action.attempt,
                node_fault=node_fault,
            )
            if node_fault:
                self._closed(event.reason)
        self._hooks.post(event)

    def _launch_data(self, action: act.Launch) -> tuple[LaunchData | None, reports.LaunchFailed]:
        """Return the launch data of a job (or None), and the event to post if they are missing."""
        launch, reason = None, "its environment is no longer in the journal; submit the job again"
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
            header=self._calls.header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
            signal=action.signal or SIGTERM,
            grace_ns=action.grace_ns or round(self._settings.term_grace_s * 1e9),
            saves=action.saves,
        )
        reason, refused = "the process does not exist", True
        try:
            found = await self._end_attempt(request)
        except grpc.aio.AioRpcError as error:
            found, reason = False, self._calls.reason(error)
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
        """End an attempt. Returns whether the agent knew it."""
        try:
            return bool((await self._calls.call(self._calls.stub.EndAttempt, request)).found)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        # The agent has an earlier version, which does not know attempts.
        signal = pb.SignalRequest(
            header=request.header, job_id=request.job_id, signal=SIGTERM, grace_ns=request.grace_ns
        )
        return bool((await self._calls.call(self._calls.stub.Signal, signal)).found)

    async def signal(self, job_id: JobId, attempt: int, number: int) -> str:
        """Send a signal to the process group of an attempt. Return why it failed, or nothing."""
        request = pb.SignalRequest(
            header=self._calls.header(f"signal-{uuid.uuid4().hex}", "signal"),
            job_id=job_id,
            signal=number,
            # An agent of an earlier version ends the job after SIGTERM, as late as possible.
            grace_ns=GRACE_NS_MAX,
            attempt=attempt,
            deliver_only=True,
        )
        answer, reason = await self._ask(self._calls.stub.Signal, request)
        return reason or ("" if answer.found else "the process does not exist")

    async def open_shell(self, job_id: JobId, attempt: int) -> tuple[bytes, str]:
        """Let the node accept shells in an attempt. Return their key, or why this failed."""
        key = self._hooks.step_key(job_id)
        request = pb.OpenShellRequest(
            header=self._calls.header(f"shell-{uuid.uuid4().hex}", "shell"),
            job_id=job_id,
            attempt=attempt,
            step_key=key,
        )
        _, reason = await self._ask(self._calls.stub.OpenShell, request, LAUNCH_TIMEOUT_S)
        return key, reason

    async def _ask(
        self, method: Callable[..., Any], request: Any, timeout_s: float | None = None
    ) -> tuple[Any, str]:
        """Return the answer to a request of a user, and why there is none."""
        try:
            return await self._calls.call(method, request, timeout_s), ""
        except FencedError as error:
            self._hooks.fenced(error)
            return None, str(error)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None, "its agent has an earlier version, which does not know this request"
            return None, self._calls.reason(error)

    async def _suspend(self, action: act.Suspend) -> None:
        request = pb.SuspendRequest(
            header=self._calls.header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
            suspended=action.suspended,
        )
        event: ev.Event
        try:
            answer = await self._calls.call(self._calls.stub.Suspend, request)
            reason = "" if answer.found else "the process does not exist"
        except grpc.aio.AioRpcError as error:
            reason = self._calls.reason(error)
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
            header=self._calls.header(action.request_id, action.cause),
            job_id=action.job_id,
            attempt=action.attempt,
        )
        try:
            await self._calls.call(self._calls.stub.ForgetProcess, request)
        except grpc.aio.AioRpcError as error:
            reason, job = self._calls.reason(error), action.job_id
            log.warning(line("forget_failed", node=self.node_id, job=job, reason=reason))
            self._remembered(job, action.attempt)

    async def _renew(self, action: act.RenewLease) -> None:
        request = pb.RenewLeaseRequest(
            header=self._calls.header(action.request_id, action.cause),
            duration_ns=action.duration_ns,
        )
        try:
            answer = await self._calls.call(self._calls.stub.RenewLease, request)
        except grpc.aio.AioRpcError as error:
            reason = self._calls.reason(error)
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
