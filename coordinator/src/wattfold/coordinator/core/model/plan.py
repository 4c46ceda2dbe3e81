"""The input of a policy (Snapshot), its answer (Plan), and the interface of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.place import Place
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.coordinator.core.model.node_power import NO_CHANGE, PowerPlan
from wattfold.coordinator.core.model.pickled_state import pickled_by_position
from wattfold.coordinator.core.model.queue import NO_WAITS, Queue, Waits
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.models.training import Training

NOBODY = JobId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node that may be planned for. Policies must not assign ``blocked`` cores.

    ``residual`` are cores with recent work of jobs that do not hold them. They may be assigned, but
    other cores are better. ``blocked_bytes`` and ``blocked_gpus`` are blocked like cores.
    ``features`` are all features of the node. ``place`` determines the choice of whole nodes; None
    = in their order.
    """

    spec: NodeSpec
    fixed_uw: int
    blocked: CpuSet = CpuSet()  # noqa: RUF009 - immutable
    residual: CpuSet = CpuSet()  # noqa: RUF009 - immutable
    blocked_bytes: int = 0
    blocked_gpus: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    place: Place | None = None
    dram_cap_uw: int = 0
    """Default cap of each DRAM zone from `CoreSettings`, the same for all nodes."""
    leaving: tuple[Share, ...] = ()
    """The blocked shares of ending jobs, which become free at their ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job that waits (``current`` None) or runs.

    ``done`` is the completed share (0..1). ``resized_ns`` is the time of the last resize (-1 =
    never). ``movable``: its size may change now, because its nodes answer. ``wanted`` is the number
    of cores that its program requests (0 = no request), since ``wanted_ns``. ``over_ns`` is the run
    time past its estimated end.
    """

    job_id: JobId
    spec: JobSpec
    submitted_ns: int
    current: Assignment | None
    done: float
    started_ns: int
    resized_ns: int
    profile: PassProfile | None
    movable: bool = True
    wanted: int = 0
    wanted_ns: int = -1
    over_ns: int = 0
    nodes_may_change: bool = False
    """The running job may get any number of nodes within its submitted sizes and its ``reach``.

    Otherwise another size, or other nodes, restart it from its snapshot, in about ``resize_ns``.
    """
    reach: tuple[NodeId, ...] = ()
    """Nodes with processes of the job. It keeps the first node and may hold the others."""
    restart_ns: int | None = None
    """Measured cost of a restart of its application; None = unknown, so the policy assumes one."""
    resize_ns: int = 0
    """Expected cost of a resize by itself, learnt from its application."""
    size_asked: int = 0
    """Size fixed by a user, which is then the minimum and maximum of ``spec``; 0 = not fixed."""
    preemptable: bool = False
    """Whether a plan may requeue it now for a job of a preempting queue."""
    yields_to: JobId = NOBODY
    """The waiting job for which it was preempted. It must not start before that job."""
    promise: Promise | None = None
    """Its planned start, if the policy keeps planned starts."""
    planned_ns: int = 0
    """Predicted run time of the whole job at its maximum size and full power; 0 = no prediction.

    It replaces the user's estimate.
    """
    waits: Waits = NO_WAITS
    """The expected and the maximum wait of its queue."""
    serial_ppm: int = -1
    """Serial share of its run time (`models.amdahl`), in ppm; -1 = not measured."""
    training: Training | None = None
    """Known epoch times of a training job."""

    @property
    def max_size(self) -> int:
        """Largest size that a policy may assign now."""
        return self.spec.max_size(self.wanted)


class BudgetAhead(NamedTuple):
    """An announced change of the budget."""

    from_ns: int
    budget_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state that a round plans with.

    ``budget_uw`` less ``reserved_uw`` (unreachable nodes) is the power for base power, floors and
    jobs of the listed nodes.
    """

    now_ns: int
    budget_uw: int
    reserved_uw: int
    nodes: tuple[NodeView, ...]
    jobs: tuple[JobView, ...]
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    clearing: tuple[JobId, ...] = ()
    """Waiting jobs whose preempted jobs are still ending."""
    leaving_uw: int = 0
    """Part of ``reserved_uw`` for ending jobs."""
    away: tuple[NodeView, ...] = ()
    """Nodes that do not answer now. They are expected back; nothing on them is free until then."""
    away_uw: int = 0
    """Part of ``reserved_uw`` for the nodes ``away``; ``away_held_uw`` of it is for jobs there."""
    away_held_uw: int = 0
    ahead: tuple[BudgetAhead, ...] = ()
    """Announced changes of the budget after now, ordered by time."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of the zero of ``now_ns``, for prices that change."""

    @property
    def spendable_uw(self) -> int:
        """Power for jobs, above base power and floors."""
        return self.budget_uw - self.reserved_uw - sum(node.fixed_uw for node in self.nodes)


@pickled_by_position
@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a job is not in a plan. ``never``: no change of load alone will let it start.

    ``start_ns`` is the start that the policy expects, 0 = no expectation. ``promise`` is the
    planned start of the job, which is then also the expected start.
    """

    job_id: JobId
    reason: str
    never: bool = False
    start_ns: int = 0
    promise: Promise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running job that returns to the queue so that a waiting job can start.

    ``for_job`` `NOBODY`: a training job that will continue on other GPUs, or later. ``grace_ns`` 0
    is the grace time of the submission, or else the default.
    """

    job_id: JobId
    for_job: JobId
    reason: str
    grace_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused part of a plan, and the reason."""

    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Assignments of all jobs that run or start; the others wait, with their reasons.

    Jobs in ``preemptions`` keep their resources until they end, so the plan does not assign these
    yet. At ``revisit_ns`` a new round is due even if nothing happens (0 = no need).
    """

    assignments: tuple[Assignment, ...]
    waiting: tuple[Waiting, ...] = ()
    revisit_ns: int = 0
    objective: float = 0.0
    bound: float = 0.0
    solver: str = ""
    outcome: str = ""
    preemptions: tuple[Preemption, ...] = ()
    power: PowerPlan = NO_CHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningRound:
    """The record of one planning round: one line of the log."""

    number: int
    policy: str
    solver: str
    outcome: str
    jobs: int
    solve_ns: int
    objective: float = 0.0
    bound: float = 0.0
    failure: str = ""
    """Why the policy failed, and its fallbacks if any; empty = its own plan was used."""


class Policy(Protocol):
    """A scheduling policy: a function of a snapshot, without side effects."""

    @property
    def name(self) -> str:
        """The name in configuration and logs."""

    @property
    def resizes(self) -> bool:
        """Whether it changes the cores of running jobs."""
        return False

    @property
    def size(self) -> str:
        """The size at which it starts a job: "min" or "max" of its range."""
        return "min"

    @property
    def chooses_caps(self) -> bool:
        """Whether it starts jobs at lower caps if power is short; others use the maximum."""
        return False

    @property
    def recaps(self) -> bool:
        """Whether it chooses the caps of running jobs again in each round, within the budget."""
        return False

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Plan all jobs of the snapshot; return within about ``deadline_s`` seconds."""

    def fallback(self) -> Policy | None:
        """Return the policy to use if this policy crashes or is late; None = keep the last plan."""
