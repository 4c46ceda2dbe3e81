"""Client of the coordinator: one typed method per request, each with a deadline.

Failures are raised as CliError. The module makes no decision about the output. A stream has no
deadline of its own; its reader detects a lost connection by the age of the last message.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from wattfold.coordinator.cli.shared.connection.address import entrance
from wattfold.coordinator.cli.shared.connection.connection_failure import busy, connection_failure
from wattfold.coordinator.cli.shared.connection.node_power_calls import NodePowerCalls
from wattfold.coordinator.cli.shared.connection.status_failure import failure_of_status
from wattfold.coordinator.cli.shared.errors import (
    BadRequestError,
    BusyError,
    CliError,
    TimedOutError,
    UnreachableError,
)
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

DEFAULT_TIMEOUT_S = 10.0
HISTORY_TIMEOUT_S = 60.0  # Lists of a year of jobs in an unusual order take seconds.
BUSY_S = 5.0
"""Time that a call tries to get a connection that the coordinator does not accept."""
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A view of a large machine exceeds the default of gRPC, 4 MiB."""

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)

_UNSENT = ("failed to connect", "errors resolving")
"""Start of gRPC's text for a call without a connection."""


class _Stub:
    """Calls of the service, each created at its first use; the generated stub creates all.

    They are untyped; the methods of the client add types.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        service = pb.DESCRIPTOR.services_by_name["Coordinator"]
        method = service.methods_by_name[name]
        kind = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        made = kind(
            f"/{service.full_name}/{name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        setattr(self, name, made)
        return made


class CoordinatorClient(NodePowerCalls):
    """A connection to one coordinator, opened at first use. Close it, or use it in `with`."""

    def __init__(
        self, address: str, token: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._entrance = entrance(address)
        self._channel = grpc.insecure_channel(self._entrance, options=_OPTIONS)
        self._stub: Any = _Stub(self._channel)

    def __enter__(self) -> CoordinatorClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and every stream on it."""
        self._channel.close()

    def submit(self, request: pb.SubmitRequest) -> str:
        """Submit a job and return its ID."""
        return self.submitted(request).job_id

    def submitted(self, request: pb.SubmitRequest) -> pb.SubmitResponse:
        """Submit a job and return its ID, with a warning about what the site cannot do for it."""
        answer: pb.SubmitResponse = self._call(self._stub.Submit, request)
        return answer

    def submit_many(self, request: pb.SubmitManyRequest) -> Sequence[pb.SubmitResult]:
        """Submit many jobs and return the result of each."""
        answer: pb.SubmitManyResponse = self._call(self._stub.SubmitMany, request)
        return answer.results

    def cancel(self, job_id: str, force: bool = False) -> pb.CancelResponse:
        """Cancel a job, with ``force`` even if its nodes are unreachable. Return its state."""
        request = pb.CancelRequest(job_id=job_id, force=force)
        answer: pb.CancelResponse = self._call(self._stub.Cancel, request)
        return answer

    def hold(self, job_id: str) -> None:
        """Hold a waiting job."""
        self._call(self._stub.Hold, pb.HoldRequest(job_id=job_id))

    def release(self, job_id: str) -> None:
        """Release a held job."""
        self._call(self._stub.Release, pb.ReleaseRequest(job_id=job_id))

    def requeue(self, request: pb.RequeueRequest) -> None:
        """End the attempt of a job and requeue it."""
        self._call(self._stub.Requeue, request)

    def resize(self, job_id: str, size: int) -> pb.ResizeJobResponse:
        """Set the size of a job; 0 = the policy chooses. Return its current size."""
        request = pb.ResizeJobRequest(job_id=job_id, size=size)
        answer: pb.ResizeJobResponse = self._call(self._stub.ResizeJob, request)
        return answer

    def suspend(self, job_id: str) -> None:
        """Suspend a running job."""
        self._call(self._stub.SuspendJob, pb.SuspendJobRequest(job_id=job_id))

    def resume(self, job_id: str) -> None:
        """Resume a suspended job."""
        self._call(self._stub.ResumeJob, pb.ResumeJobRequest(job_id=job_id))

    def modify(self, request: pb.ModifyJobRequest) -> list[pb.JobChange]:
        """Change values of a submission; return the changes."""
        answer: pb.ModifyJobResponse = self._call(self._stub.ModifyJob, request)
        return list(answer.changes)

    def signal(self, job_id: str, number: int, attempt: int = 0) -> list[str]:
        """Signal the processes of a job; return the nodes. ``attempt`` 0 = the current attempt."""
        request = pb.SignalJobRequest(job_id=job_id, signal=number, attempt=attempt)
        answer: pb.SignalJobResponse = self._call(self._stub.SignalJob, request)
        return list(answer.node_ids)

    def open_shell(self, job_id: str, node_id: str = "") -> pb.OpenJobShellResponse:
        """Open a door for shells in a running job; return how to reach it."""
        request = pb.OpenJobShellRequest(job_id=job_id, node_id=node_id)
        answer: pb.OpenJobShellResponse = self._call(self._stub.OpenShell, request)
        return answer

    def list_jobs(
        self,
        job_ids: Sequence[str] = (),
        include_ended: bool = False,
        limit: int = 0,
        **criteria: Any,
    ) -> pb.ListJobsResponse:
        """Return the jobs with these IDs, or all open jobs; criteria are fields of the request."""
        request = pb.ListJobsRequest(
            job_ids=job_ids, include_ended=include_ended, limit=limit, **criteria
        )
        answer: pb.ListJobsResponse = self._call(self._stub.ListJobs, request)
        return answer

    def environment(self, job_id: str) -> dict[str, str]:
        """Return the environment with which a job of the caller will start."""
        request = pb.GetEnvironmentRequest(job_id=job_id)
        answer: pb.GetEnvironmentResponse = self._call(self._stub.GetEnvironment, request)
        return dict(answer.env)

    def list_audit(self, request: pb.ListAuditRequest) -> pb.ListAuditResponse:
        """Return the requests to the coordinator."""
        answer: pb.ListAuditResponse = self._call(self._stub.ListAudit, request)
        return answer

    def list_history(self, request: pb.ListHistoryRequest) -> pb.ListHistoryResponse:
        """Return ended jobs."""
        got: pb.ListHistoryResponse = self._call(self._stub.ListHistory, request, HISTORY_TIMEOUT_S)
        return got

    def report(self, request: pb.GetReportRequest) -> pb.GetReportResponse:
        """Return sums over ended jobs."""
        answer: pb.GetReportResponse = self._call(self._stub.GetReport, request, HISTORY_TIMEOUT_S)
        return answer

    def list_queues(self) -> pb.ListQueuesResponse:
        """Return the queues of the site."""
        answer: pb.ListQueuesResponse = self._call(self._stub.ListQueues, pb.ListQueuesRequest())
        return answer

    def list_accounts(self) -> pb.ListAccountsResponse:
        """Return the accounts and limits that this user may see."""
        got: pb.ListAccountsResponse = self._call(self._stub.ListAccounts, pb.ListAccountsRequest())
        return got

    def reserve(self, request: pb.ReserveRequest) -> pb.Reservation:
        """Reserve nodes for some jobs, or for maintenance."""
        answer: pb.ReserveResponse = self._call(self._stub.Reserve, request)
        return answer.reservation

    def cancel_reservation(self, name: str) -> None:
        """Cancel a reservation."""
        request = pb.CancelReservationRequest(name=name)
        self._call(self._stub.CancelReservation, request)

    def list_reservations(self) -> pb.ListReservationsResponse:
        """Return the reservations that have not ended."""
        request = pb.ListReservationsRequest()
        answer: pb.ListReservationsResponse = self._call(self._stub.ListReservations, request)
        return answer

    def list_nodes(self) -> pb.ListNodesResponse:
        """Return all nodes."""
        answer: pb.ListNodesResponse = self._call(self._stub.ListNodes, pb.ListNodesRequest())
        return answer

    def drain_node(self, node_id: str, reason: str, cancel_jobs: bool) -> pb.Node:
        """Start no new jobs on a node."""
        request = pb.DrainNodeRequest(node_id=node_id, reason=reason, cancel_jobs=cancel_jobs)
        answer: pb.DrainNodeResponse = self._call(self._stub.DrainNode, request)
        return answer.node

    def resume_node(self, node_id: str, reason: str) -> pb.Node:
        """Return a node to service."""
        request = pb.ResumeNodeRequest(node_id=node_id, reason=reason)
        answer: pb.ResumeNodeResponse = self._call(self._stub.ResumeNode, request)
        return answer.node

    def leave_node(self, node_id: str, reason: str, at_once: bool) -> pb.Node:
        """Release a node as soon as that is safe; with ``at_once`` now or not at all."""
        request = pb.LeaveNodeRequest(node_id=node_id, reason=reason, at_once=at_once)
        answer: pb.LeaveNodeResponse = self._call(self._stub.LeaveNode, request)
        return answer.node

    def forget_node(self, node_id: str, reason: str, word: pb.ForgetWord) -> pb.ForgetNodeResponse:
        """Remove a node from the ledger on request of an operator."""
        request = pb.ForgetNodeRequest(node_id=node_id, reason=reason, word=word)
        answer: pb.ForgetNodeResponse = self._call(self._stub.ForgetNode, request)
        return answer

    def power(self, all_announced: bool = False) -> pb.Power:
        """Return the budget, committed and measured power, with the next announced or all."""
        request = pb.GetPowerRequest(all_announced=all_announced)
        answer: pb.Power = self._call(self._stub.GetPower, request)
        return answer

    def set_budget(
        self, budget_uw: int, deadline_ns: int, accept_outside: bool = False
    ) -> pb.SetBudgetResponse:
        """Change the budget; a lower budget is met by the deadline (0 = the default deadline)."""
        request = pb.SetBudgetRequest(
            budget_uw=budget_uw, deadline_ns=deadline_ns, accept_outside=accept_outside
        )
        answer: pb.SetBudgetResponse = self._call(self._stub.SetBudget, request)
        return answer

    def announce_budget(self, budget_uw: int, at_s: float) -> pb.AnnouncedBudget:
        """Announce a budget from a time (Unix seconds) on."""
        request = pb.AnnounceBudgetRequest(budget_uw=budget_uw, at_s=at_s)
        answer: pb.AnnounceBudgetResponse = self._call(self._stub.AnnounceBudget, request)
        return answer.announced

    def cancel_budget(self, number: int) -> pb.AnnouncedBudget:
        """Cancel an announced budget."""
        request = pb.CancelBudgetRequest(number=number)
        answer: pb.CancelBudgetResponse = self._call(self._stub.CancelBudget, request)
        return answer.cancelled

    def schedule_budgets(self, request: pb.ScheduleBudgetsRequest) -> pb.ScheduleBudgetsResponse:
        """Replace the announced budgets of a schedule, or ask what that would do."""
        answer: pb.ScheduleBudgetsResponse = self._call(self._stub.ScheduleBudgets, request)
        return answer

    def begin_emergency(self, request: pb.BeginEmergencyRequest) -> pb.BeginEmergencyResponse:
        """Limit the power at once, or ask what that would do."""
        answer: pb.BeginEmergencyResponse = self._call(self._stub.BeginEmergency, request)
        return answer

    def end_emergency(self) -> pb.EndEmergencyResponse:
        """End the emergency."""
        answer: pb.EndEmergencyResponse = self._call(
            self._stub.EndEmergency, pb.EndEmergencyRequest()
        )
        return answer

    def reload(self) -> pb.ReloadResponse:
        """Let the coordinator read its configuration again."""
        answer: pb.ReloadResponse = self._call(self._stub.Reload, pb.ReloadRequest())
        return answer

    def explain(self, job_id: str) -> pb.ExplainResponse:
        """Explain the state of a job."""
        request = pb.ExplainRequest(job_id=job_id)
        answer: pb.ExplainResponse = self._call(self._stub.Explain, request)
        return answer

    def list_profiles(self, app: str = "") -> pb.ListProfilesResponse:
        """Return the stored profiles, or the profile of an application."""
        answer: pb.ListProfilesResponse = self._call(
            self._stub.ListProfiles, pb.ListProfilesRequest(app=app)
        )
        return answer

    def put_profile(self, profile: pb.Profile) -> None:
        """Store a profile under the name of its application."""
        self._call(self._stub.PutProfile, pb.PutProfileRequest(profile=profile))

    def drop_profile(
        self, app: str, *, learnt_only: bool = False, certificate: bool = False
    ) -> pb.DropProfileResponse:
        """Delete stored data of an application."""
        request = pb.DropProfileRequest(app=app, learnt_only=learnt_only, certificate=certificate)
        answer: pb.DropProfileResponse = self._call(self._stub.DropProfile, request)
        return answer

    def watch(self, interval_ns: int) -> Iterator[pb.ClusterView]:
        """Yield the full state, and again whenever it changes, until the connection ends."""
        stream = self._stub.Watch(pb.WatchRequest(interval_ns=interval_ns), metadata=self._metadata)
        try:
            yield from stream
        except grpc.RpcError as error:
            raise self._failure(error) from error
        finally:
            stream.cancel()

    def _call(self, method: Any, request: Any, timeout_s: float = 0.0) -> Any:
        """Return the answer. A call without a connection was not sent, so it is repeated."""
        timeout_s = max(timeout_s, self._timeout_s)
        until_s = time.monotonic() + BUSY_S
        while True:
            try:
                return method(request, timeout=timeout_s, metadata=self._metadata)
            except grpc.RpcError as error:
                failure = self._failure(error, timeout_s)
                if not (isinstance(failure, BusyError) and self._connected(until_s)):
                    raise failure from error

    def _connected(self, until_s: float) -> bool:
        """Whether there is a connection by then; gRPC keeps trying."""
        ready = grpc.channel_ready_future(self._channel)
        try:
            ready.result(timeout=max(until_s - time.monotonic(), 0))
        except grpc.FutureTimeoutError:
            ready.cancel()
            return False
        return True

    def _failure(self, error: Any, timeout_s: float = 0.0) -> CliError:
        code, details = error.code(), " ".join((error.details() or "").split())
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return self._unanswered(code, details, timeout_s or self._timeout_s)
        return failure_of_status(code, details, address=self.address)

    def _unanswered(
        self, code: grpc.StatusCode, details: str, timeout_s: float
    ) -> UnreachableError:
        if code is grpc.StatusCode.UNAVAILABLE and not details.startswith(_UNSENT):
            return UnreachableError(
                f"the coordinator at {self.address} did not answer ({details}); the request may "
                "have been carried out: check this, then try again"
            )
        found = connection_failure(self._entrance, self.address)
        if code is grpc.StatusCode.UNAVAILABLE:
            # If a server answers now, it refused the connection before.
            return found or busy(self.address)
        if found is None or isinstance(found, BusyError):
            return TimedOutError(
                f"the coordinator at {self.address} did not answer within {timeout_s:g} s; "
                "try again, or check its log"
            )
        return found


def read_token(path: Path) -> str:
    """Return the token in the first line of a file. Raises BadRequestError if it is missing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read the token file {path}: {error}") from error
    token = lines[0].strip() if lines else ""
    if not token or not token.isascii() or not token.isprintable():
        raise BadRequestError(f"no token in {path}; its first line must be printable ASCII text")
    return token
