"""Interface of all policies: a scheduler that is notified of changes and decides on request.

Two drivers use it. A pool of identical nodes (`simulator.engine`) calls it directly, with counted
nodes. The service (`driver.rounds`) names every node and core, reports the differences between two
planning rounds, and maps decisions to nodes. The driver numbers the jobs. A scheduler reads the
details of a job from the driver (`JobInformation`), so no data are copied for decisions that do not
need them.

A scheduler may cache results. A new scheduler that receives the current state decides as a
scheduler that received every change. State that violates this rule is documented where it is
stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Policy, Snapshot
from wattfold.coordinator.core.model.queue import NO_WAITS, Queue, Waits
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies.resources.room import Room

FOR_NOBODY = -1
"""Placeholder for the preempting job when a job is preempted without one."""


DEADLINE_S = 20.0
"""Default time of a decision."""


class SizeRequest(NamedTuple):
    """Request of a job, as far as every policy needs it. ``unit`` is the unit of the sizes."""

    least: int
    greatest: int
    priority: float
    submitted_ns: int
    cap_uw: int = 0
    """Required level; 0 = the policy chooses it."""
    whole: bool = True
    """Whether its sizes count nodes that it does not share, and it requests no other resource."""
    unit: SizeUnit = SizeUnit.NODES
    exclusive: bool = False
    """Whether no other job may share its node."""
    requests: bool = False
    """Whether it requests any node resource or feature besides cores."""
    resizable: bool = False
    """Whether its size may change while it runs. For whole nodes the driver decides this."""
    promise: Promise | None = None
    """Planned start that was promised to the job."""
    resize_s: float = 0.0
    """Fixed cost of each resize of the job, in seconds: a restart, or the migration of objects."""
    due_ns: int = -1
    """Due date; -1 = none."""
    dram_uw: int = 0
    """Required DRAM level; 0 = the policy chooses it."""
    waits: Waits = NO_WAITS
    """Wait times that its queue states."""
    unit_cores: int = 1
    """Cores per unit, for jobs with sizes in units."""
    spread: Spread = Spread.ANY
    gpus: int = 0
    """GPUs on its node, on each of its nodes, or for each of its units."""
    gpu_uw: int = 0
    """Required level of its GPUs; 0 = the policy chooses it."""
    gpu_curves: tuple[tuple[str, GpuCurve], ...] = ()
    """Slowdown of its work under lower GPU limits, by GPU model. Missing models are unknown."""


class Held(NamedTuple):
    """Resources of a running job."""

    size: int
    cap_uw: int
    started_ns: int
    """Start time; -1 = it is about to start."""
    here: bool = True
    """Whether all its nodes are nodes of the site."""
    resized_ns: int = -1
    """Time of the last resize, after which the job must not be changed for a while; -1 = never."""
    movable: bool = True
    """Whether any of its resources may change now."""
    dram_uw: int = 0
    """Its DRAM level; 0 = the default caps."""
    gpu_uw: int = 0
    """Level of each of its GPUs; 0 = their maximum limits."""


class Reason(NamedTuple):
    """Reason why a job waits. ``never``: no change of load alone lets it start.

    ``start_ns`` is the expected start; 0 = unknown. ``promise`` is the planned start that must be
    kept.
    """

    job: int
    text: str
    never: bool = False
    start_ns: int = 0
    promise: Promise | None = None
    chosen: bool = False
    """Whether the policy chose to let it wait, so that missing resources are not the reason."""


class NodeRequirements(NamedTuple):
    """Requirements of a decision for nodes, in addition to size and cap."""

    kinds: tuple[NodeKind, ...] = ()
    """Kinds of its nodes; empty = any."""
    nodes: tuple[int, ...] = ()
    """Number of nodes of each kind; empty = all nodes are of the first kind."""
    sizes: tuple[int, ...] = ()
    """Permitted sizes if its size does not fit on the nodes. Only smaller sizes are used."""
    expected_s: float = 0.0
    """Time of the whole job under this decision."""
    dram_uw: int = 0
    """DRAM level of its nodes; 0 = their default caps."""
    gpu_uw: int = 0
    """Level of its GPUs; 0 = their maximum limits."""


class SolverResult(NamedTuple):
    """How a decision was computed."""

    solver: str = "none"
    outcome: str = "optimal"
    objective: float = 0.0
    bound: float = 0.0


class Change(NamedTuple):
    """A job starts with, or a running job gets, this size and level."""

    job: int
    size: int
    cap_uw: int
    """Package cap per node in microwatts."""
    dram_uw: int = 0
    """DRAM cap per node in microwatts; 0 = the default cap."""
    requirements: NodeRequirements | None = None
    """What its nodes must satisfy; None: it fits as decided, on any nodes or on ``among``.

    A job with requirements for which the driver finds no nodes keeps waiting.
    """
    among: Sequence[NodeId] = ()
    """Nodes of a job that starts; empty = any."""
    assignment: Assignment | None = None
    """Its nodes and cores if the scheduler chooses them because jobs share nodes."""

    @classmethod
    def assigned(cls, job: int, assignment: Assignment) -> Change:
        """Return the change that gives a job an assignment."""
        return cls(job, assignment.size, assignment.cap_uw, assignment=assignment)


class Parts(NamedTuple):
    """A job in a pool of numbered nodes starts or continues with these numbers of cores on nodes.

    Each node occurs once. For a running job, unnamed nodes stay as they are, and a node with 0
    cores is released. A change may use cores that other changes of the same instant release: the
    driver checks the result at the end of the instant.
    """

    job: int
    nodes: Sequence[int]
    cores: int | Sequence[int]
    """Cores on each of the nodes, or one number for all nodes."""
    cap_uw: int
    """Level: package cap of a whole node, in microwatts."""
    gpu_uw: int = 0
    """Limit of each of its GPUs, in microwatts; 0 = the maximum."""


class Decision(NamedTuple):
    """What a scheduler decides at an instant. Jobs that it does not name stay as they are."""

    changes: Sequence[Change | Parts] = ()
    """Starts, and running jobs with other resources. `Parts` only in pools of numbered nodes.

    A pool applies shrinks and lower caps first, so only all changes together must fit, not each
    prefix.
    """
    preemptions: Sequence[tuple[int, int]] = ()
    """Running jobs that are requeued, each with the preempting job.

    The preempting job is `FOR_NOBODY` for training jobs that will resume elsewhere or later.
    Preempted jobs run until they have ended; no decision uses their resources before.
    """
    found: SolverResult = SolverResult()
    """How the decision was computed."""

    @property
    def jobs(self) -> list[int]:
        """All jobs that it names."""
        return [change[0] for change in (*self.changes, *self.preemptions)]


NOTHING = Decision()
"""The decision that changes nothing."""


class JobInformation(Protocol):
    """Information of a driver about its jobs."""

    def ask(self, job: int) -> SizeRequest:
        """Return the current request of a job. A program may change its request."""

    def held(self, job: int) -> Held | None:
        """Return the resources of a job, or None while it waits."""

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """Return the estimated time of the whole job on identical nodes at a size and a level."""

    def profile(self, job: int, kind: NodeKind) -> PassProfile:
        """Return the run times of a job at other sizes and levels, on nodes of a kind."""

    def done(self, job: int, now_ns: int) -> float:
        """Return the completed share of the work of a job, 0..1."""


class NamedJobs(JobInformation, Protocol):
    """Jobs on named nodes; policies may examine every core."""

    def view(self, job: int) -> JobView:
        """Return all information about a job."""

    def room(self) -> Room:
        """Return the resources that immovable jobs leave free. The caller must not modify them."""

    def lacking(self, jobs: Sequence[int]) -> Mapping[int, Reason]:
        """Return the waiting jobs among ``jobs`` that lack memory or GPUs now, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Nodes and power of the site.

    ``kind`` is None if the nodes cannot be counted because they differ, have blocked cores or are
    reserved.
    """

    count: int
    spendable_uw: int
    """Power that jobs may add to the charge of idle nodes."""
    kind: NodeKind | None
    most_uw: int
    """`spendable_uw` after unreachable nodes return. Jobs that need more power can never start."""
    names: tuple[NodeId, ...] = ()
    nodes: tuple[NodeView, ...] = field(default=(), compare=False)
    """Empty if nodes are only counted."""
    reservations: tuple[Reservation, ...] = ()
    queues: tuple[Queue, ...] = ()
    clearing: tuple[JobId, ...] = ()
    """Waiting jobs for which other jobs are ending."""
    leaving_uw: int = 0
    """Increase of `spendable_uw` after ending jobs have ended."""
    away: tuple[NodeView, ...] = field(default=(), compare=False)
    """Nodes that temporarily do not answer, for schedulers that plan ahead.

    These nodes are not part of ``nodes``. Neither their power, ``away_uw``, nor the power of their
    jobs, ``away_held_uw``, is part of `spendable_uw`.
    """
    away_uw: int = 0
    away_held_uw: int = 0
    ahead: tuple[tuple[int, int], ...] = ()
    """Times at which announced budgets change `spendable_uw`, with its new values."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of time zero."""


