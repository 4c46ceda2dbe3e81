"""Actions: what the core wants done, each with the id of its cause."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCaps:
    """Set these caps (microwatts) on a node, read back."""

    node_id: NodeId
    caps: tuple[tuple[ZoneName, int], ...]
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Put the original limits of a node back and enforce nothing there any more."""

    node_id: NodeId
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMask:
    """Move a job to these cores of a node; mode map: with this processor map, else empty."""

    node_id: NodeId
    job_id: JobId
    cpus: CpuSet
    request_id: str
    cause: str
    processor_map: bytes = b""
    attempt: int = 1
    resident: bool = False
    """It is to hold no core there; ``cpus`` are where what is left of it may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNode:
    """A node as the launcher of a job is told it, with the number of its cores there."""

    node_id: NodeId
    address: str
    cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start a job's process on a node; ``launch_cpus`` is the most cores it can ever get there.

    ``step_nodes`` of a job that starts its steps itself, in the order of their ranks; with
    ``steps_only`` its program runs on the first of them, and this one takes its steps.
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
    """Of a job with a reach: PEs of its program on all nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """End an attempt of a job on a node: a signal (0: SIGTERM), and SIGKILL after the grace time.

    ``attempt`` 0 is whichever there is, ``grace_ns`` 0 the usual time.
    """

    node_id: NodeId
    job_id: JobId
    request_id: str
    cause: str
    attempt: int = 1
    signal: int = 0
    grace_ns: int = 0
    saves: bool = False
    """It is to go on later: its agent looks whether it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Stop the processes of a job on a node, or let them go on."""

    node_id: NodeId
    job_id: JobId
    suspended: bool
    request_id: str
    cause: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetProcess:
    """Drop the record of an ended process. ``attempt`` 0 is whichever there is."""

    node_id: NodeId
    job_id: JobId
    request_id: str
    cause: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewLease:
    """Let caps above the floor hold for a while longer."""

    node_id: NodeId
    duration_ns: int
    request_id: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Solve:
    """Ask the policy for a plan."""

    round: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeAt:
    """Send TimePassed at this time."""

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
    | Solve
    | WakeAt
)
