"""The gRPC service for people and programs. It answers only after its statements are on disk.

Another process makes the views (`pictures`), because this process runs the loop with the leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, NoReturn

import grpc
import grpc.aio

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.copies import job_messages, site_messages
from wattfold.coordinator.adapters.copies.job_filter import job_filter
from wattfold.coordinator.adapters.copies.node_views import ending_reason
from wattfold.coordinator.adapters.copies.picture_feed import NoPictureError, PictureFeed
from wattfold.coordinator.adapters.door.ownership import JobRules, owned, scoped_key
from wattfold.coordinator.adapters.emergencies import Emergencies
from wattfold.coordinator.adapters.history.desk import HistoryDesk
from wattfold.coordinator.adapters.journal.audit_trail import AuditFilter
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.emergency_requests import EmergencyRequests
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError, due_ns
from wattfold.coordinator.adapters.requests.history_requests import HistoryRequests
from wattfold.coordinator.adapters.requests.job_requests import JobRequests, Signaller
from wattfold.coordinator.adapters.requests.node_requests import NodeRequests
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.adapters.requests.profile_requests import ProfileRequests
from wattfold.coordinator.adapters.requests.queues import (
    limits_in,
    queue_messages,
    queue_of,
    queued,
)
from wattfold.coordinator.adapters.requests.reload_requests import ReloadRequests
from wattfold.coordinator.adapters.requests.reservations import (
    check_reservation,
    known_reservations,
    reservation_message,
    reservation_of,
)
from wattfold.coordinator.adapters.requests.start_conditions import (
    UnknownJobError,
    conditions_of,
)
from wattfold.coordinator.adapters.requests.submissions import (
    TimeLimits,
    fingerprint,
    job_spec,
    launch_data,
    requeue_event,
)
from wattfold.coordinator.adapters.service import Service, WithdrawnError
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.rules import emergency
from wattfold.coordinator.core.rules.adoption import UNSTARTED
from wattfold.coordinator.core.rules.attempt_events import requeue_refusal, resize_refusal
from wattfold.v1 import coordinator_pb2 as pb

WATCH_INTERVAL_S = 0.5
WATCH_INTERVAL_S_MIN = 0.05
WAITING_MAX = 100_000


class CoordinatorApi(
    NodeRequests, EmergencyRequests, ProfileRequests, ReloadRequests, HistoryRequests, JobRequests
):
    """The Coordinator service of one core."""

    def __init__(
        self,
        service: Service,
        seen: Observations,
        pictures: PictureFeed,
        history: HistoryDesk,
        settle_ns: Callable[[], int],
        emergencies: Emergencies,
        limits: TimeLimits,
        policy: Callable[[], str],
        rules: JobRules = JobRules(),  # noqa: B008 - immutable
        signal: Signaller | None = None,
    ) -> None:
        self._service = service
        self._seen = seen
        self._pictures = pictures
        self._history = history
        self._settle_ns = settle_ns
        self._emergencies = emergencies
        self._limits = limits
        self._policy = policy
        self._rules = rules
        self._signal = signal
        self._submitting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._version = 0
        service.listeners.append(self.changed)

    def changed(self) -> None:
        """Wake the watchers."""
        self._version += 1
        self._changed.set()

    async def Submit(self, request: pb.SubmitRequest, context: Any) -> pb.SubmitResponse:
        """Accept a job for the account of the caller."""
        who = asker()
        key = scoped_key(request.idempotency_key, who)
        try:
            queue = queue_of(request.spec.queue, self._state.queues)
            spec = job_spec(request.spec, limits_in(queue, self._limits))
            spec = owned(queued(spec, queue), who, self._rules)
            spec = replace(spec, due_ns=due_ns(request.spec, self._service.clock))
            launch = launch_data(request.spec)
            nodes = [node.spec for node in self._state.nodes.values() if node.spec]
            features = {node.node_id: node.all_features for node in self._state.nodes.values()}
            check_possible(spec, nodes, features)
            check_reservation(spec, self._state, self._service.clock.now_ns())
        except InvalidRequestError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        async with self._submitting:
            known = self._state.keys.get(key)
            if key and known:
                asked = self._state.key_prints.get(key)
                if asked and asked != fingerprint(request):
                    await _abort(context, grpc.StatusCode.ALREADY_EXISTS, _other_command(known))
                return pb.SubmitResponse(job_id=known)
            if self._state.open_jobs >= WAITING_MAX:
                text = f"the limit of {WAITING_MAX} waiting and running jobs is reached"
                await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            try:
                conditions = conditions_of(request, self._state, self._service.clock)
            except InvalidRequestError as error:
                unknown = isinstance(error, UnknownJobError)
                code = grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.INVALID_ARGUMENT
                await _abort(context, code, str(error))
            job_id = self._next_job_id()
            submitted = ev.JobSubmitted(
                job_id=job_id,
                spec=spec,
                held=request.held,
                key=key,
                fingerprint=fingerprint(request) if key else "",
                conditions=conditions,
            )
            await self._request(submitted, context, launch)
        return pb.SubmitResponse(job_id=job_id)

    def _next_job_id(self) -> JobId:
        return JobId(str(self._state.submissions + 1))

    async def Cancel(self, request: pb.CancelRequest, context: Any) -> pb.CancelResponse:
        """Cancel a job: end it, or remove it from the queue."""
        job = await self._job(request.job_id, context)
        event = ev.JobCancelRequested(job_id=job.job_id, force=request.force)
        await self._request(event, context)
        message = ending_reason(self._state, job)
        return pb.CancelResponse(state=job_messages.job_state(job.state), message=message)

    async def Hold(self, request: pb.HoldRequest, context: Any) -> pb.HoldResponse:
        """Keep a waiting job from starting."""
        job = await self._job(request.job_id, context)
        if job.state not in UNSTARTED:
            text = f"job {job.job_id} is {job.state.value}; only a waiting job can be held"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        await self._request(ev.JobHeld(job_id=job.job_id), context)
        return pb.HoldResponse()

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseResponse:
        """Let a held job start."""
        job = await self._job(request.job_id, context)
        if job.state is not JobState.HELD:
            waits = f": it {job.reason}" if job.state is JobState.WAITING else ""
            text = f"job {job.job_id} is {job.state.value}, not held{waits}"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        await self._request(ev.JobReleased(job_id=job.job_id), context)
        return pb.ReleaseResponse()

    async def Requeue(self, request: pb.RequeueRequest, context: Any) -> pb.RequeueResponse:
        """End the attempt of a job, with time for a snapshot, and queue the job again.

        A failed job continues from its snapshot.
        """
        job = await self._job(request.job_id, context)
        refused = requeue_refusal(job)
        if not refused and job.final and self._service.launch_data(job.job_id) is None:
            refused = "its environment was deleted; submit it again"
        if refused:
            text = f"job {job.job_id} cannot be requeued: {refused}"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        try:
            event = requeue_event(request)
        except InvalidRequestError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._request(event, context)
        return pb.RequeueResponse(state=job_messages.job_state(job.state))

    async def SuspendJob(
        self, request: pb.SuspendJobRequest, context: Any
    ) -> pb.SuspendJobResponse:
        """Suspend a running job."""
        job = await self._job(request.job_id, context)
        if job.state is not JobState.RUNNING:
            text = f"job {job.job_id} is {job.state.value}; only a running job can be suspended"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        await self._request(ev.JobSuspendRequested(job_id=job.job_id), context)
        return pb.SuspendJobResponse()

    async def ResumeJob(self, request: pb.ResumeJobRequest, context: Any) -> pb.ResumeJobResponse:
        """Resume a suspended job."""
        job = await self._job(request.job_id, context)
        if refused := emergency.resume_refusal(self._state, job):
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, refused)
        await self._request(ev.JobResumeRequested(job_id=job.job_id), context)
        return pb.ResumeJobResponse()

    async def ResizeJob(self, request: pb.ResizeJobRequest, context: Any) -> pb.ResizeJobResponse:
        """Set the size of a job, or let the policy choose it again."""
        job = await self._job(request.job_id, context)
        refused = resize_refusal(job, request.size)
        if refused:
            text = f"job {job.job_id} cannot be resized: {refused}"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        event = ev.JobResizeRequested(job_id=job.job_id, size=request.size)
        await self._request(event, context)
        size = job.target.size if job.target and job.ranks else 0
        return pb.ResizeJobResponse(state=job_messages.job_state(job.state), size=size)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> bytes:
        """Return jobs by ID, or all jobs. Jobs of other accounts have only public fields."""
        await self._check_names(request, context)
        job_ids = [(await self._job(job_id, context)).job_id for job_id in request.job_ids]
        asked = self._pictures.jobs(
            asker(),
            tuple(job_ids),
            request.include_ended,
            request.limit,
            chosen=job_filter(request),
            details=request.details,
        )
        return await _shown(asked, context)

    async def _check_names(self, request: pb.ListJobsRequest, context: Any) -> None:
        """Refuse criteria with names that no node or queue of this site has."""
        queues = [request.queue] if request.queue else []
        for what, names, known in (
            ("node", request.node_ids, self._state.nodes),
            ("queue", queues, self._state.queues),
        ):
            unknown = next((name for name in names if name not in known), None)
            if unknown is not None:
                text = f"no {what} {unknown!r}; `wattfold {what}s` lists all {what}s"
                await _abort(context, grpc.StatusCode.NOT_FOUND, text)

    async def ListNodes(self, request: pb.ListNodesRequest, context: Any) -> bytes:
        """Return all nodes."""
        del request
        return await _shown(self._pictures.nodes(), context)

    async def ListQueues(
        self, request: pb.ListQueuesRequest, context: Any
    ) -> pb.ListQueuesResponse:
        """Return the queues of the configuration."""
        del request, context
        return pb.ListQueuesResponse(queues=queue_messages(self._state))

    async def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveResponse:
        """Reserve nodes for some jobs, or for none."""
        clock = self._service.clock
        try:
            made = reservation_of(request, self._state, clock)
        except InvalidRequestError as error:
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._request(ev.ReservationMade(reservation=made), context)
        return pb.ReserveResponse(reservation=reservation_message(self._state, made, clock))

    async def CancelReservation(
        self, request: pb.CancelReservationRequest, context: Any
    ) -> pb.CancelReservationResponse:
        """Cancel a reservation."""
        if request.name not in self._state.reservations:
            text = f"no reservation {request.name!r}; {known_reservations(self._state)}"
            await _abort(context, grpc.StatusCode.NOT_FOUND, text)
        await self._request(ev.ReservationCancelled(name=request.name), context)
        return pb.CancelReservationResponse()

    async def ListReservations(
        self, request: pb.ListReservationsRequest, context: Any
    ) -> pb.ListReservationsResponse:
        """Return the current and future reservations."""
        del request, context
        return pb.ListReservationsResponse(
            reservations=[
                reservation_message(self._state, one, self._service.clock)
                for one in self._state.reservations.values()
            ]
        )

    async def GetPower(self, request: pb.GetPowerRequest, context: Any) -> bytes:
        """Return the budget, the committed power and the measured power."""
        return await _shown(self._pictures.power(request.all_announced), context)

    async def Explain(self, request: pb.ExplainRequest, context: Any) -> bytes:
        """Explain why a job waits, or why it has its size and cap."""
        job = await self._job(request.job_id, context)
        return await _shown(self._pictures.explanation(asker(), job.job_id), context)

    async def GetEnvironment(
        self, request: pb.GetEnvironmentRequest, context: Any
    ) -> pb.GetEnvironmentResponse:
        """Return the environment in which a job will start."""
        job = await self._job(request.job_id, context)
        launch = self._service.launch_data(job.job_id)
        if launch is None:
            text = (
                f"job {job.job_id} is {job.state.value}; its environment was deleted at the start"
            )
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        return pb.GetEnvironmentResponse(env=dict(launch.env))

    async def ListAudit(self, request: pb.ListAuditRequest, context: Any) -> pb.ListAuditResponse:
        """Return audit entries: all of them for operators, for other callers their own requests."""
        who = asker()
        account = request.account if who.operator else who.account
        if request.account not in ("", account):
            text = f"only operators may see the requests of {request.account}"
            await _abort(context, grpc.StatusCode.PERMISSION_DENIED, text)
        return pb.ListAuditResponse(
            entries=[
                site_messages.audit_message(entry)
                for entry in self._service.audit(
                    AuditFilter(
                        since_s=request.since_s,
                        until_s=request.until_s,
                        account=account,
                        job=request.job_id,
                        node=request.node_id,
                        action=request.action,
                        limit=request.limit,
                    )
                )
            ]
        )

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[bytes]:
        """Send the current cluster view, then each changed view."""
        interval_s = max((request.interval_ns / 1e9) or WATCH_INTERVAL_S, WATCH_INTERVAL_S_MIN)
        since_ns, who = self._service.clock.now_ns(), asker()
        while True:
            version, now_ns = self._version, self._service.clock.now_ns()
            yield await _shown(self._pictures.cluster(who, since_ns), context)
            since_ns = now_ns
            await asyncio.sleep(interval_s)
            while self._version == version:
                self._changed.clear()
                await self._changed.wait()

    async def _job(self, job_id: str, context: Any) -> Job:
        job = self._state.jobs.get(JobId(job_id))
        if job is None:
            await _abort(context, grpc.StatusCode.NOT_FOUND, f"no job {job_id!r}")
        return job

    async def _request(
        self, event: ev.Event, context: Any, launch: LaunchData | None = None
    ) -> None:
        try:
            await self._service.request(event, launch)
        except JournalError as error:
            text = f"not accepted because it could not be stored: {error}"
            await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        except WithdrawnError as error:
            await _abort(context, grpc.StatusCode.INTERNAL, f"not accepted: {error}")


async def _shown(picture: Awaitable[bytes], context: Any) -> bytes:
    try:
        return await picture
    except NoPictureError as error:
        await _abort(context, grpc.StatusCode.UNAVAILABLE, str(error))


def _other_command(job_id: JobId) -> str:
    return (
        f"the idempotency key was already used for job {job_id} with another command or "
        "size; use a new key for a new job"
    )


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
