"""The queue of a site as a simulation needs it, from the messages of its coordinator.

Facts that no message states are assumed. `SiteReading.notes` names each assumption that matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.adapters.requests.profiles import epochs_from, stored_from
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.texts.formatting import ENDED_STATES
from wattfold.coordinator.cli.simulation.site_queue.array_tasks import with_tasks
from wattfold.coordinator.cli.simulation.site_queue.site_values import (
    has_left,
    is_closed,
    job_spec_of,
    limits_of,
    queue_of,
    spec_of,
)
from wattfold.coordinator.core.model.events import EpochTimesStored, ProfileStored
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.conditions import (
    Dependency,
    DependencyState,
    StartConditions,
)
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.simulator.runs.assumed_work import (
    ReportedProgress,
    TimeSource,
    assumed_work,
    expected_end,
    time_source,
)
from wattfold.simulator.runs.site_queue import BudgetAt, QueuedJob, Seat, SiteNode, SiteQueue
from wattfold.v1 import coordinator_pb2 as pb

BEFORE_S = 60.0
"""Time of the simulated site before its first job."""
_RUNS = frozenset(
    {
        pb.JOB_STATE_STARTING,
        pb.JOB_STATE_RUNNING,
        pb.JOB_STATE_SUSPENDED,
        pb.JOB_STATE_ENDING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMessages:
    """Answers of a coordinator, from about the same moment."""

    view: pb.ClusterView
    queues: Sequence[pb.Queue] = ()
    reservations: Sequence[pb.Reservation] = ()
    profiles: Sequence[pb.Profile] = ()
    accounts: Sequence[pb.Account] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReading:
    """The queue, its policy, and sentences about what the simulation does not know."""

    queue: SiteQueue
    site_budget_uw: int
    """current budget of the whole site."""
    policy: str
    settings: tuple[tuple[str, str], ...]
    """Stated settings by key, such as ``parm.alpha``, as text."""
    notes: tuple[str, ...]
    jobs: tuple[pb.Job, ...]
    """The jobs of the queue as messages, in its order."""


def ask(client: CoordinatorClient) -> SiteMessages:
    """Ask a coordinator for its state. Raises CliError."""
    # One message has jobs, nodes and power of the same moment.
    view = next(client.watch(NS_PER_S))
    return SiteMessages(
        view=view,
        queues=tuple(client.list_queues().queues),
        reservations=tuple(client.list_reservations().reservations),
        profiles=tuple(client.list_profiles().profiles),
        accounts=tuple(client.list_accounts().accounts),
    )


def read_site(messages: SiteMessages) -> SiteReading:
    """Return the queue of a site."""
    return _Reader(messages).reading()


@dataclass(slots=True)
class _Counts:
    """Jobs and nodes that a note is about."""

    sources: Counter[TimeSource] = field(default_factory=Counter)
    hidden: int = 0
    unprofiled: int = 0
    evolving: int = 0
    training: int = 0
    held: int = 0
    left_out: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, messages: SiteMessages) -> None:
        self._messages = messages
        view = messages.view
        open_jobs = [job for job in view.jobs if job.state not in ENDED_STATES]
        self._open = [task for job in open_jobs for task in with_tasks(job)]
        self._limited = [job.job_id for job in open_jobs if job.array.limit]
        times_s = [view.time_s, *(job.submitted_at_s for job in self._open)]
        times_s += [job.started_at_s for job in self._open if job.started_at_s]
        self._origin_s = min(times_s) - BEFORE_S
        self._counts = _Counts()
        self._profiles: dict[tuple[str, SizeUnit], PassProfile] = {}
        self._nodes: dict[str, SiteNode] = {}

    def reading(self) -> SiteReading:
        messages, view = self._messages, self._messages.view
        self._nodes = {
            node.node_id: SiteNode(spec=spec_of(node), closed=is_closed(node))
            for node in view.nodes
            if node.state == pb.NODE_STATE_UP and node.cpus and not has_left(node)
        }
        stored = self._stored()
        kind = self._kind()
        jobs, shown = [], []
        for message in self._open:
            job = self._job(message, kind)
            if job is not None:
                jobs.append(job)
                shown.append(message)
        reserved_uw = self._reserved_uw()
        settings = dict(view.power.planning_settings)
        dram_cap_w = float(settings.pop("dram_cap_w", "0"))
        predict = settings.pop("predict", "")
        queue = SiteQueue(
            origin_s=self._origin_s,
            now_ns=self._ns(view.time_s),
            nodes=tuple(self._nodes.values()),
            jobs=tuple(jobs),
            budget_uw=view.power.budget_uw - reserved_uw,
            announced=tuple(
                BudgetAt(at_ns=self._ns(one.at_s), budget_uw=one.budget_uw - reserved_uw)
                for one in view.power.announced
            ),
            queues=tuple(map(queue_of, messages.queues)),
            reservations=tuple(map(self._reservation, messages.reservations)),
            profiles=tuple(stored),
            dram_cap_uw=uw_from_w(dram_cap_w),
            limits=limits_of(messages.accounts) if messages.accounts else None,
        )
        return SiteReading(
            queue=queue,
            site_budget_uw=view.power.budget_uw,
            policy=view.power.policy,
            settings=tuple(sorted(settings.items())),
            notes=tuple(self._notes(reserved_uw, predict)),
            jobs=tuple(shown),
        )

    def _ns(self, at_s: float) -> int:
        return round((at_s - self._origin_s) * NS_PER_S)

    def _stored(self) -> list[ProfileStored | EpochTimesStored]:
        found: list[ProfileStored | EpochTimesStored] = []
        for message in self._messages.profiles:
            if message.t1_s:
                entry = stored_from(message)
                found.append(entry)
                self._profiles[message.app, SizeUnit(entry.profile.unit)] = entry.profile
            if message.epoch_times or message.gpu_curves:
                found.append(epochs_from(message))
        return found

    def _kind(self) -> NodeKind | None:
        """Return the kind of most nodes, or None without nodes."""
        kinds = Counter(node.spec.kind for node in self._nodes.values())
        return kinds.most_common(1)[0][0] if kinds else None

    def _reserved_uw(self) -> int:
        """Return the power that nodes outside of the simulation may draw."""
        power = self._messages.view.power
        others = (n for n in self._messages.view.nodes if n.node_id not in self._nodes)
        outside_uw = max(power.outside_uw - power.outside_accepted_uw, 0)
        return sum(node.committed_uw for node in others) + outside_uw

    def _job(self, message: pb.Job, kind: NodeKind | None) -> QueuedJob | None:
        """Return a job, or None if it runs on a node that is not simulated."""
        due_at_s = message.spec.due_at_s
        counts = self._counts
        spec = job_spec_of(message, self._ns(due_at_s) if due_at_s else -1)
        if message.state not in _RUNS:
            spec = replace(spec, priority=spec.priority * self._factor(message))
        runs = message.state in _RUNS
        nodes = [self._nodes.get(share.node_id) for share in message.shares]
        known = [node.spec.kind for node in nodes if node is not None]
        if kind is None or (runs and (len(known) < len(nodes) or not nodes)):
            counts.left_out.append(message.job_id)
            return None
        profile = self._profiles.get((spec.app, spec.unit))
        counts.hidden += message.access == pb.JOB_ACCESS_OTHER
        counts.unprofiled += profile is None and spec.kind is not JobKind.RIGID
        counts.evolving += spec.kind is JobKind.EVOLVING
        counts.training += spec.epochs > 0
        counts.held += message.state == pb.JOB_STATE_HELD
        if not (message.remaining_s or message.over_s):
            counts.sources[time_source(spec, profile)] += 1
        job = QueuedJob(
            job_id=JobId(message.job_id),
            spec=spec,
            submitted_ns=self._ns(message.submitted_at_s),
            work=assumed_work(spec, profile, kind),
            held=message.state == pb.JOB_STATE_HELD,
            conditions=self._conditions(message),
            size_ordered=message.size_ordered,
            epochs_saved=message.epochs_saved,
        )
        return self._seated(job, message, profile, known[0]) if runs else job

    def _factor(self, message: pb.Job) -> float:
        """Return the factor of fair share for the priority of a waiting job."""
        for kind, name in (("account", message.spec.account), ("user", message.user)):
            for one in self._messages.accounts:
                if (one.kind, one.name) == (kind, name):
                    return one.priority_factor or 1.0
        return 1.0

    def _conditions(self, message: pb.Job) -> StartConditions:
        if message.state in _RUNS:
            return StartConditions()
        there = {job.job_id for job in self._open}
        after = []
        for one in message.after:
            known = JobId(one.job_id)
            if one.job_id in there:
                after.append(Dependency(job_id=known, success=one.success))
            elif one.state == pb.DEPENDENCY_STATE_NEVER:
                never = DependencyState.NEVER
                after.append(Dependency(job_id=known, success=one.success, settled=never))
        begin_ns = self._ns(message.begin_at_s) if message.begin_at_s else -1
        return StartConditions(after=tuple(after), begin_ns=begin_ns)

    def _seated(
        self, job: QueuedJob, message: pb.Job, profile: PassProfile | None, kind: NodeKind
    ) -> QueuedJob:
        now_s = self._messages.view.time_s
        started_s = (message.started_at_s or now_s) + message.suspended_s
        ran_s = max(now_s - started_s, 0.0)
        found = expected_end(
            job.spec,
            profile,
            kind,
            ReportedProgress(
                size=message.size,
                cap_uw=message.cap_uw,
                ran_s=ran_s,
                done=message.done,
                remaining_s=message.remaining_s,
                over_s=message.over_s,
            ),
        )
        shares = tuple(
            Share(
                node_id=NodeId(share.node_id),
                cpus=CpuSet.parse(share.cpus),
                memory_bytes=share.memory_bytes,
                gpus=tuple(share.gpus),
            )
            for share in message.shares
            if not share.resident
        )
        assignment = Assignment(
            job_id=job.job_id,
            size=message.size,
            cap_uw=message.cap_uw,
            shares=shares,
            expected_total_s=found.total_s,
            levels=Levels(dram_uw=message.dram_cap_uw, gpu_uw=message.gpu_cap_uw),
        )
        ending = message.state == pb.JOB_STATE_ENDING
        seat = Seat(
            # A job that starts now has some time to start in the first phase of the simulation.
            started_ns=min(self._ns(started_s), self._ns(now_s) - NS_PER_S),
            assignment=assignment,
            done=1.0 if ending else found.done,
            suspended=message.state == pb.JOB_STATE_SUSPENDED,
        )
        submitted_ns = min(job.submitted_ns, seat.started_ns)
        return replace(job, work=found.work, seat=seat, submitted_ns=submitted_ns)

    def _reservation(self, message: pb.Reservation) -> Reservation:
        return Reservation(
            name=message.name,
            nodes=tuple(NodeId(name) for name in message.node_ids if name in self._nodes),
            start_ns=self._ns(message.start_at_s),
            end_ns=self._ns(message.end_at_s),
            users=tuple(message.users),
            queue=message.queue,
            maintenance=message.maintenance,
            end_jobs=message.end_jobs,
            reason=message.reason,
        )

    def _notes(self, reserved_uw: int, predict: str) -> list[str]:
        counts, view = self._counts, self._messages.view
        out = [node.node_id for node in view.nodes if node.node_id not in self._nodes]
        notes = [
            "Jobs that are submitted later are not part of the simulation. Jobs end as expected, "
            "and no node or job fails."
        ]
        if count := counts.sources[TimeSource.HOUR]:
            notes.append(
                f"{_jobs(count)} no estimate, profile or time limit: run time of one hour assumed."
            )
        if count := counts.sources[TimeSource.LIMIT]:
            notes.append(f"{_jobs(count)} only a time limit, which is assumed as run time.")
        if counts.unprofiled:
            notes.append(
                f"{_jobs(counts.unprofiled)} several sizes and no profile of the program: half the "
                "possible loss of speed at smaller sizes is assumed."
            )
        if counts.hidden:
            notes.append(
                f"{_jobs(counts.hidden)} another owner, so programs, queues, accounts, memory, "
                "GPUs and conditions of the start are unknown; operators see them."
            )
        if counts.training:
            notes.append(
                f"{_jobs(counts.training)} epochs: epoch times on other GPUs are not simulated."
            )
        if counts.evolving:
            notes.append(f"{_jobs(counts.evolving)} changing requests, which stay as they are.")
        if any(one.priority_factor for one in self._messages.accounts):
            notes.append("Fair share keeps its current factors of the priorities.")
        if self._limited:
            notes.append(f"Limits of concurrent tasks are not simulated: {_some(self._limited)}.")
        if counts.held:
            notes.append(f"{_jobs(counts.held)} been held and is never released.")
        if predict:
            notes.append(
                f"The site predicts run times ({predict}). The simulation uses the estimates of "
                "users, because it lacks the earlier jobs."
            )
        if out:
            watts = f"; {reserved_uw / 1e6:.1f} W stay reserved for nodes that are not simulated"
            notes.append(f"Nodes left out: {_some(out)}{watts if reserved_uw else ''}.")
        if counts.left_out:
            notes.append(f"Jobs left out, because of their nodes: {_some(counts.left_out)}.")
        return notes


def _jobs(count: int) -> str:
    return "1 job has" if count == 1 else f"{count} jobs have"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"
