"""Views for people, made in a separate process from a copy of the state.

A view consists of pieces: the serialised message of every job and node, kept until its job, node or
measurements change. A job has up to three pieces: for its account, for operators, and for others.
Runs in the worker (`replica`); `picture_feed` sends the requests.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.agents import messages as agent_messages
from wattfold.coordinator.adapters.agents.launch_messages import job_outputs
from wattfold.coordinator.adapters.copies import job_messages, site_messages
from wattfold.coordinator.adapters.copies.array_views import ArrayLines
from wattfold.coordinator.adapters.copies.explanation import explanation
from wattfold.coordinator.adapters.copies.job_filter import ALL_JOBS
from wattfold.coordinator.adapters.copies.node_views import closed_statement
from wattfold.coordinator.adapters.copies.outlook_views import LookAhead, ViewInputs, add_due_sums
from wattfold.coordinator.adapters.copies.ramp_views import current_reason
from wattfold.coordinator.adapters.copies.replica import Replica
from wattfold.coordinator.adapters.copies.view_requests import (
    AgentReports,
    Cluster,
    Explanation,
    Jobs,
    MetricsText,
    Nodes,
    Power,
    Question,
)
from wattfold.coordinator.adapters.copies.waiting_views import (
    DETAIL_NS,
    WaitingReasons,
    first_waiting,
    planner_trouble,
    told_reason,
)
from wattfold.coordinator.adapters.door.ownership import access_of, public
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.learning.residual import with_residual
from wattfold.coordinator.adapters.metrics.meters import Figures
from wattfold.coordinator.adapters.requests.budgets import ANNOUNCED_SHOWN
from wattfold.coordinator.core.model.announced import ANNOUNCED_MAX
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.job_arrays.array_counts import awaited
from wattfold.coordinator.core.rules.job_arrays.arrays import task
from wattfold.coordinator.core.rules.nodes import decided_sleep
from wattfold.coordinator.core.rules.snapshot import job_views, without_jobs
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1 import node_agent_pb2 as agent_pb

FRESH_NS = NS_PER_S
"""Maximum age of values that change without an event.

Such values are the progress of a running job, and what delays the end of a job or the departure of
a node.
"""
JOBS_OF_LIST = NODES_OF_LIST = b"\x0a"
NODES_OF_VIEW = b"\x1a"
JOBS_OF_VIEW = b"\x22"
"""Tags of the repeated fields of the answers."""


def loaded() -> None:
    """Import everything that `answer` needs. Called in the worker before the first request."""
    # The serving process does not import it.
    importlib.import_module("wattfold.coordinator.policies.reasons.explain")


def answer(
    replica: Replica, setting: ViewInputs, told: AgentReports, questions: tuple[Question, ...]
) -> list[bytes | str]:
    """Return the serialised answer to each request, or why there is none. Runs in the worker."""
    pictures = replica.companion(Pictures)
    pictures.bring_up_to_date(setting, told)
    return [pictures.answer(question) for question in questions]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A message with its length prefix, and its last valid time (0 = valid until it changes)."""

    data: bytes
    until_ns: int = 0


@dataclass(frozen=True, slots=True)
class _JobPiece:
    """The messages of a job, by the access rights of the viewer."""

    until_ns: int = 0
    shown: dict[pb.JobAccess, bytes] = field(default_factory=dict)


