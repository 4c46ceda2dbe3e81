"""Facts about the jobs and nodes of a site's resource manager, such as Slurm.

The resource manager owns these jobs: it starts, suspends and ends them. The core chooses the caps
of their nodes, and the cores of adopted jobs within their allocation.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId

SLURM = "slurm"
COMMANDS = {SLURM: "Slurm's own commands (sbatch, srun, scancel, scontrol)"}
"""Commands of the resource managers, for messages."""


class ManagedState(enum.Enum):
    """State of a job as its resource manager reports it."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedJob:
    """An open job of a resource manager. ``job_id`` is MANAGER-NUMBER.

    ``submitted`` and ``started`` are times as the manager writes them. They identify a submission
    and a start, because numbers are used again after a loss of the manager's state. ``limit_ns`` 0
    = no time limit.
    """

    job_id: JobId
    state: ManagedState
    name: str
    user: str
    uid: int
    partition: str
    submitted: str
    started: str = ""
    cores: int = 0
    """Number of cores on all of its nodes."""
    nodes: tuple[NodeId, ...] = ()
    limit_ns: int = 0
    reason: str = ""
    """Why the job waits, in the words of its manager."""
    label: str = ""
    """Number of the job as its manager shows it, such as 12_3 for a task of an array."""

    @property
    def cores_each(self) -> int:
        """Number of cores on each of its nodes, rounded up."""
        return -(-self.cores // max(len(self.nodes), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedEnd:
    """End of a job. ``lost``: the manager no longer knows the job, so the result is unknown."""

    job_id: JobId
    exit_code: int = 0
    cancelled: bool = False
    timed_out: bool = False
    lost: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedNode:
    """A node that is not simply available, and its state in the words of its manager."""

    node_id: NodeId
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSeen:
    """The resource manager answered. ``jobs`` are new or changed, ``ended`` have ended.

    ``complete``: the event names all open jobs. It is so at first, and after each gap. ``nodes``
    are all nodes that are not simply available.
    """

    manager: str
    complete: bool
    jobs: tuple[ManagedJob, ...] = ()
    ended: tuple[ManagedEnd, ...] = ()
    nodes: tuple[ManagedNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerLost:
    """The resource manager does not answer. Its jobs keep their caps and cores."""

    manager: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfigured:
    """The site has this resource manager; empty = the coordinator has its own queue."""

    name: str


@dataclass(slots=True, kw_only=True)
class ResourceManagerState:
    """State of the resource manager as the core knows it. ``name`` empty = there is none."""

    name: str = ""
    reachable: bool = False
    reason: str = ""
    """Why the manager is not reachable."""
    since_ns: int = 0
    """Time of the last change of ``reachable``."""
    nodes: dict[NodeId, str] = field(default_factory=dict)
    """States of the nodes that are not simply available, in the words of the manager."""


@dataclass(slots=True, kw_only=True)
class Allocation:
    """Resources that the resource manager gave a job, with its counted cores on each node.

    The core numbers of a job that is not adopted are unknown. The core then counts free cores.
    """

    seen: ManagedJob
    cpus: dict[NodeId, CpuSet] = field(default_factory=dict)
