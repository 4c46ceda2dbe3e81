"""The NodeAgent service: checks epochs and repeated commands, then calls the node."""

# GRPC gives every method a request and a context.
# ruff: noqa: ARG002
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from wattfold.contract.refusals import NODE_FAULT
from wattfold.contract.units import NS_PER_MS, NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import wire
from wattfold.nodeagent.core.errors import NodeFault, Refused, WrongState
from wattfold.nodeagent.core.masks import parse_cpus
from wattfold.nodeagent.core.replay import ReplayCache
from wattfold.nodeagent.service.jobs.accounting import Accounting
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.jobs.records import Job
from wattfold.nodeagent.service.power.node_total import node_total
from wattfold.nodeagent.service.power.power import NodePower
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

Context = Any
"""grpc.aio.ServicerContext; grpc has no types."""
Response = TypeVar("Response")
INTERVAL_NS_MIN = 20 * NS_PER_MS
INTERVAL_NS_MAX = 3600 * NS_PER_S
_NAMED_MAX = 5


class Changes:
    """Wakes all telemetry streams after an event that cannot wait."""

    def __init__(self) -> None:
        self.events: set[asyncio.Event] = set()

    def notify(self) -> None:
        """Wake the streams."""
        for event in self.events:
            event.set()


class NodeAgentService(node_agent_pb2_grpc.NodeAgentServicer):
    """Answers calls for one node. ``inventory`` holds the constant facts of the node."""

    def __init__(
        self,
        inventory: pb.Inventory,
        power: NodePower,
        jobs: NodeJobs,
        accounting: Accounting,
        changes: Changes,
    ) -> None:
        self._inventory = inventory
        self._power = power
        self._jobs = jobs
        self._accounting = accounting
        self._changes = changes
        self._started_ns = time.monotonic_ns()
        self._answers: ReplayCache[asyncio.Future[Any]] = ReplayCache()

    async def GetInventory(self, request: pb.GetInventoryRequest, context: Context) -> pb.Inventory:
        """Return the node's facts and caps. A caller with a header takes command first."""
        if request.HasField("header"):
            return await self._command(request, context, self._inventory_now)
        return await self._inventory_now()

    async def _inventory_now(self) -> pb.Inventory:
        answer = pb.Inventory()
        answer.CopyFrom(self._inventory)
        original_uw = self._power.originals.original_uw
        answer.zones.extend(
            wire.zone_message(state, original_uw(state)) for state in self._power.zones.values()
        )
        answer.left = self._power.left
        answer.launch_fault = self._jobs.starts.fault
        lease = self._power.lease
        answer.epoch, answer.coordinator_id = lease.obeyed
        answer.journal_number = lease.journal_number
        answer.lease_remaining_ns = self._power.remaining_ns()
        return answer

    async def SetCaps(self, request: pb.SetCapsRequest, context: Context) -> pb.SetCapsResponse:
        """Set caps and return the enforced caps."""

        async def act() -> pb.SetCapsResponse:
            outcomes = self._power.set_caps(wire.cap_requests(request))
            return pb.SetCapsResponse(results=[wire.cap_result(outcome) for outcome in outcomes])

        return await self._command(request, context, act)

    async def SetMask(self, request: pb.SetMaskRequest, context: Context) -> pb.SetMaskResponse:
        """Change the cores of a job. Answers when the job has left the lost cores."""

        async def act() -> pb.SetMaskResponse:
            cpus = parse_cpus(request.cpus, what=f"job {request.job_id}")
            change = await self._jobs.set_mask(
                request.job_id,
                cpus,
                request.deadline_ns,
                request.processor_map,
                resident=request.resident,
            )
            shim = wire.shim_state(attached=change.attached, confined=change.confined)
            return pb.SetMaskResponse(
                cpus=str(change.cpus),
                shim=shim,
                acknowledged_in_ns=change.acknowledged_in_ns,
                processor_map=change.processor_map,
                map_applied=change.map_applied,
                stalled_ns=change.stalled_ns if change.stalled_ns >= 0 else None,
                moved_bytes=change.moved_bytes if change.moved_bytes >= 0 else None,
            )

        return await self._command(request, context, act)

    async def SetProcessorMap(
        self, request: pb.SetProcessorMapRequest, context: Context
    ) -> pb.SetProcessorMapResponse:
        """Set the processor map of a Charm++ job. Returns the map that the program reports."""

        async def act() -> pb.SetProcessorMapResponse:
            outcome = await self._jobs.set_processor_map(
                request.job_id, request.map, request.deadline_ns
            )
            return wire.map_response(outcome)

        return await self._command(request, context, act)

    async def Launch(self, request: pb.LaunchRequest, context: Context) -> pb.LaunchResponse:
        """Start the process of a job."""

        async def act() -> pb.LaunchResponse:
            if self._power.left:
                raise WrongState(f"job {request.job_id}: the node has left; renew its lease first")
            job, already = await self._jobs.launch(wire.launch_order(request))
            return pb.LaunchResponse(pid=job.pid, already_running=already)

        return await self._command(request, context, act)

    async def Signal(self, request: pb.SignalRequest, context: Context) -> pb.SignalResponse:
        """Signal a job."""

        async def act() -> pb.SignalResponse:
            orders, number = self._jobs.orders, request.signal
            if request.deliver_only or request.attempt:
                found = orders.deliver(request.job_id, request.attempt, number)
            else:
                found = orders.signal(request.job_id, number, request.grace_ns)
            return pb.SignalResponse(found=found)

        return await self._command(request, context, act)

    async def EndAttempt(
        self, request: pb.EndAttemptRequest, context: Context
    ) -> pb.EndAttemptResponse:
        """End one attempt of a job."""

        async def act() -> pb.EndAttemptResponse:
            found = await self._jobs.orders.end_attempt(
                request.job_id,
                request.attempt,
                request.signal,
                request.grace_ns,
                saves=request.saves,
            )
            return pb.EndAttemptResponse(found=found)

        return await self._command(request, context, act)

    async def Suspend(self, request: pb.SuspendRequest, context: Context) -> pb.SuspendResponse:
        """Suspend or resume a job."""

        async def act() -> pb.SuspendResponse:
            found = await self._jobs.orders.suspend(
                request.job_id, request.attempt, suspended=request.suspended
            )
            return pb.SuspendResponse(found=found)

        return await self._command(request, context, act)

    async def OpenShell(
        self, request: pb.OpenShellRequest, context: Context
    ) -> pb.OpenShellResponse:
        """Let the address for steps accept shells in a running job."""

        async def act() -> pb.OpenShellResponse:
            await self._jobs.shells.open(request.job_id, request.attempt, request.step_key)
            return pb.OpenShellResponse()

        return await self._command(request, context, act)

    async def ListProcesses(
        self, request: pb.ListProcessesRequest, context: Context
    ) -> pb.ListProcessesResponse:
        """Return running and ended processes."""
        self._accounting.sample()
        now_ns = time.monotonic_ns()
        return pb.ListProcessesResponse(
            processes=[wire.process_info(job, now_ns) for job in self._jobs.jobs.values()]
        )

    async def ForgetProcess(
        self, request: pb.ForgetProcessRequest, context: Context
    ) -> pb.ForgetProcessResponse:
        """Delete the record of an ended process."""

        async def act() -> pb.ForgetProcessResponse:
            self._jobs.forget(request.job_id, request.attempt)
            return pb.ForgetProcessResponse()

        return await self._command(request, context, act)

    async def RenewLease(
        self, request: pb.RenewLeaseRequest, context: Context
    ) -> pb.RenewLeaseResponse:
        """Renew the lease, so that caps above the floor stay in force."""

        async def act() -> pb.RenewLeaseResponse:
            await self._power.renew(request.duration_ns)
            caps = wire.zone_caps(self._power.zones.values())
            return pb.RenewLeaseResponse(remaining_ns=self._power.remaining_ns(), caps=caps)

        return await self._command(request, context, act)

    async def Leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveResponse:
        """Release the node and restore its original limits."""

        async def act() -> pb.LeaveResponse:
            if alive := [job.id for job in self._jobs.jobs.values() if job.live]:
                raise WrongState(
                    f"{len(alive)} jobs run on this node ({', '.join(alive[:_NAMED_MAX])});"
                    " end them before the node leaves"
                )
            failed = self._power.leave()
            return wire.leave_response(self._power.zones.values(), failed)

        return await self._command(request, context, act)

    async def StreamTelemetry(
        self, request: pb.StreamTelemetryRequest, context: Context
    ) -> AsyncIterator[pb.Telemetry]:
        """Send one message per interval, and another immediately after an urgent event."""
        interval_ns = request.interval_ns or NS_PER_S
        if not INTERVAL_NS_MIN <= interval_ns <= INTERVAL_NS_MAX:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"interval {interval_ns} ns is outside {INTERVAL_NS_MIN}..{INTERVAL_NS_MAX} ns",
            )
        event = asyncio.Event()
        self._changes.events.add(event)
        try:
            last_ns = time.monotonic_ns()
            yield self._telemetry(interval_ns, last_ns)
            while True:
                try:
                    async with asyncio.timeout(interval_ns / NS_PER_S):
                        await event.wait()
                except TimeoutError:
                    pass
                event.clear()
                before_ns, last_ns = last_ns, time.monotonic_ns()
                yield self._telemetry(interval_ns, before_ns)
        finally:
            self._changes.events.discard(event)

    def _telemetry(self, interval_ns: int, last_ns: int) -> pb.Telemetry:
        self._accounting.sample()
        self._power.sample()
        now_ns = time.monotonic_ns()
        jobs = self._jobs.jobs.values()
        total = node_total(self._power.zones.values())
        span_ns = max(interval_ns, NS_PER_S)
        return pb.Telemetry(
            node_id=self._inventory.node_id,
            uptime_ns=now_ns - self._started_ns,
            interval_ns=now_ns - last_ns,
            zones=_zone_power(self._power, interval_ns, now_ns),
            jobs=[self._job_usage(j, now_ns) for j in jobs if j.live],
            ended=[wire.process_info(j, now_ns) for j in jobs if not j.live],
            lease_remaining_ns=self._power.remaining_ns(),
            at_floor=self._power.at_floor,
            drift_count=self._power.drift_count,
            not_held_count=self._power.not_held_count,
            node_power=wire.node_power_message(total, span_ns) if total else None,
            launch_fault=self._jobs.starts.fault,
        )

    def _job_usage(self, job: Job, now_ns: int) -> pb.JobUsage:
        gpus = self._accounting.gpus.readings(job, now_ns)
        return wire.job_usage(job, self._jobs.shims.view(job.id), gpus)

    async def _command(
        self, request: Any, context: Context, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Run a command once. A repeated command gets the first answer, even if that is pending."""
        header = request.header
        try:
            # First: another coordinator of the same epoch uses the same request IDs.
            self._power.admit(header.epoch, header.coordinator_id, header.journal_number)
            key = f"{type(request).__name__} {header.coordinator_id} {header.request_id}"
            first = self._answers.get(key) if header.request_id else None
            if first is None:
                first = asyncio.ensure_future(act())
                if header.request_id:
                    self._answers.keep(key, first)
                first.add_done_callback(lambda done: self._drop_refused(key, done))
            # A caller that disconnects does not stop a command half way.
            answer: Response = await asyncio.shield(first)
        except Refused as refusal:
            logs.info(
                "command_refused",
                command=type(request).__name__,
                cause=header.cause,
                reason=refusal,
            )
            of_node = (NODE_FAULT,) if isinstance(refusal, NodeFault) else ()
            if of_node and isinstance(request, pb.LaunchRequest):
                # Also if the epoch of a new coordinator cannot be stored.
                self._jobs.starts.refused(str(refusal).removeprefix(f"job {request.job_id}: "))
            await context.abort(wire.STATUS[type(refusal)], str(refusal), of_node)
            raise
        return answer

    def _drop_refused(self, key: str, done: asyncio.Future[Any]) -> None:
        # A refused command had no effect, so its repetition is executed.
        if done.cancelled() or done.exception() is not None:
            self._answers.drop(key)


def _zone_power(power: NodePower, interval_ns: int, now_ns: int) -> list[pb.ZonePower]:
    """Return the mean power of all zones over the interval, at least over the last second."""
    return [
        pb.ZonePower(
            name=name,
            power_uw=state.history.mean_uw(max(interval_ns, NS_PER_S)),
            energy_uj=state.meter.total_uj,
            energy_age_ns=max(now_ns - state.history.last_ns, 0),
            cap_uw=state.cap_uw,
            valid=state.valid and not state.zone.cannot_measure,
            not_held_uw=state.over_uw,
        )
        for name, state in power.zones.items()
    ]
