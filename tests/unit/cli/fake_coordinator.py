"""A coordinator in memory that answers every request of the command.

It serves the same API as the real coordinator, on its own socket. It plans nothing: a job that is
not held starts immediately on the first node. The job ends when the test calls `finish`, or
immediately if `runs_for_s` is set.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path

import grpc
from unit.cli.fake_budgets import NOW_S, FakeBudgets, W
from unit.cli.fake_hands import FakeHands
from unit.cli.fake_lists import listed

from wattfold.coordinator.cli.shared.texts.formatting import ENDED_STATES
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import coordinator_pb2_grpc as pb_grpc

V100_RESNET = GpuCurve(static_w=39, full_w=237, knee=0.84, beta=0.26)
"""Effect of a power limit on an epoch, which takes a minute on one GPU."""


def node(node_id: str, cpus: str = "0-3", **fields: object) -> pb.Node:
    """A node with one package zone of 30 to 60 W."""
    zone = pb.NodeZone(
        name="package-0",
        cap_uw=45 * W,
        cap_uw_min=30 * W,
        cap_uw_max=60 * W,
        floor_uw=30 * W,
        power_uw=31 * W,
        energy_uj=5_000 * W,
    )
    made = pb.Node(
        node_id=node_id,
        address="127.0.0.1:7171",
        state=pb.NODE_STATE_UP,
        cpus=cpus,
        free_cpus=cpus,
        zones=[zone],
        base_power_uw=20 * W,
        committed_uw=65 * W,
        measured_uw=51 * W,
        emulated=True,
    )
    made.MergeFrom(pb.Node(**fields))
    return made


def run_seconds(job: pb.Job) -> float:
    """A run time that scales with the size and slightly with the cap."""
    cap_w = (job.cap_uw or 60 * W) / W
    return (8.0 / max(1, job.size) + 1.0) * math.pow(60.0 / cap_w, 0.3)


class FakeCoordinator(FakeBudgets, FakeHands):
    """The state of a cluster and the service that shows it."""

    def __init__(self, token: str | None = None) -> None:
        super().__init__()
        self.changed = threading.Condition()
        self.jobs: dict[str, pb.Job] = {}
        self.planner = ""
        self.keys: dict[str, str] = {}
        self.nodes = [node("n1"), node("n2")]
        self.profiles: dict[str, pb.Profile] = {}
        self.power = pb.Power(
            budget_uw=200 * W,
            committed_uw=130 * W,
            measured_uw=102 * W,
            committed_uw_peak=180 * W,
            measured_uw_peak=150 * W,
            floor_uw=100 * W,
            energy_uj=12_345_678_901_234_567,
            policy="parm",
        )
        self.last_heard = pb.ForgetNodeResponse()
        self.submissions: list[pb.SubmitRequest] = []
        self.requeues: list[pb.RequeueRequest] = []
        self.resizes: list[tuple[str, int]] = []
        self.reserve_requests: list[pb.ReserveRequest] = []
        self.reservations: dict[str, pb.Reservation] = {}
        self.jobs_in_the_way: list[str] = []
        self.finish_at_once = False
        self.epochs_are_told = True
        self.upside_down = False
        self.looks = 0
        self.fail: Callable[[str], tuple[grpc.StatusCode, str] | None] = lambda method: None
        self._token = token

    # Changes that tests make to the cluster.

    def add(self, job: pb.Job) -> None:
        with self.changed:
            self.jobs[job.job_id] = job
            self.changed.notify_all()

    def finish(self, job_id: str, state: pb.JobState, exit_code: int = 0) -> None:
        with self.changed:
            self._end(self.jobs[job_id], state, exit_code)

    def wait_for_job(self, state: pb.JobState, timeout_s: float = 20.0) -> str:
        """Wait for a job in this state and return its id."""

        def found() -> list[str]:
            return [job.job_id for job in self.jobs.values() if job.state == state]

        with self.changed:
            assert self.changed.wait_for(found, timeout_s), "no such job came"
            return found()[0]

    # The service.

    def Submit(self, request, context):  # noqa: N802
        self._enter("Submit", context)
        if request.spec.size_min > 4:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"size {request.spec.size_min} cores is above the 4 cores of the largest node",
            )
        with self.changed:
            known = self.keys.get(request.idempotency_key)
            if known:
                return pb.SubmitResponse(job_id=known)
            self.submissions.append(request)
            job = self._accept(request)
            if request.idempotency_key:
                self.keys[request.idempotency_key] = job.job_id
            self.changed.notify_all()
            return pb.SubmitResponse(job_id=job.job_id)

    def Cancel(self, request, context):  # noqa: N802
        self._enter("Cancel", context)
        with self.changed:
            job = self._job(request.job_id, context)
            if job.state not in ENDED_STATES:
                self._end(job, pb.JOB_STATE_CANCELLED, 0)
            return pb.CancelResponse(state=job.state)

    def Hold(self, request, context):  # noqa: N802
        self._enter("Hold", context)
        with self.changed:
            job = self._job(request.job_id, context)
            if job.state != pb.JOB_STATE_PENDING:
                context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"job {job.job_id} does not wait any more; cancel it instead",
                )
            job.state = pb.JOB_STATE_HELD
            return pb.HoldResponse()

    def Release(self, request, context):  # noqa: N802
        self._enter("Release", context)
        with self.changed:
            job = self._job(request.job_id, context)
            job.state = pb.JOB_STATE_PENDING
            return pb.ReleaseResponse()

    def Requeue(self, request, context):  # noqa: N802
        self._enter("Requeue", context)
        with self.changed:
            job = self._job(request.job_id, context)
            self.requeues.append(request)
            return pb.RequeueResponse(state=job.state)

    def ResizeJob(self, request, context):  # noqa: N802
        self._enter("ResizeJob", context)
        with self.changed:
            job = self._job(request.job_id, context)
            self.resizes.append((request.job_id, request.size))
            return pb.ResizeJobResponse(state=job.state, size=job.size)

    def ListJobs(self, request, context):  # noqa: N802
        self._enter("ListJobs", context)
        with self.changed:
            self.looks += 1
            self.changed.notify_all()
            return listed(request, self.jobs.values(), self.planner)

    def GetEnvironment(self, request, context):  # noqa: N802
        self._enter("GetEnvironment", context)
        with self.changed:
            env = dict(self._job(request.job_id, context).spec.env)
            return pb.GetEnvironmentResponse(env=env)

    def Watch(self, request, context) -> Iterator[pb.ClusterView]:  # noqa: N802
        self._enter("Watch", context)
        moment = NOW_S
        while context.is_active():
            with self.changed:
                yield pb.ClusterView(
                    time_s=moment,
                    power=self.power,
                    nodes=self.nodes,
                    jobs=list(self.jobs.values()),
                    last_round=pb.PlanningRound(
                        policy="parm", solver="fast", outcome="optimal", solve_ns=1_500_000, jobs=2
                    ),
                )
                moment += 1.0
                self.changed.wait(0.05)

    def ListNodes(self, request, context):  # noqa: N802
        self._enter("ListNodes", context)
        return pb.ListNodesResponse(nodes=self.nodes)

    def Reserve(self, request, context):  # noqa: N802
        self._enter("Reserve", context)
        self.reserve_requests.append(request)
        made = self.reservations[request.name] = pb.Reservation(
            name=request.name,
            node_ids=request.node_ids or ["n1"],
            start_at_s=request.start_at_s or NOW_S,
            end_at_s=request.end_at_s,
            users=request.users,
            queue=request.queue,
            maintenance=request.maintenance,
            end_jobs=request.end_jobs,
            reason=request.reason,
            other_job_ids=self.jobs_in_the_way,
        )
        return pb.ReserveResponse(reservation=made)

    def CancelReservation(self, request, context):  # noqa: N802
        self._enter("CancelReservation", context)
        if self.reservations.pop(request.name, None) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no reservation {request.name!r}")
        return pb.CancelReservationResponse()

    def ListReservations(self, request, context):  # noqa: N802
        self._enter("ListReservations", context)
        return pb.ListReservationsResponse(reservations=self.reservations.values())

    def DrainNode(self, request, context):  # noqa: N802
        self._enter("DrainNode", context)
        return pb.DrainNodeResponse(node=self._node(request, context, pb.NODE_DUTY_DRAINING))

    def ResumeNode(self, request, context):  # noqa: N802
        self._enter("ResumeNode", context)
        return pb.ResumeNodeResponse(node=self._node(request, context, pb.NODE_DUTY_SERVING))

    def LeaveNode(self, request, context):  # noqa: N802
        self._enter("LeaveNode", context)
        return pb.LeaveNodeResponse(node=self._node(request, context, pb.NODE_DUTY_LEFT))

    def ForgetNode(self, request, context):  # noqa: N802
        self._enter("ForgetNode", context)
        duties = {
            pb.FORGET_WORD_NO_POWER: pb.NODE_DUTY_UNPOWERED,
            pb.FORGET_WORD_OUTSIDE_BUDGET: pb.NODE_DUTY_OUTSIDE,
        }
        answer = pb.ForgetNodeResponse(node=self._node(request, context, duties[request.word]))
        answer.MergeFrom(self.last_heard)
        return answer

    def _node(self, request, context, duty):
        for found in self.nodes:
            if found.node_id == request.node_id:
                found.duty, found.duty_reason = duty, request.reason
                return found
        context.abort(grpc.StatusCode.NOT_FOUND, f"no node {request.node_id!r}")
        return None

    def Explain(self, request, context):  # noqa: N802
        self._enter("Explain", context)
        with self.changed:
            job = self._job(request.job_id, context)
            return pb.ExplainResponse(
                summary=f"job {job.job_id} has {job.size} cores",
                lines=["budget 200.0 W, committed 130.0 W", "one more core costs 9.0 W"],
                job=job,
            )

    def ListProfiles(self, request, context):  # noqa: N802
        self._enter("ListProfiles", context)
        chosen = [p for p in self.profiles.values() if request.app in ("", p.app)]
        return pb.ListProfilesResponse(profiles=chosen)

    def PutProfile(self, request, context):  # noqa: N802
        self._enter("PutProfile", context)
        sent = request.profile
        known = self.profiles.setdefault(sent.app, pb.Profile())
        mode, certificate = known.mode, known.certificate
        # As in the real coordinator, a certificate keeps the model, and a model keeps the
        # certificate.
        if sent.t1_s or not known.app:
            known.CopyFrom(sent)
        known.mode = sent.mode or mode
        known.certificate = sent.certificate or certificate
        return pb.PutProfileResponse()

    def _enter(self, method: str, context: grpc.ServicerContext) -> None:
        failure = self.fail(method)
        if failure:
            context.abort(*failure)
        sent = dict(context.invocation_metadata()).get("authorization")
        if self._token and sent != f"Bearer {self._token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "missing or wrong token")

    def _job(self, job_id: str, context: grpc.ServicerContext) -> pb.Job:
        if job_id not in self.jobs:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no job {job_id}")
        return self.jobs[job_id]

    def _accept(self, request: pb.SubmitRequest) -> pb.Job:
        job = pb.Job(
            job_id=f"job-{len(self.jobs) + 1}",
            spec=request.spec,
            state=pb.JOB_STATE_HELD if request.held else pb.JOB_STATE_RUNNING,
            submitted_at_s=NOW_S,
        )
        if not request.held:
            job.started_at_s = NOW_S + 1
            job.size = request.spec.size_max
            job.cap_uw = request.spec.cap_uw or 45 * W
            job.shares.add(node_id="n1", cpus=f"0-{job.size - 1}" if job.size > 1 else "0")
        self.jobs[job.job_id] = job
        if self.finish_at_once and not request.held:
            self._end(job, pb.JOB_STATE_COMPLETED, 0)
        return job

    def _end(self, job: pb.Job, state: pb.JobState, exit_code: int) -> None:
        job.state = state
        job.exit_code = exit_code
        seconds = run_seconds(job)
        if job.spec.epochs and state == pb.JOB_STATE_COMPLETED and self.epochs_are_told:
            limit_w = (job.spec.gpu_cap_uw or 250 * W) / W
            job.epochs_saved, job.epochs_timed = job.spec.epochs, job.spec.epochs - 1
            slower = V100_RESNET.slowdown(limit_w)
            job.epoch_s = 60 / job.size * (1 / slower if self.upside_down else slower)
        job.ended_at_s = job.started_at_s + seconds if job.started_at_s else job.submitted_at_s
        job.energy_uj = round(0.9 * (job.cap_uw or 60 * W) * seconds)
        del job.shares[:]
        self.changed.notify_all()


def serve(fake: FakeCoordinator, address: str) -> grpc.Server:
    """Serve the coordinator on an address. Stop the server at the end."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    pb_grpc.add_CoordinatorServicer_to_server(fake, server)
    assert server.add_insecure_port(address), f"cannot listen on {address}"
    server.start()
    return server


def socket_address(folder: Path) -> str:
    """A socket in a folder with a short name, because socket paths are limited."""
    return f"unix:{folder / 'c.sock'}"
