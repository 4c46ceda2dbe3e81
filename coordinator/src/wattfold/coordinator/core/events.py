"""Events: past facts, the only input of the core. The journal stores them all, in order.

Those that agents report are in `reports`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.epoch_times import SeenCurve, SeenEpochs
from wattfold.coordinator.core.job import Assignment, JobSpec, ResizeMode
from wattfold.coordinator.core.plan import Plan, PlanningRound, Preemption, Refusal, Waiting
from wattfold.coordinator.core.queue import Queue
from wattfold.coordinator.core.reports import (
    CapsAnswered,
    CapsNotHeld,
    CapsUnconfirmed,
    JobLaunched,
    LaunchFailed,
    LeaseRenewed,
    LeaseUnconfirmed,
    LeaveAnswered,
    LeaveFailed,
    MaskConfirmed,
    MaskFailed,
    NodeConnected,
    NodeSilent,
    ProcessEnded,
    SuspensionConfirmed,
    SuspensionFailed,
    TerminateFailed,
)
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.core.speeds import SeenSpeed
from wattfold.coordinator.models.pass_model import PassProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStarted:
    """A coordinator took over with a new epoch; every node is unknown until it is heard of."""

    epoch: Epoch
    lease_ns: int
    command_timeout_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRestored:
    """A backup took the place of the journal: what has happened since it was made is not known.

    Nodes obey epochs up to about ``epoch``; jobs up to number ``submissions`` may exist.
    """

    epoch: Epoch
    submissions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChanged:
    """The budget is another one, to be kept by ``deadline_ns`` after the event.

    ``accepted_outside_uw``: so much may be drawn by nodes outside the ledger by an operator's word;
    None leaves what was accepted before.
    """

    budget_uw: int
    deadline_ns: int = 0
    accepted_outside_uw: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnnounced:
    """The budget will be another one from ``at_ns`` (coordinator time) on, and kept then."""

    at_ns: int
    budget_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetCancelled:
    """A budget that was announced will not come."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """The configuration names a node, and the features it adds to those of its agent."""

    node_id: NodeId
    address: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetired:
    """The configuration does not name a node any more."""

    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesConfigured:
    """The configuration names these queues and no others."""

    queues: tuple[Queue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationMade:
    """An operator keeps nodes for some jobs, or for none."""

    reservation: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationCancelled:
    """An operator takes a reservation back, before it begins or while it lasts."""

    name: str


class NodeOrder(enum.Enum):
    """What an operator may want of a node. The two ways to forget say why nothing is charged."""

    DRAIN = "drain"
    RESUME = "resume"
    LEAVE = "leave"
    FORGET_UNPOWERED = "forget-unpowered"
    FORGET_OUTSIDE = "forget-outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrdered:
    """An operator has given an order about a node."""

    node_id: NodeId
    order: NodeOrder
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """A job was accepted."""

    job_id: JobId
    spec: JobSpec
    held: bool = False
    key: str = ""
    fingerprint: str = ""
    """Of what was asked for under ``key``; empty = not known, from an earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelRequested:
    """A user wants a job gone; by ``force`` also where its nodes are out of reach."""

    job_id: JobId
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeld:
    """A waiting job must not start."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """A held job may start."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeueRequested:
    """Somebody wants a running job back in the queue, after time to write a snapshot.

    0: the signal and the grace time it was submitted with.
    """

    job_id: JobId
    signal: int = 0
    grace_ns: int = 0
    hold: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSuspendRequested:
    """A running job must stand still."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResumeRequested:
    """A suspended job may go on."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResizeRequested:
    """Somebody wants a job at one size from now on; 0 = at what the policy chooses."""

    job_id: JobId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """A run a profile was fitted to: so long, with such a size and cap per node.

    Learnt from jobs: seen for ``observed_s``, at ``rate`` units of work of the program a second.
    """

    size: int
    cap_uw: int
    seconds: float
    power_uw: int = 0
    fitted_seconds: float = 0.0
    observed_s: float = 0.0
    rate: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStored:
    """What is known of an application changed. ``rms_error`` is relative."""

    profile: PassProfile
    source: str
    rms_error: float = 0.0
    points: tuple[MeasuredPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDropped:
    """What is known of an application is to be forgotten: its model, or what certified it."""

    app: str
    model: bool = True
    certificate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimesStored:
    """What an epoch of an application takes was measured on purpose, on these GPUs."""

    app: str
    times: tuple[SeenEpochs, ...] = ()
    curves: tuple[SeenCurve, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCertified:
    """It was found out by trying how a program may be resized; ``evidence`` is JSON.

    Kept apart from the model of its run time: a new one of either leaves the other.
    """

    app: str
    mode: ResizeMode
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported:
    """A running job told what share of its work is done (0..1)."""

    job_id: JobId
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsTold:
    """A running training has so many epochs in its snapshot; the last took ``epoch_ns``, 0 = that
    says nothing (the first of a start, or one that was interrupted)."""

    job_id: JobId
    attempt: int
    saved: int
    epoch_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasured:
    """A running job was seen to work at a speed, on so many cores; told again as more was seen."""

    job_id: JobId
    speed: SeenSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeWanted:
    """The program of an evolving job asks for so many cores; 0 = it has taken its wish back."""

    job_id: JobId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed:
    """A policy answered the round of that number. Of journals since version 2 only what was taken
    of it is a fact (`PlanAccepted`): a replay by other rules could take something else."""

    plan: Plan
    round: PlanningRound


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAccepted:
    """The parts of a plan that were taken, of running jobs and of ones to start, and the others."""

    round: PlanningRound
    changes: tuple[Assignment, ...] = ()
    starts: tuple[Assignment, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    revisit_ns: int = 0
    preemptions: tuple[Preemption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailed:
    """Every solver of a round failed; the last plan stays."""

    round: PlanningRound
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """A time the core asked to be woken at has come."""


Event = (
    CoordinatorStarted
    | JournalRestored
    | BudgetChanged
    | BudgetAnnounced
    | BudgetCancelled
    | NodeRegistered
    | NodeRetired
    | QueuesConfigured
    | ReservationMade
    | ReservationCancelled
    | NodeOrdered
    | LeaveAnswered
    | LeaveFailed
    | JobSubmitted
    | JobCancelRequested
    | JobHeld
    | JobReleased
    | JobRequeueRequested
    | JobSuspendRequested
    | JobResumeRequested
    | JobResizeRequested
    | ProfileStored
    | ProfileDropped
    | EpochTimesStored
    | ProgramCertified
    | NodeConnected
    | NodeSilent
    | LeaseRenewed
    | LeaseUnconfirmed
    | CapsAnswered
    | CapsUnconfirmed
    | CapsNotHeld
    | MaskConfirmed
    | MaskFailed
    | SuspensionConfirmed
    | SuspensionFailed
    | TerminateFailed
    | JobLaunched
    | LaunchFailed
    | ProcessEnded
    | ProgressReported
    | EpochsTold
    | SpeedMeasured
    | SizeWanted
    | PlanProposed
    | PlanAccepted
    | PlanFailed
    | TimePassed
)

TRANSIENT = (
    LeaseRenewed,
    LeaseUnconfirmed,
    TimePassed,
    ProgressReported,
    EpochsTold,
    SpeedMeasured,
)
"""Nobody waits for these to be on disk; the journal still has them, in order, with the next one."""
