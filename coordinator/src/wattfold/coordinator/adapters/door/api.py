"""The gRPC service for people and programs. It answers only after its statements are on disk.

Another process makes the views (`pictures`), because this process runs the loop with the leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
import grpc.aio

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.asking import asker
from wattfold.coordinator.adapters.copies import site_messages
from wattfold.coordinator.adapters.copies.job_filter import job_filter
from wattfold.coordinator.adapters.copies.picture_feed import NoPictureError, PictureFeed
from wattfold.coordinator.adapters.door.ownership import JobRules
from wattfold.coordinator.adapters.door.peers import name_of
from wattfold.coordinator.adapters.emergencies import Emergencies
from wattfold.coordinator.adapters.history.desk import HistoryDesk
from wattfold.coordinator.adapters.journal.audit_trail import AuditFilter
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.accounts import SubmissionRates, account_messages
from wattfold.coordinator.adapters.requests.emergency_requests import EmergencyRequests
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.history_requests import HistoryRequests
from wattfold.coordinator.adapters.requests.job_orders import JobOrders
from wattfold.coordinator.adapters.requests.job_requests import JobRequests, ShellOpener, Signaller
from wattfold.coordinator.adapters.requests.node_requests import NodeRequests
from wattfold.coordinator.adapters.requests.profile_requests import ProfileRequests
from wattfold.coordinator.adapters.requests.queues import (
    queue_messages,
)
from wattfold.coordinator.adapters.requests.reload_requests import ReloadRequests
from wattfold.coordinator.adapters.requests.reservations import (
    known_reservations,
    reservation_message,
    reservation_of,
)
from wattfold.coordinator.adapters.requests.submissions import (
    TimeLimits,
)
from wattfold.coordinator.adapters.requests.submit_requests import SubmitRequests
from wattfold.coordinator.adapters.service import Service, WithdrawnError
from wattfold.coordinator.core.model import events as ev
from wattfold.v1 import coordinator_pb2 as pb

WATCH_INTERVAL_S = 0.5
WATCH_INTERVAL_S_MIN = 0.05


class CoordinatorApi(
    NodeRequests,
    EmergencyRequests,
    ProfileRequests,
    ReloadRequests,
    HistoryRequests,
    SubmitRequests,
    JobOrders,
    JobRequests,
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
        open_shell: ShellOpener | None = None,
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
        self._open_shell = open_shell
        self._submitting = asyncio.Lock()
        self._rates = SubmissionRates()
        self._changed = asyncio.Event()
        self._version = 0
        service.listeners.append(self.changed)

    def changed(self) -> None:
        """Wake the watchers."""
        self._version += 1
        self._changed.set()

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> bytes:
        """Return jobs by ID, or all jobs. Jobs of other accounts have only public fields."""
        await self._check_names(request, context)
        for job_id in request.job_ids:
            await self._job(job_id, context)
        asked = self._pictures.jobs(
            asker(),
            tuple(map(JobId, request.job_ids)),
            request.include_ended,
            request.limit,
            chosen=job_filter(request),
            details=request.details,
            tasks=request.tasks,
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

    async def ListAccounts(
        self, request: pb.ListAccountsRequest, context: Any
    ) -> pb.ListAccountsResponse:
        """Return the accounts and limits that the caller may see, with their use."""
        del request, context
        who = asker()
        return pb.ListAccountsResponse(
            accounts=account_messages(
                self._state, who, name_of(who.uid), self._service.clock.now_ns()
            )
        )

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
        """Return the environment in which a job will start. Tasks of an array share it."""
        job = await self._job(request.job_id, context)
        launch = self._service.launch_data(JobId(request.job_id))
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


async def _abort(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort returned")
