"""Events that agents report: their node, its caps and processes, and how commands ended.

A command has one of each ending: it was obeyed, it was refused, or nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.attempt import Saving
from wattfold.coordinator.core.node import NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneReading:
    """A cap read back from a node, and after how long it holds on average.

    ``not_held_uw``: the mean power of a zone that draws more than its cap, as far as was told.
    ``original_uw``: the most it may draw once its original limit is put back, 0 = not told.
    """

    zone: ZoneName
    cap_uw: int
    settles_in_ns: int = 0
    error: str = ""
    not_held_uw: int = 0
    original_uw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """A process an agent has: running on ``cpus``, or ended and not yet forgotten.

    ``attempt`` 0: not told, by an agent of an earlier version.
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
    """Of one that was told to save: how much there is in its snapshot folder; 0 = not known."""
    resident: bool = False
    """It holds no core of the node."""
    epochs_saved: int = -1
    """Of a training: epochs in its snapshot; -1 = not told."""
    epochs_timed: int = 0
    epoch_mean_ns: int = 0
    """What so many of them, of this attempt, took in the mean."""
    gpu_energy_uj: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConnected:
    """An agent answered: what its node is, the caps it enforces and the processes it has.

    ``left``: it enforces nothing, its original limits hold.
    """

    spec: NodeSpec
    caps: tuple[ZoneReading, ...]
    processes: tuple[ProcessReading, ...]
    left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSilent:
    """An agent does not answer."""

    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """An agent took a lease; ``caps`` are enforced now."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseUnconfirmed:
    """A renewal got no answer: the agent may or may not have it."""

    node_id: NodeId
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsAnswered:
    """An agent read its caps back after a command."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsUnconfirmed:
    """A cap command got no answer: it may or may not hold."""

    node_id: NodeId
    request_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswered:
    """An agent has put original limits back. A reading with an error is of a zone that has not."""

    node_id: NodeId
    request_id: str
    caps: tuple[ZoneReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveFailed:
    """A command to leave was refused, or got no answer and may or may not have been obeyed."""

    node_id: NodeId
    request_id: str
    reason: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsNotHeld:
    """All zones of a node that draw more than their caps, and their mean powers, microwatts."""

    node_id: NodeId
    powers_uw: tuple[tuple[ZoneName, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskConfirmed:
    """A job is on exactly these cores of a node; more than it was sent to: it does not leave."""

    node_id: NodeId
    job_id: JobId
    cpus: CpuSet
    confined: bool
    attempt: int = 0
    resident: bool = False
    """It was to hold none, and is confined to where others may be."""
    processor_map: bytes = b""
    map_applied: bool = False
    """Whether the map that was sent is in force, with no object outside of it."""
    took_ns: int = 0
    """From telling the program until it had followed; 0 = it was not told, or has not."""
    stalled_ns: int = -1
    """How long it got nowhere while its objects moved to a map that is new to it; -1 = there was
    none."""
    moved_bytes: int = -1
    """Bytes of these objects; -1 = it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFailed:
    """A mask change was refused or got no answer."""

    node_id: NodeId
    job_id: JobId
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateFailed:
    """An order to end a job was refused (the process is not there, say) or got no answer."""

    node_id: NodeId
    job_id: JobId
    reason: str
    refused: bool = False
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionConfirmed:
    """The processes of a job on a node are stopped, or go on."""

    node_id: NodeId
    job_id: JobId
    suspended: bool
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionFailed:
    """A command to stop a job, or to let it go on, was refused or got no answer."""

    node_id: NodeId
    job_id: JobId
    reason: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLaunched:
    """A process of a job runs on a node. ``attempt`` 0 as in all events: of whichever there is."""

    node_id: NodeId
    job_id: JobId
    pid: int
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFailed:
    """A process could not be started. ``permanent``: trying again will not help."""

    node_id: NodeId
    job_id: JobId
    reason: str
    permanent: bool
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """The process of a job on a node is gone."""

    node_id: NodeId
    process: ProcessReading
