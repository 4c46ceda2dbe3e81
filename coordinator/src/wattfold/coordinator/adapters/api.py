"""The gRPC service people and programs use. Answers only after what it says is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio

from wattfold.contract.ids import JobId, valid_name
from wattfold.coordinator.adapters import profiles, views
from wattfold.coordinator.adapters.journal import JournalError
from wattfold.coordinator.adapters.map_views import statements as map_statements
from wattfold.coordinator.adapters.observations import Observations
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.adapters.submissions import (
    InvalidRequestError,
    check_possible,
    job_spec,
)
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.core.state import State
from wattfold.coordinator.policies.explain import explain
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc

WATCH_INTERVAL_S = 0.5
WATCH_INTERVAL_S_MIN = 0.05
LIST_MAX = 1000
DEADLINE_DEFAULT_NS = 10_000_000_000
WAITING_MAX = 100_000


class CoordinatorApi(coordinator_pb2_grpc.CoordinatorServicer):
    """Coordinator service over one core."""

    def __init__(
        self,
        service: Service,
        seen: Observations,
        policy: Policy,
        settle_ns: Callable[[], int],
    ) -> None:
        self._service = service
        self._seen = seen
        self._policy = policy
        self._settle_ns = settle_ns
        self._submitting = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._version = 0
        self._notify: asyncio.Task[None] | None = None
        service.listeners.append(self.changed)

    @property
    def _state(self) -> State:
        return self._service.core.state

    def changed(self) -> None:
        """Wakes those who watch."""
        self._version += 1
        if self._notify is None or self._notify.done():
            self._notify = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitResponse:
        """Takes a job in."""
        try:
            spec = job_spec(request.spec)
            nodes = [node.spec for node in self._state.nodes.values() if node.spec]
            left_uw = self._state.ledger.budget_uw - self._state.floor_uw()
            check_possible(spec, nodes, left_uw)
        except InvalidRequestError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        async with self._submitting:
            known = self._state.keys.get(request.idempotency_key)
            if request.idempotency_key and known:
                return pb.SubmitResponse(job_id=known)
            if sum(not job.final for job in self._state.jobs.values()) >= WAITING_MAX:
                text = f"{WAITING_MAX} jobs are waiting or running, no more are taken"
                await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            job_id = self._next_job_id()
            submitted = ev.JobSubmitted(
                job_id=job_id,
                spec=spec,
                held=request.held,
                key=request.idempotency_key,
            )
            await self._request(submitted, context)
        return pb.SubmitResponse(job_id=job_id)

    def _next_job_id(self) -> JobId:
        return JobId(str(self._state.submissions + 1))

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """Ends a job or takes it out of the queue."""
        job = await self._job(request.job_id, context)
        await self._request(ev.JobCancelRequested(job_id=job.job_id), context)
        return pb.CancelResponse(state=views.job_state(job.state))

    async def Hold(self, request: pb.HoldRequest, context: Any) -> pb.HoldResponse:
        """Keeps a waiting job from starting."""
        job = await self._job(request.job_id, context)
        if job.state not in (JobState.PENDING, JobState.HELD):
            text = f"job {job.job_id} is {job.state.value}; only a waiting job can be held"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        await self._request(ev.JobHeld(job_id=job.job_id), context)
        return pb.HoldResponse()

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        """Lets a held job start."""
        job = await self._job(request.job_id, context)
        if job.state is not JobState.HELD:
            text = f"job {job.job_id} is {job.state.value}, not held"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        await self._request(ev.JobReleased(job_id=job.job_id), context)
        return pb.ReleaseResponse()

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        """Jobs by id, or all."""
        if request.job_ids:
            jobs = [await self._job(job_id, context) for job_id in request.job_ids]
        else:
            jobs = [j for j in self._state.jobs.values() if request.include_ended or not j.final]
        limit = request.limit or LIST_MAX
        return pb.ListJobsResponse(jobs=[self._message(job) for job in jobs[-limit:]])

    async def ListNodes(self, request: pb.ListNodesRequest, context: Any) -> pb.ListNodesResponse:
        """All nodes."""
        del request, context
        return pb.ListNodesResponse(nodes=self._nodes())

    async def GetPower(self, request: pb.GetPowerRequest, context: Any) -> pb.Power:
        """Budget, committed and measured power."""
        del request, context
        return self._power()

    async def SetBudget(self, request: pb.SetBudgetRequest, context: Any) -> pb.SetBudgetResponse:
        """Changes the budget; a lower one holds within the deadline."""
        floor_uw, budget_uw = self._state.floor_uw(), request.budget_uw
        if budget_uw < floor_uw or budget_uw == 0:
            text = (
                f"a budget of {budget_uw / 1e6:.1f} W is below {floor_uw / 1e6:.1f} W, the base "
                "power and floors of the nodes in use; take nodes out or give at least that"
            )
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        deadline_ns = request.deadline_ns or DEADLINE_DEFAULT_NS
        least_ns = self._settle_ns()
        if budget_uw < self._state.ledger.committed_uw and deadline_ns < least_ns:
            text = (
                f"a deadline of {deadline_ns / 1e9:.2f} s cannot be kept: lowering caps takes up "
                f"to {least_ns / 1e9:.2f} s (a command and one averaging window)"
            )
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        event = ev.BudgetChanged(budget_uw=budget_uw, deadline_ns=deadline_ns)
        await self._request(event, context)
        return pb.SetBudgetResponse(power=self._power())

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> pb.ExplainResponse:
        """Why a job waits, or why it has this size and cap."""
        job = await self._job(request.job_id, context)
        answer = pb.ExplainResponse(job=self._message(job))
        if job.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING):
            snapshot = self._service.core.snapshot(self._service.clock.now_ns())
            found = explain(snapshot, job.job_id, self._policy, job.reason)
            answer.summary = found.summary
            answer.lines.extend([*found.lines, *map_statements(answer.job)])
        elif job.state is JobState.HELD:
            answer.summary = "Held by its user."
            answer.lines.append(f"`wattfold release {job.job_id}` lets it start.")
        else:
            answer.summary = f"The job is {job.state.value}."
            if job.message:
                answer.lines.append(job.message)
        if job.spec.mode_source:
            answer.lines.append(f"Resized by {job.spec.mode.value}: {job.spec.mode_source}.")
        return answer

    async def ListProfiles(
        self,
        request: pb.ListProfilesRequest,
        context: Any,
    ) -> pb.ListProfilesResponse:
        """What is known of applications."""
        del context
        known = profiles.profile_messages(self._state, self._service.clock, request.app)
        return pb.ListProfilesResponse(profiles=known)

    async def PutProfile(
        self,
        request: pb.PutProfileRequest,
        context: Any,
    ) -> pb.PutProfileResponse:
        """Stores a profile, a certificate or both; what is not sent stays as it is."""
        try:
            if not valid_name(request.profile.app):
                raise ValueError(f"application name {request.profile.app!r} is not allowed")
            events = profiles.events_from(request.profile)
        except ValueError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        for event in events:
            await self._request(event, context)
        return pb.PutProfileResponse()

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.ClusterView]:
        """The picture now, then whenever it changed."""
        del context
        interval_s = max((request.interval_ns / 1e9) or WATCH_INTERVAL_S, WATCH_INTERVAL_S_MIN)
        since_ns = self._service.clock.now_ns()
        while True:
            version, now_ns = self._version, self._service.clock.now_ns()
            yield self._view(since_ns)
            since_ns = now_ns
            await asyncio.sleep(interval_s)
            async with self._changed:
                while self._version == version:
                    await self._changed.wait()

    def _view(self, ended_since_ns: int) -> pb.ClusterView:
        now_ns = self._service.clock.now_ns()
        jobs = [
            self._message(job)
            for job in self._state.jobs.values()
            if not job.final or job.ended_ns >= ended_since_ns
        ]
        return pb.ClusterView(
            time_s=self._service.clock.wall_s(now_ns),
            power=self._power(),
            nodes=self._nodes(),
            jobs=jobs,
            last_round=views.round_message(self._state),
        )

    def _power(self) -> pb.Power:
        clock = self._service.clock
        return views.power_message(self._state, self._seen, clock, self._policy.name)

    def _nodes(self) -> list[pb.Node]:
        return [
            views.node_message(self._state, node, self._seen.nodes.get(node.node_id))
            for node in self._state.nodes.values()
        ]

    def _message(self, job: Job) -> pb.Job:
        clock = self._service.clock
        return views.job_message(job, self._seen, clock, clock.now_ns())

    async def _job(self, job_id: str, context: Any) -> Job:
        job = self._state.jobs.get(JobId(job_id))
        if job is None:
            await _abort(context, grpc.StatusCode.NOT_FOUND, f"no job {job_id!r}")
        return job

    async def _request(self, event: ev.Event, context: Any) -> None:
        try:
            await self._service.request(event)
        except JournalError as error:
            text = f"not accepted, it could not be stored: {error}"
            await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