class Pictures:
    """The pieces, by job and node."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._told = AgentReports()
        self._seen = Observations()
        self._jobs: dict[JobId, _JobPiece] = {}
        self._specs: dict[JobId, tuple[JobSpec, bytes]] = {}
        self._nodes: dict[NodeId, _Piece] = {}
        self._closed = ""
        """Statement for waiting jobs about nodes that cannot start jobs."""
        self._trouble = ""
        self._detailed: dict[JobId, str] = {}
        """Missing resources of the first waiting jobs of the last list."""
        self._first: set[JobId] | None = None
        """Jobs that were examined for it; None = none yet."""
        self._due = (-DETAIL_NS, b"")
        """Time of the last sums over due dates, and the sums."""
        self._ahead: dict[JobId, LookAhead | None] = {}
        """Outlooks of the jobs that the current request names."""
        self._looked_ns = -DETAIL_NS
        """Time of the last examination."""
        self.made = 0
        """Number of pieces made so far, the cost of the views."""

    @property
    def _state(self) -> State:
        return self._replica.state

    def bring_up_to_date(self, setting: ViewInputs, told: AgentReports) -> None:
        """Drop outdated pieces."""
        self._setting, self._told = setting, told
        self._now_ns = setting.clock.now_ns()
        if self._closed != (closed := closed_statement(self._state)):
            self._closed = closed
            self._jobs.clear()
        trouble = planner_trouble(self._state, setting.clock, self._now_ns)
        if trouble != self._trouble:
            self._trouble = trouble
            for job in self._state.index.open.values():
                if job.state is JobState.PENDING:
                    self._jobs.pop(job.job_id, None)
        if self._now_ns >= self._looked_ns + DETAIL_NS:
            self._forget_details()
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
        """Return a serialised answer, or why there is none."""
        match question:
            case Jobs():
                return self._list(question)
            case Nodes():
                return _repeated(NODES_OF_LIST, self._node_pieces())
            case Power():
                message = self._power(ANNOUNCED_MAX if question.all_announced else ANNOUNCED_SHOWN)
                return message.SerializeToString() + self._due_sums()
            case Cluster():
                return self._cluster(question)
            case Explanation():
                return self._explain(question)
            case MetricsText():
                return self._metrics(question.figures)

    def _list(self, question: Jobs) -> bytes:
        state = self._state
        if question.job_ids:
            found = [job for job_id in question.job_ids if (job := self._named(job_id))]
        elif question.include_ended:
            found = list(state.jobs.values())
        else:
            found = list(state.index.open.values())
        if question.chosen != ALL_JOBS:
            viewer, clock = question.viewer, self._setting.clock
            found = [job for job in found if question.chosen.keeps(job, viewer, clock)]
        arrays = ArrayLines(state, self._setting.clock, self._now_ns, question)
        lines = arrays.lines(found)
        head = pb.ListJobsResponse(
            planner=self._trouble, total=len(lines), counts=arrays.counts(found)
        )
        lines = arrays.last(lines)
        found = [one for one in lines if isinstance(one, Job)]
        if question.details or not question.job_ids:
            self._look_at_first(found)
        self._look_ahead(found if question.job_ids else [], question.details)
        pieces = [
            self._job(one, access_of(question.viewer, one.spec))
            if isinstance(one, Job)
            else _delimited(arrays.data(one))
            for one in lines
        ]
        return head.SerializeToString() + _repeated(JOBS_OF_LIST, pieces)

    def _named(self, job_id: JobId) -> Job | None:
        """Return a job, or a task that is not a job yet. Arrays are added to lists later."""
        job, waits = self._state.jobs.get(job_id), awaited(self._state, job_id)
        return task(*waits, self._now_ns) if job is None and waits else job

    def _look_at_first(self, jobs: Sequence[Job]) -> None:
        """Find the missing resources of the first waiting jobs of a list, if this is due again."""
        state, setting = self._state, self._setting
        first = first_waiting(jobs)
        if first == self._first:
            return
        self._forget_details()
        self._first, self._looked_ns = first, self._now_ns
        for job_id in first:
            self._jobs.pop(job_id, None)
        if first and any(node.reachable for node in state.nodes.values()):
            waiting = [state.jobs[job_id] for job_id in first]
            views = job_views(state, [*state.placed(), *waiting], self._now_ns)
            seen = replace(without_jobs(state, self._now_ns), jobs=tuple(views))
            if not seen.nodes:
                return
            reasons = WaitingReasons(with_residual(seen, self._seen), setting.policy, setting.clock)
            self._detailed = {job.job_id: reasons.shortage(job) for job in waiting}

    def _forget_details(self) -> None:
        for job_id in self._detailed:
            self._jobs.pop(job_id, None)
        self._detailed.clear()
        self._first = None

    def _look_ahead(self, jobs: Sequence[Job], details: bool) -> None:
        """Prepare the fields that only requests by ID have: output files, and the details."""
        for job_id in self._ahead:
            self._jobs.pop(job_id, None)
        self._ahead = {}
        ahead = LookAhead(self._state, self._seen, self._setting, self._now_ns)
        for job in jobs:
            self._ahead[job.job_id] = ahead if details and not job.final else None
            self._jobs.pop(job.job_id, None)

    def _cluster(self, question: Cluster) -> bytes:
        state = self._state
        head = pb.ClusterView(
            time_s=self._setting.clock.wall_s(self._now_ns),
            power=self._power(),
            last_round=site_messages.round_message(state),
        )
        found = [j for j in state.jobs.values() if not j.final or j.ended_ns >= question.since_ns]
        self._look_at_first(found)
        nodes = _repeated(NODES_OF_VIEW, self._node_pieces())
        arrays = ArrayLines(
            state, self._setting.clock, self._now_ns, Jobs(viewer=question.viewer, tasks=True)
        )
        left = [_delimited(arrays.data(one)) for one in arrays.left()]
        jobs = _repeated(JOBS_OF_VIEW, self._job_pieces(found, question.viewer) + left)
        return head.SerializeToString() + nodes + jobs

    def _power(self, announced_max: int = ANNOUNCED_SHOWN) -> pb.Power:
        message = site_messages.power_message(
            self._state, self._seen, self._setting.clock, self._setting.policy.name, announced_max
        )
        message.configured_budget_uw = self._setting.configured_uw
        message.planning_settings.update(dict(self._setting.planning))
        # Measured over a common second, from all messages and not only the newest.
        message.measured_uw = self._told.power_uw
        message.measured_uw_peak = self._told.peak_uw
        message.energy_uj = self._told.energy_uj
        message.planner = self._trouble
        return message

    def _due_sums(self) -> bytes:
        """Return the fields of `Power` about jobs with due dates, computed again when due."""
        if self._now_ns >= self._due[0] + DETAIL_NS:
            message = pb.Power()
            add_due_sums(message, self._state, self._seen, self._setting, self._now_ns)
            self._due = self._now_ns, message.SerializeToString()
        return self._due[1]

    def _explain(self, question: Explanation) -> bytes | str:
        job = self._named(question.job_id)
        if job is None:
            return f"no job {question.job_id!r}"
        return explanation(
            job,
            self._state,
            self._seen,
            self._setting,
            now_ns=self._now_ns,
            access=access_of(question.viewer, job.spec),
            trouble=self._trouble,
            closed=self._closed,
        ).SerializeToString()

    def _metrics(self, figures: Figures) -> bytes:
        # prometheus-client is an optional package.
        from wattfold.coordinator.adapters.metrics.exposition import ScrapeInputs, render

        view = ScrapeInputs(
            state=self._state,
            now_ns=self._now_ns,
            policy=self._setting.policy.name,
            measured_uw=self._told.power_uw,
            measured_peak_uw=self._told.peak_uw,
            figures=figures,
        )
        return render(view)

    # Pieces.

    def _job_pieces(self, jobs: Iterable[Job], viewer: Peer) -> list[bytes]:
        return [self._job(job, access_of(viewer, job.spec)) for job in jobs]

    def _job(self, job: Job, access: pb.JobAccess) -> bytes:
        piece = self._jobs.get(job.job_id)
        if piece is None or 0 < piece.until_ns <= self._now_ns:
            until_ns = self._now_ns + FRESH_NS if job.state in PLACED_STATES else 0
            piece = self._jobs[job.job_id] = _JobPiece(until_ns)
        data = piece.shown.get(access)
        if data is None:
            self.made += 1
            data = piece.shown[access] = _delimited(self._job_bytes(job, access))
        return data

    def _job_bytes(self, job: Job, access: pb.JobAccess) -> bytes:
        state, clock = self._state, self._setting.clock
        body = job_messages.job_without_spec(job, self._seen, clock, self._now_ns)
        job_messages.add_conditions(body, state, job, clock)
        job_messages.add_resizing(body, state, job)
        waits = told_reason(job, self._trouble, clock, self._detailed.get(job.job_id, ""))
        body.reason = current_reason(state, job, clock) or waits
        if job.state is JobState.PENDING and self._closed and self._closed not in body.reason:
            body.reason = "; ".join(filter(None, [body.reason, self._closed]))
        body.access = access
        if job.job_id in self._ahead:
            body.outputs.extend(job_outputs(job))
            if (ahead := self._ahead[job.job_id]) is not None:
                ahead.add(body, job)
        if access == pb.JOB_ACCESS_OTHER:
            body.spec.CopyFrom(job_messages.spec_message(job.spec, self._setting.clock))
            return public(body).SerializeToString()
        return body.SerializeToString() + self._spec(job)

    def _spec(self, job: Job) -> bytes:
        known = self._specs.get(job.job_id)
        if known is None or known[0] is not job.spec:
            # A message appended to another message is merged into it: the field of the submission.
            spec = job_messages.spec_message(job.spec, self._setting.clock)
            known = self._specs[job.job_id] = (job.spec, pb.Job(spec=spec).SerializeToString())
        return known[1]

    def _node_pieces(self) -> list[bytes]:
        state, found, waiting = self._state, [], decided_sleep.waiting_for_boots(self._state)
        for node_id, node in state.nodes.items():
            piece = self._nodes.get(node_id)
            if piece is None or 0 < piece.until_ns <= self._now_ns:
                self.made += 1
                sample = self._seen.nodes.get(node_id)
                message = site_messages.node_message(state, node, sample, waiting)
                message.lease_ends_at_s = site_messages.lease_end_s(node, self._setting.clock)
                # Other jobs and nodes decide when a leaving node may leave.
                until_ns = self._now_ns + FRESH_NS if message.waits_for else 0
                data = _delimited(message.SerializeToString())
                piece = self._nodes[node_id] = _Piece(data, until_ns)
            found.append(piece.data)
        return found


def _delimited(data: bytes) -> bytes:
    """Return a message with its length prefix, as a field of another message contains it."""
    size, head = len(data), bytearray()
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def _repeated(tag: bytes, pieces: list[bytes]) -> bytes:
    """Return a repeated field of messages."""
    return tag.join((b"", *pieces)) if pieces else b""
