"""Calls to the coordinator: one typed method a request, a deadline on each, failures as CliError.

Makes no decision about the output. A stream has no deadline of its own. Its reader notices by the
age of the last message that the other side is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from wattfold.coordinator.cli.shared.errors import (
    BadRequestError,
    CliError,
    NotFoundError,
    UnreachableError,
)
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

DEFAULT_TIMEOUT_S = 10.0
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A view of a large machine exceeds the 4 MiB gRPC allows by default."""

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
}


class _Stub:
    """The calls of the service, each made when it is first used; the generated stub makes all.

    They have no types; the methods of the client give them back.
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


class CoordinatorClient:
    """A connection to one coordinator, made when first used. Close it, or use it in `with`."""

    def __init__(
        self, address: str, token: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
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
        """Ends the connection and every stream on it."""
        self._channel.close()

    def submit(self, request: pb.SubmitRequest) -> str:
        """Hands a job in; returns its id."""
        answer: pb.SubmitResponse = self._call(self._stub.Submit, request)
        return answer.job_id

    def cancel(self, job_id: str, force: bool = False) -> pb.CancelResponse:
        """Cancel a job, with ``force`` even if its nodes are unreachable. Returns its state."""
        request = pb.CancelRequest(job_id=job_id, force=force)
        answer: pb.CancelResponse = self._call(self._stub.Cancel, request)
        return answer

    def hold(self, job_id: str) -> None:
        """Keeps a waiting job from starting."""
        self._call(self._stub.Hold, pb.HoldRequest(job_id=job_id))

    def release(self, job_id: str) -> None:
        """Lets a held job start."""
        self._call(self._stub.Release, pb.ReleaseRequest(job_id=job_id))

    def requeue(self, request: pb.RequeueRequest) -> None:
        """Ends the attempt of a job and has it queued again."""
        self._call(self._stub.Requeue, request)

    def resize(self, job_id: str, size: int) -> pb.ResizeJobResponse:
        """Set the size of a job; 0 = the policy chooses. Returns its current size."""
        request = pb.ResizeJobRequest(job_id=job_id, size=size)
        answer: pb.ResizeJobResponse = self._call(self._stub.ResizeJob, request)
        return answer

    def suspend(self, job_id: str) -> None:
        """Suspend a running job."""
        self._call(self._stub.SuspendJob, pb.SuspendJobRequest(job_id=job_id))

    def resume(self, job_id: str) -> None:
        """Resume a suspended job."""
        self._call(self._stub.ResumeJob, pb.ResumeJobRequest(job_id=job_id))

    def list_jobs(
        self, job_ids: Sequence[str] = (), include_ended: bool = False, limit: int = 0
    ) -> pb.ListJobsResponse:
        """The jobs of those ids, or all that have not ended."""
        request = pb.ListJobsRequest(job_ids=job_ids, include_ended=include_ended, limit=limit)
        answer: pb.ListJobsResponse = self._call(self._stub.ListJobs, request)
        return answer

    def environment(self, job_id: str) -> dict[str, str]:
        """Return the environment with which a job of the caller will start."""
        answer: pb.GetEnvironmentResponse = self._call(
            self._stub.GetEnvironment, pb.GetEnvironmentRequest(job_id=job_id)
        )
        return dict(answer.env)

    def list_audit(self, request: pb.ListAuditRequest) -> pb.ListAuditResponse:
        """Return the requests to the coordinator."""
        answer: pb.ListAuditResponse = self._call(self._stub.ListAudit, request)
        return answer

    def list_queues(self) -> pb.ListQueuesResponse:
        """The queues of the site."""
        answer: pb.ListQueuesResponse = self._call(self._stub.ListQueues, pb.ListQueuesRequest())
        return answer

    def reserve(self, request: pb.ReserveRequest) -> pb.Reservation:
        """Keeps nodes for some jobs, or for none."""
        answer: pb.ReserveResponse = self._call(self._stub.Reserve, request)
        return answer.reservation

    def cancel_reservation(self, name: str) -> None:
        """Cancel a reservation."""
        request = pb.CancelReservationRequest(name=name)
        self._call(self._stub.CancelReservation, request)

    def list_reservations(self) -> pb.ListReservationsResponse:
        """The reservations that are not over."""
        answer: pb.ListReservationsResponse = self._call(
            self._stub.ListReservations, pb.ListReservationsRequest()
        )
        return answer

    def list_nodes(self) -> pb.ListNodesResponse:
        """All nodes."""
        answer: pb.ListNodesResponse = self._call(self._stub.ListNodes, pb.ListNodesRequest())
        return answer

    def drain_node(self, node_id: str, reason: str, cancel_jobs: bool) -> pb.Node:
        """Gives a node no new jobs."""
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

    def forget_node(self, node_id: str, reason: str, word: pb.ForgetWord) -> pb.Node:
        """Remove a node from the ledger on request of an operator."""
        request = pb.ForgetNodeRequest(node_id=node_id, reason=reason, word=word)
        answer: pb.ForgetNodeResponse = self._call(self._stub.ForgetNode, request)
        return answer.node

    def power(self) -> pb.Power:
        """Budget, committed and measured power."""
        answer: pb.Power = self._call(self._stub.GetPower, pb.GetPowerRequest())
        return answer

    def set_budget(
        self, budget_uw: int, deadline_ns: int, accept_outside: bool = False
    ) -> pb.SetBudgetResponse:
        """Changes the budget; a lower one is kept by the deadline (0 = the coordinator's own)."""
        request = pb.SetBudgetRequest(
            budget_uw=budget_uw, deadline_ns=deadline_ns, accept_outside=accept_outside
        )
        answer: pb.SetBudgetResponse = self._call(self._stub.SetBudget, request)
        return answer

    def announce_budget(self, budget_uw: int, at_s: float) -> pb.AnnouncedBudget:
        """Another budget from a time (Unix seconds) on."""
        request = pb.AnnounceBudgetRequest(budget_uw=budget_uw, at_s=at_s)
        answer: pb.AnnounceBudgetResponse = self._call(self._stub.AnnounceBudget, request)
        return answer.announced

    def cancel_budget(self, number: int) -> pb.AnnouncedBudget:
        """Cancel an announced budget."""
        request = pb.CancelBudgetRequest(number=number)
        answer: pb.CancelBudgetResponse = self._call(self._stub.CancelBudget, request)
        return answer.cancelled

    def explain(self, job_id: str) -> pb.ExplainResponse:
        """Why a job is where it is."""
        answer: pb.ExplainResponse = self._call(
            self._stub.Explain, pb.ExplainRequest(job_id=job_id)
        )
        return answer

    def list_profiles(self, app: str = "") -> pb.ListProfilesResponse:
        """The stored profiles, or the one of an application."""
        answer: pb.ListProfilesResponse = self._call(
            self._stub.ListProfiles, pb.ListProfilesRequest(app=app)
        )
        return answer

    def put_profile(self, profile: pb.Profile) -> None:
        """Stores a profile under the name of its application."""
        self._call(self._stub.PutProfile, pb.PutProfileRequest(profile=profile))

    def drop_profile(
        self, app: str, *, learnt_only: bool = False, certificate: bool = False
    ) -> pb.DropProfileResponse:
        """Forgets what is known of an application."""
        request = pb.DropProfileRequest(app=app, learnt_only=learnt_only, certificate=certificate)
        answer: pb.DropProfileResponse = self._call(self._stub.DropProfile, request)
        return answer

    def watch(self, interval_ns: int) -> Iterator[pb.ClusterView]:
        """The whole picture, then again whenever it changed, until the connection ends."""
        stream = self._stub.Watch(pb.WatchRequest(interval_ns=interval_ns), metadata=self._metadata)
        try:
            yield from stream
        except grpc.RpcError as error:
            raise self._failure(error) from error
        finally:
            stream.cancel()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def _failure(self, error: Any) -> Exception:
        return _from_status(
            error.code(), error.details() or "", address=self.address, timeout_s=self._timeout_s
        )


def read_token(path: Path) -> str:
    """The token in a file, its first line. Raises BadRequestError when there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read the token file {path}: {error}") from error
    token = lines[0].strip() if lines else ""
    if not token or not token.isascii() or not token.isprintable():
        raise BadRequestError(f"no token in {path}; its first line must be printable ASCII text")
    return token


def _from_status(code: grpc.StatusCode, details: str, address: str, timeout_s: float) -> CliError:
    """The failure a gRPC status stands for, worded for people."""
    text = " ".join(details.split())
    if code is grpc.StatusCode.UNAVAILABLE:
        return UnreachableError(
            f"no coordinator at {address}; start it with `wattfold-coordinator`, "
            "or give another address with --coordinator ADDRESS"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UnreachableError(
            f"the coordinator at {address} did not answer within {timeout_s:g} s; try again, "
            "or check its log"
        )
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFoundError(text or "not found")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return CliError(
            f"the coordinator at {address} requires a token ({text or 'none was sent'}); "
            "give its file with --token-file FILE or WATTFOLD_TOKEN_FILE"
        )
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return CliError(f"not permitted: {text or 'no reason given'}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return CliError(
            f"the coordinator at {address} does not support this request; "
            "it is older than this command: update the coordinator"
        )
    if code in _REFUSALS:
        return CliError(text or f"refused ({code.name})")
    return CliError(
        f"the coordinator at {address} failed: {text or 'no reason given'} ({code.name})"
    )
