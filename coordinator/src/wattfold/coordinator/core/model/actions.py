"""Actions: the output of the core. Each action has the id of the event that caused it."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.spec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCaps:
    """Set the caps (microwatts) of zones of a node and read them back."""

    node_id: NodeId
    caps: tuple[tuple[ZoneName, int], ...]
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Restore the original limits of a node and stop enforcing caps there."""

    node_id: NodeId
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMask:
    """Move a job to these cores of a node. Mode map adds the processor map."""

    node_id: NodeId
    job_id: JobId
    cpus: CpuSet
    request_id: str
    cause: str
    processor_map: bytes = b""
    attempt: int = 1
    resident: bool = False
    """The job will hold no core there. Its remaining processes may run on ``cpus``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNode:
    """A node in the host list of a launcher, with the number of cores of the job there."""

    node_id: NodeId
    address: str
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start the process of a job on a node. ``launch_cpus`` is its maximum number of cores there.

    ``step_nodes`` lists the nodes of a job that starts its own steps, in the order of their ranks.
    With ``steps_only`` the program runs on the first of these nodes, and this process starts steps.
    """

    node_id: NodeId
    job_id: JobId
    spec: JobSpec
    cpus: CpuSet
    launch_cpus: int
    rank: int
    ranks: int
    request_id: str
    cause: str
    processor_map: bytes = b""
    steps_only: bool = False
    step_nodes: tuple[StepNode, ...] = ()
    gpus: tuple[str, ...] = ()
    attempt: int = 1
    resident: bool = False
    """As in `SetMask`."""
    pes: int = 0
    """Number of PEs on all nodes, for a job with a reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """End an attempt of a job on a node: a signal (0: SIGTERM), then SIGKILL after the grace time.

    ``attempt`` 0 is the current attempt, ``grace_ns`` 0 the default grace time.
    """

    node_id: NodeId
    job_id: JobId
    request_id: str
    cause: str
    attempt: int = 1
    signal: int = 0
    grace_ns: int = 0
    saves: bool = False
    """The job will resume later. The agent checks whether it saves a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Suspend or resume the processes of a job on a node."""

    node_id: NodeId
    job_id: JobId
    suspended: bool
    request_id: str
    cause: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetProcess:
    """Delete the record of an ended process. ``attempt`` 0 is the current attempt."""

    node_id: NodeId
    job_id: JobId
    request_id: str
    cause: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewLease:
    """Extend the lease, the time for which caps above the floor hold."""

    node_id: NodeId
    duration_ns: int
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPower:
    """Start a node, or end its power, within this time. A repeated order changes nothing."""

    node_id: NodeId
    on: bool
    within_ns: int
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve:
    """Ask the policy for a plan."""

    round: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send `TimePassed` at this time."""

    at_ns: int
    cause: str


Action = (
    SetCaps
    | Leave
    | SetMask
    | Launch
    | Terminate
    | Suspend
    | ForgetProcess
    | RenewLease
    | SwitchPower
    | Solve
    | WakeAt
)