class Scheduler(Protocol):
    """A running scheduler of one policy.

    Calls come in order of time. The driver calls `decide` after every change, or after all changes
    of an instant. Every running job keeps its resources until a decision or its end changes them. A
    scheduler must be picklable with its state, for runs that are interrupted and resumed.
    """

    patience: float = 0.0
    """Wait of a job, in multiples of its estimate, after which nothing overtakes it; 0 = no limit.

    The driver reserves nodes and power for such a job (`driver.held_nodes`).
    """
    weighs_all: bool = False
    """Whether each decision weighs all jobs by counts, so that sizes and levels may rise later.

    Such a decision also names every job whose resources the driver has reported since the previous
    decision.
    """
    promises: bool = False
    """Whether its reasons contain planned starts that must be kept."""
    deadline_s: float = DEADLINE_S
    """Time for a decision in seconds, which the driver sets."""
    dram_model: DramModel | None = None
    """Effect of DRAM caps on run times if the scheduler chooses them."""

    @property
    def name(self) -> str:
        """Name of the policy."""

    @property
    def each_event(self) -> bool:
        """Whether it decides after every event, or once for all events of one instant."""

    @property
    def revisit_ns(self) -> int:
        """Time of the next decision even without an event; 0 = not needed."""

    @property
    def solver_ns(self) -> Sequence[int]:
        """Solver time of each round with a solver call; empty for policies without a solver."""

    def attach(self, jobs: JobInformation) -> None:
        """Receive the jobs. Called once before all other methods."""

    def site(self, site: Site) -> None:
        """Set nodes and power from now on."""

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or returns to it."""

    def change(self, job: int, now_ns: int) -> None:
        """A job has changed: its request, its estimate, its state or its nodes.

        On named nodes it is called before each decision for every running job: its progress may
        matter, and a run that has not begun is assumed to begin now.
        """

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or no longer waits."""

    def decide(self, now_ns: int) -> Decision:
        """Return what changes now."""

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Return the reasons of these jobs and of all jobs whose reason or start has changed.

        They belong to the last decision, and are computed only if somebody asks before the next
        call of another method.
        """
        del jobs
        return ()


@runtime_checkable
class Scheduled(Policy, Protocol):
    """A policy of the service with a scheduler that persists between rounds."""

    def scheduler(self) -> Scheduler:
        """Return a new scheduler with the settings of the policy."""


@runtime_checkable
class ExplainingPolicy(Policy, Protocol):
    """A policy with statements of its own about a job, as whole sentences for users.

    They follow what holds under every policy (`reasons.explain`). Values have units.
    """

    def waiting_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:
        """Return the statements about a waiting job of the snapshot."""

    def running_statements(self, seen: Snapshot, view: JobView) -> Sequence[str]:
        """Return the statements about a running job of the snapshot."""
