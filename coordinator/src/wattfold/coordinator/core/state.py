"""The state of the core, what holds in it at every instant, and the snapshot policies see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.blocked import blocked_amounts
from wattfold.coordinator.core.cap_targets import CapTargets
from wattfold.coordinator.core.charge import assigned_on_uw, fixed_uw, node_fixed_uw
from wattfold.coordinator.core.events import ProfileStored, ProgramCertified
from wattfold.coordinator.core.index import Index
from wattfold.coordinator.core.job import KEEPS_STATES, Job, JobState
from wattfold.coordinator.core.leave import given_back_uw, jobs_there, reserve_uw
from wattfold.coordinator.core.ledger import PowerLedger
from wattfold.coordinator.core.node import GIVEN_BACK, Node
from wattfold.coordinator.core.outside import counted_uw
from wattfold.coordinator.core.plan import JobView, NodeView, PlanningRound, Snapshot
from wattfold.coordinator.core.queue import Queue
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.models.pass_model import PassProfile

NO_EPOCH = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """What does not change while the coordinator runs. ``lease_slack_ns`` covers the agent's
    second to fall to its floor and the drift of two clocks over one lease."""

    dram_cap_uw: int = 0
    lease_slack_ns: int = 1_500_000_000
    retry_ns: int = 1_000_000_000
    kept_ended_jobs: int = 10_000
    kept_keys: int = 100_000
    """Idempotency keys kept of jobs that have ended so long ago that they are forgotten."""
    check_every: int = 5000
    """Within so many events all of the state is checked, a part of it after each of them beside
    what it touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A profile and where it came from: "measured" or "progress"."""

    stored: ProfileStored
    stored_ns: int

    @property
    def profile(self) -> PassProfile:
        """The parameters."""
        return self.stored.profile

    @property
    def source(self) -> str:
        """Who found them."""
        return self.stored.source


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCertificate:
    """How a program may be resized, and since when that is known."""

    certified: ProgramCertified
    stored_ns: int


def profile_key(app: str, unit: str) -> str:
    """Key of a profile: sizes in cores and in nodes are different profiles."""
    return f"{app}/{unit}"


@dataclass(slots=True)
class State:
    """Everything the core knows. ``solving`` is the number of the round under way, 0 = none."""

    settings: CoreSettings
    ledger: PowerLedger
    epoch: Epoch = NO_EPOCH
    lease_ns: int = 10_000_000_000
    command_timeout_ns: int = 2_000_000_000
    jobs: dict[JobId, Job] = field(default_factory=dict)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    profiles: dict[str, StoredProfile] = field(default_factory=dict)
    certificates: dict[str, StoredCertificate] = field(default_factory=dict)
    """By application: how a program may be resized does not depend on what its size counts."""
    keys: dict[str, JobId] = field(default_factory=dict)
    key_prints: dict[str, str] = field(default_factory=dict)
    """What was asked for under a key; empty = not known, from an earlier version."""
    requests: int = 0
    submissions: int = 0
    rounds: int = 0
    solving: int = 0
    plan_needed: str = ""
    revisit_ns: int = 0
    last_round: PlanningRound | None = None
    woken_at_ns: int = 0
    accepted_outside_uw: int = 0
    """What nodes outside the ledger may draw beside the budget, by an operator's word."""
    queues: dict[str, Queue] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    """Those that are not over."""
    begun: list[str] = field(default_factory=list)
    """The ones of which the begin was taken notice of."""
    index: Index = field(init=False, compare=False, repr=False)
    cap_targets: CapTargets = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.index = Index(self.jobs.values(), self.nodes.values(), self.keys)
        self.cap_targets = CapTargets()

    def placed(self) -> list[Job]:
        """Jobs that hold or are about to hold cores, in order of submission."""
        return self.index.placed()

    def on_node(self, node_id: NodeId) -> list[Job]:
        """Those of `placed` with a process or a share on a node."""
        return self.index.on_node(node_id)

    @property
    def open_jobs(self) -> int:
        """Jobs that have not ended."""
        return len(self.index.open)

    def occupied(self, node_id: NodeId, but: JobId | None = None) -> CpuSet:
        """Cores of a node that processes may be running on, without one job's own."""
        cpus = CpuSet()
        for job in self.on_node(node_id):
            if job.job_id != but and node_id in job.ranks:
                cpus |= job.ranks[node_id].occupied
        for job_id, held in self.nodes[node_id].foreign.items():
            if job_id != but:
                cpus |= held
        return cpus

    def strays(self) -> frozenset[JobId]:
        """Jobs with a process somewhere that is not one of their own."""
        return frozenset(job_id for node in self.nodes.values() for job_id in node.foreign)

    def floor_uw(self) -> int:
        """The least the nodes of the ledger draw, and those that wait for it: no budget below it
        can be kept."""
        return sum(
            fixed_uw(node.spec, self.settings.dram_cap_uw)
            if node.duty not in GIVEN_BACK
            else given_back_uw(node, node.spec)
            for node in self.nodes.values()
            if node.spec is not None and (node.admitted or node.awaits_room)
        )

    def profile_of(self, job: Job) -> PassProfile | None:
        """The stored profile of a job's application and unit, None if there is none."""
        entry = self.profiles.get(profile_key(job.spec.app, job.spec.unit.value))
        return entry.profile if entry else None


