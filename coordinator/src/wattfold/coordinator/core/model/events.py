"""Events: past facts, the only input of the core. The journal stores all of them in order.

Other modules define some: `reports`, `configuration`, `announced` and `emergency`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.model.announced import BudgetAnnounced as BudgetAnnounced
from wattfold.coordinator.core.model.announced import BudgetCancelled as BudgetCancelled
from wattfold.coordinator.core.model.announced import BudgetsScheduled as BudgetsScheduled
from wattfold.coordinator.core.model.configuration import CalendarStepped as CalendarStepped
from wattfold.coordinator.core.model.configuration import (
    NodeRegistered,
    NodeRetired,
    SettingsChanged,
)
from wattfold.coordinator.core.model.configuration import PolicyChanged as PolicyChanged
from wattfold.coordinator.core.model.configuration import QueuesConfigured as QueuesConfigured
from wattfold.coordinator.core.model.emergency import EmergencyBegun, EmergencyEnded
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.epoch_times import SeenCurve, SeenEpochs
from wattfold.coordinator.core.model.jobs.job_array import ArraySubmitted as ArraySubmitted
from wattfold.coordinator.core.model.jobs.modification import JobModified as JobModified
from wattfold.coordinator.core.model.jobs.spec import JobSpec, ResizeMode
from wattfold.coordinator.core.model.jobs.speeds import SeenSpeed
from wattfold.coordinator.core.model.node_order import NodeOrder as NodeOrder
from wattfold.coordinator.core.model.node_order import NodeOrdered as NodeOrdered
from wattfold.coordinator.core.model.node_order import SpareNodesKept as SpareNodesKept
from wattfold.coordinator.core.model.node_power import NO_CHANGE, PowerPlan
from wattfold.coordinator.core.model.plan import Plan, PlanningRound, Preemption, Refusal, Waiting
from wattfold.coordinator.core.model.reports import (
    CapsAnswered,
    CapsNotHeld,
    CapsUnconfirmed,
    GuestReport,
    JobLaunched,
    LaunchFailed,
    LaunchFaultReported,
    LeaseRenewed,
    LeaseUnconfirmed,
    LeaveAnswered,
    LeaveFailed,
    MaskConfirmed,
    MaskFailed,
    NodeConnected,
    NodeSilent,
    PowerAnswered,
    ProcessEnded,
    ReportSetAside,
    SuspensionConfirmed,
    SuspensionFailed,
    TerminateFailed,
)
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import PassProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStarted:
    """A coordinator started with a new epoch. All nodes count as silent until they answer.

    The leases of the nodes ``held`` may be renewed under the previous epoch for another
    ``held_ns``.
    """

    epoch: Epoch
    lease_ns: int
    command_timeout_ns: int
    held: tuple[NodeId, ...] = ()
    held_ns: int = 0
    calendar_step_ns: int = 0
    """By how much the calendar was set while the coordinator was stopped, as in CalendarStepped."""
    gap_ns: int = -1
    """Time away by the calendar alone, after a reboot; -1 = counted by the monotonic clock."""
    doubted: tuple[NodeId, ...] = ()
    """Nodes of which a report was set aside since the last checkpoint."""
    instance: str = ""
    """Random identity of this start. Agents use it to identify their coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRestored:
    """A backup replaced the journal, or the end of the journal is lost. Later events are unknown.

    Agents may know epochs up to about ``epoch``. Jobs up to number ``submissions`` may exist.
    ``caps_unknown``: until caps are read, nodes may hold higher caps than this journal says.
    """

    epoch: Epoch
    submissions: int
    because: str = "restored from a backup"
    caps_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChanged:
    """The budget changed. Committed power must be below it within ``deadline_ns``.

    ``accepted_outside_uw`` is the power that an operator accepts from nodes outside the ledger.
    None leaves the accepted power unchanged.
    """

    budget_uw: int
    deadline_ns: int = 0
    accepted_outside_uw: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationMade:
    """An operator reserved nodes for some jobs, or closed them for maintenance."""

    reservation: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationCancelled:
    """An operator cancelled a reservation, before or after its start."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """The coordinator accepted a job."""

    job_id: JobId
    spec: JobSpec
    held: bool = False
    key: str = ""
    fingerprint: str = ""
    """Digest of the request that came with ``key``; empty = unknown, from an earlier version."""
    conditions: StartConditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelRequested:
    """A user cancelled a job. With ``force`` it ends even if its nodes are unreachable."""

    job_id: JobId
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeld:
    """A waiting job must not start until it is released."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """A held job may start."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeueRequested:
    """A user requeued a running job, or a job that failed after it saved a snapshot.

    A running job first gets time to write a snapshot. 0 is the value of the submission.
    """

    job_id: JobId
    signal: int = 0
    grace_ns: int = 0
    hold: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSuspendRequested:
    """A user suspended a running job."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResumeRequested:
    """A user resumed a suspended job."""

    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResizeRequested:
    """A user fixed the size of a job; 0 = the policy chooses again."""

    job_id: JobId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """A point that a profile was fitted to: run time and power at a size and a cap per node.

    A point learnt from jobs was observed for ``observed_s`` seconds. The program then did ``rate``
    units of work per second.
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
    """The model of an application changed. ``rms_error`` is relative."""

    profile: PassProfile
    source: str
    rms_error: float = 0.0
    points: tuple[MeasuredPoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDropped:
    """The model of an application, its certificate, or both were deleted."""

    app: str
    model: bool = True
    certificate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimesStored:
    """The epoch times of an application were measured on these GPUs by ``profile epochs``."""

    app: str
    times: tuple[SeenEpochs, ...] = ()
    curves: tuple[SeenCurve, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCertified:
    """A certification run determined how a program may be resized; ``evidence`` is JSON.

    The certificate and the model of the run time are separate: replacing one keeps the other.
    """

    app: str
    mode: ResizeMode
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported:
    """A running job reported the completed share of its work (0..1)."""

    job_id: JobId
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochsTold:
    """A training job reported the number of epochs in its snapshot and the time of the last epoch.

    ``epoch_ns`` 0: no usable time, as the epoch was the first of an attempt or was interrupted.
    """

    job_id: JobId
    attempt: int
    saved: int
    epoch_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedMeasured:
    """The speed of a running job on a number of cores was measured, or measured for longer."""

    job_id: JobId
    speed: SeenSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeWanted:
    """The program of an evolving job requests a number of cores; 0 = it withdrew the request."""

    job_id: JobId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed:
    """A policy proposed a plan for a planning round.

    Replays of journals since version 2 follow `PlanAccepted` instead, because a changed applier
    could accept other parts of the plan.
    """

    plan: Plan
    round: PlanningRound


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAccepted:
    """The applier accepted these parts of a plan and refused the others."""

    round: PlanningRound
    changes: tuple[Assignment, ...] = ()
    starts: tuple[Assignment, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    revisit_ns: int = 0
    preemptions: tuple[Preemption, ...] = ()
    power: PowerPlan = NO_CHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailed:
    """The policy and its fallback failed in a round. The previous plan stays in force."""

    round: PlanningRound
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """The time of a `WakeAt` action has come."""


Event = (
    CoordinatorStarted
    | CalendarStepped
    | JournalRestored
    | BudgetChanged
    | BudgetAnnounced
    | BudgetCancelled
    | BudgetsScheduled
    | EmergencyBegun
    | EmergencyEnded
    | NodeRegistered
    | NodeRetired
    | SettingsChanged
    | ReservationMade
    | ReservationCancelled
    | NodeOrdered
    | SpareNodesKept
    | LeaveAnswered
    | LeaveFailed
    | JobSubmitted
    | ArraySubmitted
    | JobCancelRequested
    | JobHeld
    | JobReleased
    | JobRequeueRequested
    | JobSuspendRequested
    | JobResumeRequested
    | JobResizeRequested
    | JobModified
    | ProfileStored
    | ProfileDropped
    | EpochTimesStored
    | ProgramCertified
    | NodeConnected
    | NodeSilent
    | ReportSetAside
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
    | LaunchFaultReported
    | GuestReport
    | PowerAnswered
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
"""Events that no caller waits for. The journal stores them, in order, with the next batch."""
