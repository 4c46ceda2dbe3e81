"""Requests of users about their jobs: signals, shells, and changes of the submission."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NoReturn

import grpc

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.local_time import moment
from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.modifications import modification, seconds
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.job_arrays.arrays import first_waiting
from wattfold.coordinator.core.rules.jobs import managed_jobs
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

Signaller = Callable[[NodeId, JobId, int, int], Awaitable[str]]
"""Signals an attempt of a job on a node. Returns why this failed, or an empty text."""


ShellOpener = Callable[[NodeId, JobId, int], Awaitable[tuple[bytes, str]]]
"""Lets a node accept shells in an attempt of a job. Returns their key, or why this failed."""


class JobRequests(coordinator_pb2_grpc.CoordinatorServicer):
    """The part of the coordinator's service for jobs in the hands of their users."""

    _service: Service
    _signal: Signaller | None
    _open_shell: ShellOpener | None
    _limits: TimeLimits

    @property
    def _state(self) -> State:
        return self._service.core.state

    async def _job(self, job_id: str, context: Any) -> Job:
        raise NotImplementedError

    async def _request(self, event: ev.Event, context: Any) -> None:
        raise NotImplementedError

    async def ModifyJob(self, request: pb.ModifyJobRequest, context: Any) -> pb.ModifyJobResponse:
        """Change values of the submission of a job that has not ended.

        For an array, the values of the tasks that have not started change.
        """
        array = self._state.arrays.get(JobId(request.job_id))
        job = await self._job(request.job_id, context)
        if array is not None:
            found = first_waiting(self._state, array, self._service.clock.now_ns())
            if found is None:
                text = "all of its tasks have started; name a task"
                await _refuse(context, f"array {array.array_id} cannot be changed: {text}")
            job = found
        clock, operator = self._service.clock, asker().operator
        try:
            event = modification(request, job, self._state, clock, self._limits, operator=operator)
        except InvalidRequestError as error:
            await _refuse(context, f"job {job.job_id} cannot be changed: {error}")
        if array is not None:
            event = replace(event, job_id=array.array_id)
        changed = array or job
        before = changed.spec
        await self._request(event, context)
        after = array or self._state.jobs[job.job_id]
        return pb.ModifyJobResponse(changes=_changes(before, after.spec, clock))

    async def SignalJob(self, request: pb.SignalJobRequest, context: Any) -> pb.SignalJobResponse:
        """Send a signal to the processes of a job, on all of its nodes at once.

        A launcher gets the signal alone, because it passes signals on to the other nodes.
        """
        job = await self._no_array(request.job_id, context, "signal")
        if not 1 <= request.signal < signal.NSIG:
            text = f"signal {request.signal} is outside 1..{signal.NSIG - 1}"
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        addressed = list(job.ranks.values())[: 1 if job.spec.own_launcher else None]
        alive = [rank.node_id for rank in addressed if rank.running]
        refused = _signal_refusal(job, request.attempt, alive)
        if refused:
            await _refuse(context, f"job {job.job_id} cannot be signalled: {refused}")
        if self._signal is None:
            text = "the coordinator has no contact with agents yet"
            await _abort(context, grpc.StatusCode.UNAVAILABLE, text)
        send, attempt, number = self._signal, job.attempt, request.signal
        reasons = await asyncio.gather(
            *(send(node_id, job.job_id, attempt, number) for node_id in alive)
        )
        failed = [f"{n}: {reason}" for n, reason in zip(alive, reasons, strict=True) if reason]
        reached = [n for n, reason in zip(alive, reasons, strict=True) if not reason]
        if failed:
            on = f"; it was signalled on {', '.join(reached)}" if reached else ""
            await _refuse(context, f"job {job.job_id} was not signalled on {'; '.join(failed)}{on}")
        return pb.SignalJobResponse(node_ids=reached)

    async def OpenShell(
        self, request: pb.OpenJobShellRequest, context: Any
    ) -> pb.OpenJobShellResponse:
        """Open a door for shells in a running job, on one of its nodes."""
        job = await self._no_array(request.job_id, context, "enter")
        wanted = request.node_id or next(iter(job.ranks), "")
        if refused := self._shell_refusal(job, NodeId(wanted)):
            await _refuse(context, f"job {job.job_id} cannot be entered: {refused}")
        if self._open_shell is None:
            text = "the coordinator has no contact with agents yet"
            await _abort(context, grpc.StatusCode.UNAVAILABLE, text)
        node_id, attempt = NodeId(wanted), job.attempt
        spec = self._state.nodes[node_id].spec
        assert spec is not None, "a node whose job runs was met"
        key, reason = await self._open_shell(node_id, job.job_id, attempt)
        if reason:
            await _refuse(context, f"job {job.job_id} cannot be entered on {node_id}: {reason}")
        return pb.OpenJobShellResponse(
            node_id=node_id, attempt=attempt, steps_address=spec.steps_address, step_key=key
        )

    async def _no_array(self, job_id: str, context: Any, deed: str) -> Job:
        job = await self._job(job_id, context)
        if JobId(job_id) in self._state.arrays:
            text = f"job {job_id} is an array; {deed} its tasks, such as {job.job_id}"
            await _refuse(context, text)
        return job

    def _shell_refusal(self, job: Job, node_id: NodeId) -> str:
        """Return why a job cannot get a shell on this node, or an empty string."""
        running = [rank.node_id for rank in job.ranks.values() if rank.running]
        if why := _signal_refusal(job, 0, running, deed="open a shell in"):
            return why
        if job.state is JobState.SUSPENDED:
            return "it is suspended; resume it first"
        if node_id not in running:
            return f"it does not run on node {node_id}; its nodes are {', '.join(running)}"
        spec = self._state.nodes[node_id].spec
        if spec is None or not spec.steps_address:
            return f"node {node_id} accepts no steps; set steps_listen of its agent"
        return ""


def _changes(before: JobSpec, after: JobSpec, clock: Clock) -> list[pb.JobChange]:
    """Return the changed values as texts."""
    texts = [
        {
            "name": spec.name,
            "time limit": seconds(spec.limit_ns),
            "estimate": seconds(spec.time_ns),
            "priority": f"{spec.priority:g}",
            "due": moment(clock.wall_s(spec.due_ns)) if spec.due_ns >= 0 else "none",
            "size": f"{spec.size_min}-{spec.size_max}",
        }
        for spec in (before, after)
    ]
    return [
        pb.JobChange(field=name, before=old, after=texts[1][name])
        for name, old in texts[0].items()
        if texts[1][name] != old
    ]


def _signal_refusal(job: Job, attempt: int, alive: list[NodeId], deed: str = "signal") -> str:
    """Return why a job cannot be signalled or entered, or an empty string."""
    if why := managed_jobs.refusal(job, deed):
        return why
    if attempt and attempt != job.attempt:
        return f"it is at attempt {job.attempt}, not {attempt}"
    if job.final:
        return f"it has ended: it is {job.state.value}"
    if job.state not in PLACED_STATES or not alive:
        return f"it is {job.state.value} and has no process; wait until it runs, or cancel it"
    return ""


async def _refuse(context: Any, text: str) -> NoReturn:
    await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
