"""What people ask to see, made in a process of its own from a copy of the state.

A picture is put together from pieces: the serialised message of every job and node, kept until the
job, the node or what was measured of it has changed. So a picture costs what has changed since the
last one, whoever asked for that, and some bytes copied. There are up to three pieces of a job: for
its account, for operators, and what everybody may see. Runs in the worker (`replica`);
`picture_feed` asks.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters import agent_messages, views
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.map_views import statements as map_statements
from wattfold.coordinator.adapters.node_views import (
    attempt_statements,
    ending_reason,
    outside_statements,
    start_statements,
)
from wattfold.coordinator.adapters.observations import Observations
from wattfold.coordinator.adapters.ownership import access_of, public
from wattfold.coordinator.adapters.peers import Peer
from wattfold.coordinator.adapters.replica import Replica
from wattfold.coordinator.adapters.residual import with_residual
from wattfold.coordinator.core.job import Job, JobSpec, JobState
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.core.snapshot import snapshot
from wattfold.coordinator.core.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

LIST_MAX = 1000
FRESH_NS = NS_PER_S
"""How long what changes without an event may stand still in pictures: the share done of a running
job, and what others must do before a job can end or a node leave."""
JOBS_OF_LIST = b"\x0a"
NODES_OF_LIST = b"\x0a"
NODES_OF_VIEW = b"\x1a"
JOBS_OF_VIEW = b"\x22"
"""Tags of the repeated fields of the answers."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What agents have sent since the last questions: the newest message of each, when it was sent
    by our clock, and the nodes out of reach. Power of all nodes is measured where all is heard."""

    messages: tuple[tuple[NodeId, bytes, int], ...] = ()
    gone: tuple[NodeId, ...] = ()
    power_uw: int = 0
    peak_uw: int = 0
    energy_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Asks for a `ListJobsResponse`; no ids: all, the newest ``limit``."""

    viewer: Peer
    job_ids: tuple[JobId, ...] = ()
    include_ended: bool = False
    limit: int = LIST_MAX


@dataclass(frozen=True, slots=True)
class Nodes:
    """Asks for a `ListNodesResponse`."""


@dataclass(frozen=True, slots=True)
class Power:
    """Asks for a `Power`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Asks for a `ClusterView` with the jobs that have ended since."""

    viewer: Peer
    since_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Asks for an `ExplainResponse`, which only an owner or operator may."""

    viewer: Peer
    job_id: JobId


Question = Jobs | Nodes | Power | Cluster | Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What pictures need beside the state."""

    clock: Clock
    policy: Policy


def loaded() -> None:
    """Called in the worker before anybody asks: all that `answer` needs is imported by then."""
    # Not imported by the process that serves.
    importlib.import_module("wattfold.coordinator.policies.explain")


