"""What a policy sees (Snapshot), what it answers (Plan), and the interface of policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.job import Assignment, JobSpec, Share
from wattfold.coordinator.core.node import NodeSpec
from wattfold.coordinator.core.place import Place
from wattfold.coordinator.core.promise import Promise
from wattfold.coordinator.core.queue import NO_WAITS, Queue, Waits
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.models.training import Training

NOBODY = JobId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node that may be planned for. ``blocked`` are cores no policy may give away.

    ``residual`` are cores on which the work of jobs that do not hold them was measured of late:
    they may be given away, but others are better. ``blocked_bytes`` and ``blocked_gpus`` are
    held as blocked cores are. ``features`` are all it has. ``place`` says how whole nodes are
    chosen; None: in their order.
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
    """The standing cap of each DRAM zone, as `CoreSettings` has it; the same for all nodes."""
    leaving: tuple[Share, ...] = ()
    """What of the blocked is of jobs on their way out, and will be free when they are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job that waits (``current`` None) or runs.

    ``done`` is the share done (0..1), ``resized_ns`` the last resize (-1 = never), ``movable``
    whether its sizes may change now at all (its nodes answer). ``wanted`` are the cores its program
    asks for (0 = it does not), since ``wanted_ns``. ``over_ns``: for how long it has run past its
    estimated end.
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
    """It runs, and may get any number of nodes it was submitted for, within its ``reach`` if it has
    one. Else another size, or other nodes, make it start again from its snapshot, which takes it
    about ``resize_ns``."""
    reach: tuple[NodeId, ...] = ()
    """Nodes it has processes on; it keeps the first, and may hold the others."""
    restart_ns: int = 0
    """What being ended and started again is expected to cost it, where that may happen to it."""
    resize_ns: int = 0
    """What another size is expected to cost it by itself, as learnt from its application."""
    size_asked: int = 0
    """The one size somebody has ordered, which ``spec`` has as its least and greatest; 0 = none."""
    preemptable: bool = False
    """Whether a plan may put it back into the queue now, for a job of a queue that pre-empts it."""
    yields_to: JobId = NOBODY
    """The job that waits and that it was pre-empted for: it does not start before that one."""
    promise: Promise | None = None
    """The start it was told, where the plan that told it keeps promises."""
    planned_ns: int = 0
    """How long all of it is predicted to run at its greatest size and full power, in place of its
    user's word; 0 = that counts."""
    waits: Waits = NO_WAITS
    """What its queue says of the time until its start."""
    serial_ppm: int = -1
    """The share of its time that fewer cores do not stretch (`models.amdahl`), as measured in its
    run; -1 = it was not."""
    training: Training | None = None
    """What is known of its epochs, where it is a training job."""

    @property
    def greatest_size(self) -> int:
        """The greatest size a policy may give it now."""
        return self.spec.greatest_size(self.wanted)


class BudgetAhead(NamedTuple):
    """A change of the budget that is known before it comes."""

    from_ns: int
    budget_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state a round plans with. ``budget_uw`` less ``reserved_uw`` (nodes out of reach) is
    what base power, floors and jobs of the nodes listed may use."""

    now_ns: int
    budget_uw: int
    reserved_uw: int
    nodes: tuple[NodeView, ...]
    jobs: tuple[JobView, ...]
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    clearing: tuple[JobId, ...] = ()
    """Jobs that wait and for which others, that were pre-empted, are being ended."""
    leaving_uw: int = 0
    """What of ``reserved_uw`` is of jobs on their way out."""
    away: tuple[NodeView, ...] = ()
    """Nodes that do not answer for a moment: to be expected back, with nothing free until then."""
    away_uw: int = 0
    """What of ``reserved_uw`` is theirs; ``away_held_uw`` of that is for the jobs there."""
    away_held_uw: int = 0
    ahead: tuple[BudgetAhead, ...] = ()
    """Changes of the budget that are announced, by time, all after now."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of the zero of ``now_ns``: for prices that change."""

    @property
    def spendable_uw(self) -> int:
        """Power above base and floors, to be given to jobs."""
        return self.budget_uw - self.reserved_uw - sum(node.fixed_uw for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a job is not in a plan. ``never``: no change of load alone will let it start.

    ``start_ns``: when the policy expects it to start, 0 = it does not say. ``promise``: the start
    it is promised, which is then the expected one.
    """

    job_id: JobId
    reason: str
    never: bool = False
    start_ns: int = 0
    promise: Promise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A running job that is to go back to the queue, so that one that waits can start.

    ``for_job`` `NOBODY`: a training job that is to go on elsewhere, or later.
    ``grace_ns`` 0: what it was submitted with, or the usual grace time.
    """

    job_id: JobId
    for_job: JobId
    reason: str
    grace_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A part of a plan that was not taken, and why."""

    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Assignments of all jobs that run or start; the others wait, with their reasons.

    Jobs in ``preemptions`` run until they are ended, so what they have is not given away yet.
    ``revisit_ns``: plan again then even if nothing happens (0 = no need).
    """

    assignments: tuple[Assignment, ...]
    waiting: tuple[Waiting, ...] = ()
    revisit_ns: int = 0
    objective: float = 0.0
    bound: float = 0.0
    solver: str = ""
    outcome: str = ""
    preemptions: tuple[Preemption, ...] = ()


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


class Policy(Protocol):
    """A scheduling policy: a function of a snapshot, without side effects."""

    @property
    def name(self) -> str:
        """Its name in configuration and logs."""

    @property
    def resizes(self) -> bool:
        """Whether it chooses the cores of running jobs; others leave them as they are."""
        return False

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        """Plans all jobs of the snapshot; returns within about ``deadline_s`` seconds."""

    def fallback(self) -> Policy | None:
        """The policy to ask when this one crashed or was late; None = keep the last plan."""