def snapshot(state: State, now_ns: int) -> Snapshot:
    """What a policy may plan with: usable nodes, jobs that wait or run, power left for them."""
    views = job_views(state, state.index.open.values(), now_ns)
    return replace(without_jobs(state, now_ns), jobs=tuple(views))


def job_views(state: State, jobs: Iterable[Job], now_ns: int) -> list[JobView]:
    """Those of the jobs that policies plan for: they wait or run."""
    strays = state.strays()
    return [
        _job_view(state, job, now_ns)
        for job in jobs
        if job.state in (JobState.PENDING, JobState.STARTING, JobState.RUNNING)
        # One with a stray process must not run a second time.
        and (job.ranks or job.job_id not in strays)
    ]


def without_jobs(state: State, now_ns: int) -> Snapshot:
    """The nodes and the power of `snapshot`, which cost nothing for jobs that wait."""
    views, reserved_uw = _nodes(state)
    specs = {view.spec.node_id: view.spec for view in views}
    for job in state.placed():
        if job.state in KEEPS_STATES and job.target is not None:
            # It draws, or may from one moment to the next, though no policy sees it.
            reserved_uw += assigned_on_uw(job.target, specs)
    return Snapshot(
        now_ns=now_ns,
        budget_uw=state.ledger.budget_uw,
        reserved_uw=reserved_uw,
        nodes=tuple(views),
        jobs=(),
        queues=tuple(state.queues.values()),
        reservations=tuple(state.reservations.values()),
    )


def _nodes(state: State) -> tuple[list[NodeView], int]:
    views: list[NodeView] = []
    reserved_uw = outside_uw = 0
    for node in state.nodes.values():
        if node.spec is not None and _planned(state, node):
            fixed = node_fixed_uw(node, node.spec, state.settings.dram_cap_uw)
            held_bytes, held_gpus = blocked_amounts(state, node)
            views.append(
                NodeView(
                    spec=node.spec,
                    fixed_uw=fixed,
                    blocked=_blocked(state, node),
                    blocked_bytes=held_bytes,
                    blocked_gpus=held_gpus,
                    features=node.all_features,
                )
            )
        elif node.node_id in state.ledger.accounts:
            charge_uw = state.ledger.accounts[node.node_id].charge_uw
            reserved_uw += max(charge_uw, reserve_uw(state, node))
        elif node.awaits_room and node.spec is not None:
            # Waits for admission: its share is kept free, so that the next plan makes room.
            fixed = node_fixed_uw(node, node.spec, state.settings.dram_cap_uw)
            reserved_uw += fixed
        else:
            outside_uw += counted_uw(node)
    return views, reserved_uw + max(outside_uw - state.accepted_outside_uw, 0)


def _planned(state: State, node: Node) -> bool:
    """Whether policies see a node: it obeys, and takes new jobs or still has some."""
    if not node.usable or node.dead_zones:
        return False
    return node.takes_jobs or bool(jobs_there(state, node))


def _blocked(state: State, node: Node) -> CpuSet:
    """Cores of jobs on their way out and of processes the journal does not know; of a node that
    takes no new jobs, all but those of the jobs that run there."""
    cpus, running = CpuSet(), CpuSet()
    for held in node.foreign.values():
        cpus |= held
    for job in state.on_node(node.node_id):
        if node.node_id not in job.ranks:
            continue
        if job.state in KEEPS_STATES:
            cpus |= job.ranks[node.node_id].occupied
        elif job.target is not None:
            running |= job.target.on(node.node_id)
    if not node.takes_jobs and node.spec is not None:
        cpus |= node.spec.cpus - running
    return cpus


def _job_view(state: State, job: Job, now_ns: int) -> JobView:
    # Accepted but not launched yet counts as waiting: it may still go elsewhere.
    waits = job.state is JobState.PENDING or not job.ranks
    nodes = [state.nodes[rank.node_id] for rank in job.ranks.values()]
    return JobView(
        job_id=job.job_id,
        spec=job.spec,
        submitted_ns=job.submitted_ns,
        current=None if waits else job.target,
        done=job.done_by(now_ns),
        started_ns=job.started_ns + job.paused_ns,
        resized_ns=job.resized_ns,
        profile=state.profile_of(job),
        wanted=job.wanted,
        wanted_ns=job.wanted_ns,
        over_ns=job.over_ns(now_ns),
        movable=job.state is JobState.RUNNING
        and all(node.takes_jobs and not node.dead_zones for node in nodes),
    )


class InvariantError(Exception):
    """The state contradicts itself: a defect, reported with the last events."""