def answer(
    replica: Replica, setting: Setting, told: Told, questions: tuple[Question, ...]
) -> list[bytes | str]:
    """Called in the worker: the serialised answer to every question, or why there is none."""
    pictures = replica.companion(Pictures)
    pictures.bring_up_to_date(setting, told)
    return [pictures.answer(question) for question in questions]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A message with its length in front, and until when it may be shown (0 = until it changes)."""

    data: bytes
    until_ns: int = 0


@dataclass(frozen=True, slots=True)
class _JobPiece:
    """The same of a job, by what it is to those it is shown to."""

    until_ns: int = 0
    shown: dict[pb.JobAccess, bytes] = field(default_factory=dict)


class Pictures:
    """The pieces, by job and node."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._told = Told()
        self._seen = Observations()
        self._jobs: dict[JobId, _JobPiece] = {}
        self._specs: dict[JobId, tuple[JobSpec, bytes]] = {}
        self._nodes: dict[NodeId, _Piece] = {}
        self.made = 0
        """Pieces made so far: the cost of pictures."""

    @property
    def _state(self) -> State:
        return self._replica.state

    def bring_up_to_date(self, setting: Setting, told: Told) -> None:
        """Drops the pieces that are not true any more."""
        self._setting, self._told = setting, told
        self._now_ns = setting.clock.now_ns()
        touched = self._replica.take_touched()
        for job_id in (*touched.jobs, *touched.shown):
            self._jobs.pop(job_id, None)
            if job_id not in self._state.jobs:
                self._specs.pop(job_id, None)
        for node_id in touched.nodes:
            self._nodes.pop(node_id, None)
        for node_id in told.gone:
            self._outdate(node_id)
            self._seen.drop(node_id)
        for node_id, data, sent_ns in told.messages:
            self._outdate(node_id)
            self._hear(node_id, data, sent_ns)

    def _hear(self, node_id: NodeId, data: bytes, sent_ns: int) -> None:
        node = self._state.nodes.get(node_id)
        if node is not None and node.spec is not None:
            message = agent_pb.Telemetry.FromString(data)
            self._seen.take(agent_messages.sample(message, node.spec, sent_ns))
            self._outdate(node_id)

    def _outdate(self, node_id: NodeId) -> None:
        self._nodes.pop(node_id, None)
        sample = self._seen.nodes.get(node_id)
        for job_id in sample.jobs if sample else ():
            self._jobs.pop(job_id, None)

    def answer(self, question: Question) -> bytes | str:
        """A serialised answer, or why there is none."""
        match question:
            case Jobs():
                return self._list(question)
            case Nodes():
                return _repeated(NODES_OF_LIST, self._node_pieces())
            case Power():
                return self._power().SerializeToString()
            case Cluster():
                return self._cluster(question)
            case Explanation():
                return self._explain(question)

    def _list(self, question: Jobs) -> bytes:
        state = self._state
        if question.job_ids:
            found = [state.jobs[job_id] for job_id in question.job_ids if job_id in state.jobs]
        elif question.include_ended:
            found = list(state.jobs.values())
        else:
            found = list(state.index.open.values())
        pieces = self._job_pieces(found[-question.limit :], question.viewer)
        return _repeated(JOBS_OF_LIST, pieces)

    def _cluster(self, question: Cluster) -> bytes:
        state = self._state
        head = pb.ClusterView(
            time_s=self._setting.clock.wall_s(self._now_ns),
            power=self._power(),
            last_round=views.round_message(state),
        )
        found = [j for j in state.jobs.values() if not j.final or j.ended_ns >= question.since_ns]
        nodes = _repeated(NODES_OF_VIEW, self._node_pieces())
        jobs = _repeated(JOBS_OF_VIEW, self._job_pieces(found, question.viewer))
        return head.SerializeToString() + nodes + jobs

    def _power(self) -> pb.Power:
        message = views.power_message(
            self._state, self._seen, self._setting.clock, self._setting.policy.name
        )
        # Measured over a common second, from all messages and not only the newest.
        message.measured_uw = self._told.power_uw
        message.measured_uw_peak = self._told.peak_uw
        message.energy_uj = self._told.energy_uj
        return message

    def _explain(self, question: Explanation) -> bytes | str:
        job_id = question.job_id
        job = self._state.jobs.get(job_id)
        if job is None:
            return f"no job {job_id!r}"
        from wattfold.coordinator.policies.explain import explain

        message = views.job_message(job, self._seen, self._setting.clock, self._now_ns)
        views.add_resizing(message, self._state, job)
        message.access = access_of(question.viewer, job.spec)
        waits = ending_reason(self._state, job)
        message.reason = waits or message.reason
        reply = pb.ExplainResponse(job=message)
        if job.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING):
            seen = with_residual(snapshot(self._state, self._now_ns), self._seen)
            found = explain(seen, job_id, self._setting.policy, job.reason)
            reply.summary = found.summary
            reply.lines.extend([*found.lines, *map_statements(message)])
            reply.lines.extend(outside_statements(self._state))
            reply.lines.extend(start_statements(job, self._now_ns))
        elif job.state is JobState.HELD:
            reply.summary = "Held by its user."
            reply.lines.append(f"`wattfold release {job_id}` lets it start.")
        elif job.state is JobState.SUSPENDED:
            reply.summary = "Suspended: its processes are stopped."
            reply.lines.append(f"`wattfold resume {job_id}` resumes it.")
            reply.lines.append("It keeps its cores and its power, and its time limit is paused.")
        else:
            reply.summary = f"The job is {job.state.value}."
            if waits:
                reply.lines.append(f"It {waits}.")
            if job.following is not None:
                reply.summary = f"{job.reason[:1].upper()}{job.reason[1:]}."
        if message.message:
            reply.lines.append(message.message)
        reply.lines.extend(attempt_statements(job))
        if job.spec.mode_source:
            reply.lines.append(f"Resized by {job.spec.mode.value}: {job.spec.mode_source}.")
        return reply.SerializeToString()

    # Pieces.

    def _job_pieces(self, jobs: Iterable[Job], viewer: Peer) -> list[bytes]:
        return [self._job(job, access_of(viewer, job.spec)) for job in jobs]

    def _job(self, job: Job, access: pb.JobAccess) -> bytes:
        piece = self._jobs.get(job.job_id)
        if piece is None or 0 < piece.until_ns <= self._now_ns:
            moves = job.state in (JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING)
            until_ns = self._now_ns + FRESH_NS if moves else 0
            piece = self._jobs[job.job_id] = _JobPiece(until_ns)
        data = piece.shown.get(access)
        if data is None:
            self.made += 1
            data = piece.shown[access] = _delimited(self._job_bytes(job, access))
        return data

    def _job_bytes(self, job: Job, access: pb.JobAccess) -> bytes:
        body = views.job_without_spec(job, self._seen, self._setting.clock, self._now_ns)
        views.add_resizing(body, self._state, job)
        body.reason = ending_reason(self._state, job) or body.reason
        body.access = access
        if access == pb.JOB_ACCESS_OTHER:
            body.spec.CopyFrom(views.spec_message(job.spec, self._setting.clock))
            return public(body).SerializeToString()
        return body.SerializeToString() + self._spec(job)

    def _spec(self, job: Job) -> bytes:
        known = self._specs.get(job.job_id)
        if known is None or known[0] is not job.spec:
            # A message appended to another one is merged into it: the field of the submission.
            data = pb.Job(
                spec=views.spec_message(job.spec, self._setting.clock)
            ).SerializeToString()
            known = self._specs[job.job_id] = (job.spec, data)
        return known[1]

    def _node_pieces(self) -> list[bytes]:
        state, found = self._state, []
        for node_id, node in state.nodes.items():
            piece = self._nodes.get(node_id)
            if piece is None or 0 < piece.until_ns <= self._now_ns:
                self.made += 1
                message = views.node_message(state, node, self._seen.nodes.get(node_id))
                # What a node that is to leave waits for is in the hands of others.
                until_ns = self._now_ns + FRESH_NS if message.waits_for else 0
                data = _delimited(message.SerializeToString())
                piece = self._nodes[node_id] = _Piece(data, until_ns)
            found.append(piece.data)
        return found


def _delimited(data: bytes) -> bytes:
    """A message with its length in front, as a field of another one has it."""
    size, head = len(data), bytearray()
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _repeated(tag: bytes, pieces: list[bytes]) -> bytes:
    """A repeated field of messages."""
    return tag.join((b"", *pieces)) if pieces else b""
