"""Events that agents report: their node, its caps and processes, and the outcome of commands.

A command has one of three outcomes: the agent obeyed, the agent refused, or the outcome is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.coordinator.core.model.resource_manager import ManagerLost, ManagerSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneReading:
    """A cap read back from a node, and the time after which it holds on average.

    ``not_held_uw`` is the reported mean power of a zone that exceeds its cap, otherwise 0.
    ``original_uw`` is the maximum power of the zone under its original limit, 0 = not reported.
    """

    zone: ZoneName
    cap_uw: int
    settles_in_ns: int = 0
    error: str = ""
    not_held_uw: int = 0
    original_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """A process that an agent reports: running on ``cpus``, or ended and not yet forgotten.

    ``attempt`` 0: the agent is of an earlier version and does not report the attempt.
    """

    job_id: JobId
    running: bool
    pid: int
    cpus: CpuSet
    exit_code: int = 0
    lost: bool = False
    cpu_ns: int = 0
    energy_uj: int = 0
    message: str = ""
    residual_cpu_ns: int = 0
    core_ns: int = 0
    idle_energy_uj: int = 0
    attempt: int = 0
    suspended: bool = False
    saving: Saving = Saving.UNKNOWN
    snapshot_bytes: int = 0
    """Size of the snapshot folder after the process was asked to save; 0 = unknown."""
    resident: bool = False
    """Whether the job holds no core of this node."""
    epochs_saved: int = -1
    """Epochs in the snapshot of a training job; -1 = not reported."""
    epochs_timed: int = 0
    """Number of epochs of this attempt in the mean ``epoch_mean_ns``."""
    epoch_mean_ns: int = 0
    gpu_energy_uj: int = 0
    ran_ns: int = 0
    """Time since its launch by the monotonic clock of its node; 0 = not reported."""
    command_digest: str = ""
    """Digest of the command that it was started with; empty = not reported."""
    adopted: AdoptedJob | None = None
    """Only for jobs of another owner that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnected:
    """An agent answered with the facts of its node, its enforced caps and its processes.

    ``left``: the agent enforces nothing. The original limits are in force.
    """

    spec: NodeSpec
    caps: tuple[ZoneReading, ...]
    processes: tuple[ProcessReading, ...]
    left: bool = False
    fault: str = ""
    """Why the node cannot start processes; empty = it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSilent:
    """An agent stopped answering, or its node has a new address."""

    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSetAside:
    """A report of a node could not be handled, so the state of the node is unknown.

    Contact is made again to learn it. Until then the node is charged with its maximum power.
    """

    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """An agent accepted a lease and reported the enforced ``caps``."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseUnconfirmed:
    """A lease renewal got no answer. The lease may or may not be in force."""

    node_id: NodeId
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsAnswered:
    """An agent reported the caps that it read back after a command."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsUnconfirmed:
    """A cap command got no answer. The caps may or may not be in force."""

    node_id: NodeId
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswered:
    """An agent restored original limits. A reading with an error means that its zone failed."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveFailed:
    """An agent refused a command to leave, or did not answer it."""

    node_id: NodeId
    request_id: str
    reason: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsNotHeld:
    """Zones of a node draw more than their caps. The event lists all of them, with mean power."""

    node_id: NodeId
    powers_uw: tuple[tuple[ZoneName, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskConfirmed:
    """A job runs on exactly these cores of a node. Extra cores are cores that it did not leave."""

    node_id: NodeId
    job_id: JobId
    cpus: CpuSet
    confined: bool
    attempt: int = 0
    resident: bool = False
    """Whether the job holds no core here and is confined to a core that other jobs may hold."""
    processor_map: bytes = b""
    map_applied: bool = False
    """Whether the processor map is in force and no object is outside of it."""
    took_ns: int = 0
    """Time from the request until the program followed; 0 = no request, or it has not followed."""
    stalled_ns: int = -1
    """Time without progress while objects moved to a new map; -1 = no new map."""
    moved_bytes: int = -1
    """Bytes of the moved objects; -1 = not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFailed:
    """An agent refused a change of mask, or did not answer it."""

    node_id: NodeId
    job_id: JobId
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateFailed:
    """An agent refused a command to end a job, or did not answer it."""

    node_id: NodeId
    job_id: JobId
    reason: str
    refused: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionConfirmed:
    """The processes of a job on a node are suspended, or running again."""

    node_id: NodeId
    job_id: JobId
    suspended: bool
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionFailed:
    """An agent refused a command to suspend or resume a job, or did not answer it."""

    node_id: NodeId
    job_id: JobId
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLaunched:
    """A process of a job runs on a node. In all events, ``attempt`` 0 means the current attempt."""

    node_id: NodeId
    job_id: JobId
    pid: int
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailed:
    """A process could not be started. If ``permanent``, a retry will fail as well.

    ``node_fault``: the agent refused because of its node, such as a full disk. The job is not the
    cause, and the node cannot start other jobs either.
    """

    node_id: NodeId
    job_id: JobId
    reason: str
    permanent: bool
    attempt: int = 0
    node_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFaultReported:
    """A node cannot start processes for this ``reason``. An empty reason: it can again."""

    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedJobsSeen:
    """A node runs ``jobs`` of another owner, such as Slurm. Their cores are reserved."""

    node_id: NodeId
    jobs: tuple[AdoptedJob, ...]


GuestReport = AdoptedJobsSeen | ManagerSeen | ManagerLost
"""Reports about jobs of a resource manager, by agents and by the manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnswered:
    """An order about the power of a node was carried out, or failed with this ``error``.

    After a suspension without error, the node was seen without power. After the order to start, the
    node may still boot.
    """

    node_id: NodeId
    request_id: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """The process of a job on a node ended, or was lost."""

    node_id: NodeId
    process: ProcessReading
