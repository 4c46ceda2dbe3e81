"""What every policy is: a scheduler that is told of changes and asked for decisions.

Two drivers use it. A pool of like nodes (`simulation.pool`) calls it in place, with counted nodes.
The service (`rounds`) names every node and core, tells it the differences between two planning
rounds, and puts its decisions on nodes. Jobs are numbers of the driver's; what there is to know of
one is asked of the driver (`Jobs`), so that nothing is copied for a decision that does not need it.

A scheduler may keep what it has worked out. One that is made anew and told of what there is now
decides as one that was told of every change; memory that breaks this is named where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView, NodeView, Policy
from wattfold.coordinator.core.promise import Promise
from wattfold.coordinator.core.queue import NO_WAITS, Queue, Waits
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.pass_model import PassProfile, SizeUnit
from wattfold.coordinator.policies.placement import Room

Decision = tuple[int, int, int]
"""A job, its size, its package cap a node in microwatts.

In simulations size 0 pre-empts a running job: it is ended, and told as one that ends and comes back
to the queue. The service has no such decision.
"""


FOR_NOBODY = -1
"""In place of the job that another one is pre-empted for."""


class Ask(NamedTuple):
    """What a job asks for, as far as every policy looks at it. Sizes count as ``unit`` says."""

    least: int
    greatest: int
    priority: float
    submitted_ns: int
    cap_uw: int = 0
    """The level it must have; 0 leaves it to the policy."""
    whole: bool = True
    """Whether its sizes count nodes, which it has to itself, and it asks for nothing else."""
    unit: SizeUnit = SizeUnit.NODES
    exclusive: bool = False
    """Whether nobody else may be on its node."""
    requests: bool = False
    """Whether it asks for anything of a node but cores."""
    resizable: bool = False
    """Whether its size may change while it runs. Of whole nodes that is up to the driver."""
    promise: Promise | None = None
    """The start it was promised."""
    resize_s: float = 0.0
    """What each change of its size costs it by itself: a start anew, objects that move."""
    due_ns: int = -1
    """When it is to have ended; -1 = no matter."""
    dram_uw: int = 0
    """The DRAM level it must have; 0 leaves it to the policy."""
    waits: Waits = NO_WAITS
    """What its queue says of the time until its start."""
    unit_cores: int = 1
    """Cores of each of its units, where its sizes count units."""
    spread: Spread = Spread.ANY
    gpus: int = 0
    """GPUs on its node, on each of its nodes, or for each of its units."""
    gpu_uw: int = 0
    """The level of its GPUs that it must have; 0 leaves it to the policy."""
    gpu_curves: tuple[tuple[str, GpuCurve], ...] = ()
    """What lower limits make of its work, by model of GPU; where none is told it is not known."""


class Held(NamedTuple):
    """What a running job has."""

    size: int
    cap_uw: int
    started_ns: int
    """-1 = it is only about to start."""
    here: bool = True
    """Whether all its nodes are among those of the site."""
    resized_ns: int = -1
    """The resize after which it is to be left alone for a while; -1 = there is none."""
    movable: bool = True
    """Whether anything of it may change now."""
    dram_uw: int = 0
    """Its DRAM level; 0 = the standing caps."""
    gpu_uw: int = 0
    """The level of each of its GPUs; 0 = their greatest limits."""


class Reason(NamedTuple):
    """Why a job waits. ``never``: no change of load alone will let it start.

    ``start_ns`` is when it is expected to start; 0 = not known. ``promise``: it is to be kept.
    """

    job: int
    text: str
    never: bool = False
    start_ns: int = 0
    promise: Promise | None = None


class Jobs(Protocol):
    """What a driver knows of its jobs."""

    def ask(self, job: int) -> Ask:
        """What it asks for now; a program may change its mind."""

    def held(self, job: int) -> Held | None:
        """What it has; None while it waits."""

    def estimate_ns(self, job: int, size: int, cap_uw: int) -> int:
        """How long all of it is taken to run on like nodes at a size and a level."""

    def profile(self, job: int, kind: NodeKind) -> PassProfile:
        """How it runs at other sizes and levels, on nodes of a kind."""

    def done(self, job: int, now_ns: int) -> float:
        """Share of a job's work that is done, 0..1."""


class NamedJobs(Jobs, Protocol):
    """Jobs on nodes that have names, of which a policy may look at every core."""

    def view(self, job: int) -> JobView:
        """All there is to know of a job."""

    def room(self) -> Room:
        """What is free beside the jobs of which nothing may change now. Not to be taken from."""

    def lacking(self, jobs: Sequence[int]) -> Mapping[int, Reason]:
        """Those of these waiting jobs that cannot have memory or GPUs now, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Nodes and power.

    ``kind`` None: they do not count, as they differ, have blocked cores or are reserved.
    """

    count: int
    spendable_uw: int
    """Power that jobs may add to the charge of idle nodes."""
    kind: NodeKind | None
    most_uw: int
    """`spendable_uw` once nodes out of reach are back: what takes more can never start."""
    names: tuple[NodeId, ...] = ()
    nodes: tuple[NodeView, ...] = field(default=(), compare=False)
    """Empty where nodes are only counted."""
    reservations: tuple[Reservation, ...] = ()
    queues: tuple[Queue, ...] = ()
    clearing: tuple[JobId, ...] = ()
    """Jobs that wait and for which others are being ended."""
    leaving_uw: int = 0
    """What `spendable_uw` will be more when jobs have ended that are on their way out."""
    away: tuple[NodeView, ...] = field(default=(), compare=False)
    """Nodes that do not answer for a moment, for those who think ahead. They are not among
    ``nodes``, nor is their power, ``away_uw``, with ``away_held_uw`` of jobs there, part of
    `spendable_uw`."""
    away_uw: int = 0
    away_held_uw: int = 0
    ahead: tuple[tuple[int, int], ...] = ()
    """Times at which `spendable_uw` will be another, by announced budgets, and what it will be."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of the zero of all times."""


class Scheduler(Protocol):
    """One policy at work.

    Calls come in order of time. `decide` is called after every change or after all of an instant.
    Every job that runs keeps what it has until a decision or its end changes it.
    """

    @property
    def name(self) -> str:
        """Name of the policy."""

    @property
    def each_event(self) -> bool:
        """Whether it decides after every event, or once for all events of one instant."""

    @property
    def revisit_ns(self) -> int:
        """Time at which to be asked again even if nothing happens; 0 = no need."""

    @property
    def solver_ns(self) -> Sequence[int]:
        """Time of each round a solver was asked; empty for policies without one."""

    def attach(self, jobs: Jobs) -> None:
        """Called once before anything else."""

    def site(self, site: Site) -> None:
        """Nodes and power from now on."""

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue, or comes back to it."""

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended, or waits no more."""

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose size or cap change.

        A pool takes shrinks and lower caps first, so that all of them together must fit, not each
        in its turn. Must be pickled with its state, for a run that is stopped and resumed.
        """


@runtime_checkable
class DramScheduler(Scheduler, Protocol):
    """A scheduler that chooses DRAM caps too; asked for them after each of its decisions."""

    @property
    def dram_model(self) -> DramModel:
        """What a DRAM cap does to run times."""

    def dram_cap_uw(self, job: int) -> int:
        """DRAM cap of a node of a running job, microwatts; 0 = the machine's standing cap.

        It changes with decisions only: a job of which it alone changes is named again in one, with
        the nodes and the package cap it has.
        """


class Placing(NamedTuple):
    """What a decision says of nodes, beside a size and a cap."""

    kinds: tuple[NodeKind, ...] = ()
    """Of its nodes; empty = any."""
    nodes: tuple[int, ...] = ()
    """How many of each kind; empty = all of the first."""
    sizes: tuple[int, ...] = ()
    """What it may have where there is no place for its size: those below it count."""
    expected_s: float = 0.0
    """Time of the whole job as decided."""
    dram_uw: int = 0
    """DRAM level of its nodes; 0 = their standing caps."""
    gpu_uw: int = 0
    """Level of its GPUs; 0 = their greatest limits."""


class Found(NamedTuple):
    """How a decision was found."""

    solver: str = "none"
    outcome: str = "optimal"
    objective: float = 0.0
    bound: float = 0.0


class NamedScheduler(Scheduler, Protocol):
    """A scheduler that also serves nodes with names, which change and are shared by cores."""

    def change(self, job: int, now_ns: int) -> None:
        """A job is other than it was: its wish, its estimate, or that it runs and where.

        Called before each decision for every job that runs: what it has done may matter, and a
        time that has not begun begins now.
        """

    def reasons(self, jobs: Iterable[int]) -> Iterable[Reason]:
        """Why these jobs wait and all whose reason or start is another since the last call."""

    def preemptions(self) -> Sequence[tuple[int, int]]:
        """Running jobs that the last decision wants back in the queue, each with the one for which.

        That is `FOR_NOBODY` of training jobs that are to go on elsewhere or later. They run on
        until they are gone; what they have is not decided about before.
        """
        return ()

    def nodes(self, job: int) -> Sequence[NodeId]:  # noqa: ARG002 - for those that keep room
        """The nodes among which a job of the last decision is to start; empty = all."""
        return ()


@runtime_checkable
class FindingScheduler(NamedScheduler, Protocol):
    """A scheduler that tells how it decides."""

    @property
    def found(self) -> Found:
        """How the last decision was found."""


@runtime_checkable
class ChoosingScheduler(FindingScheduler, Protocol):
    """A scheduler that weighs all jobs by counts, and leaves nodes and cores to the driver.

    A job for which the driver finds none waits on. The driver sets ``deadline_s``, the time of a
    decision in seconds. Named in a decision is also every job of which the driver has said what it
    has since the one before.
    """

    deadline_s: float

    def placing(self, job: int) -> Placing:
        """How a job of the last decision is to be put on nodes."""


@runtime_checkable
class AssigningScheduler(NamedScheduler, Protocol):
    """A scheduler that names nodes and cores itself, as it has to where jobs share them."""

    def assignment(self, job: int) -> Assignment:
        """What a job of the last decision gets."""


@runtime_checkable
class Scheduled(Policy, Protocol):
    """A policy of the service that can be kept up from round to round."""

    def scheduler(self) -> NamedScheduler:
        """A new one with its settings."""
