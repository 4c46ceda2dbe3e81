"""The request of a job: what its user submitted."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.mail import NO_MAIL, MailRequest
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.pickled_state import pickled_by_position
from wattfold.coordinator.models.pass_model import SizeUnit

UNKNOWN_UID = -1
"""UID of jobs from older journals. They belong to the coordinator's own account by name."""


class JobKind(enum.Enum):
    """Whether the user, the scheduler or the program chooses the size, and when (Feitelson)."""

    RIGID = "rigid"
    MOLDABLE = "moldable"
    MALLEABLE = "malleable"
    EVOLVING = "evolving"

    @property
    def resized(self) -> bool:
        """Whether the cores may change while the job runs."""
        return self in (JobKind.MALLEABLE, JobKind.EVOLVING)


class ResizeMode(enum.Enum):
    """Effect of a resize on the program.

    FIXED: no resize. MASK: the cores change. TEAM: the number of threads changes, too. MAP: objects
    move to other PEs. REBUILD: the program's own runtime restarts. RESTART: the program restarts
    from its snapshot at another size.
    """

    FIXED = "fixed"
    MASK = "mask"
    TEAM = "team"
    MAP = "map"
    REBUILD = "rebuild"
    RESTART = "restart"


MAPPED = frozenset({ResizeMode.MAP, ResizeMode.REBUILD})
"""Modes of Charm++ programs, which receive a processor map. A rebuild ends the PEs outside it."""


@pickled_by_position
@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A submission. Sizes count ``unit``; ``cap_uw`` 0 leaves the cap to the policy.

    Each of the ``tasks_per_node`` processes on a node has its own cores, at least one. With
    ``own_launcher`` the command runs on the first node only and starts the rest of the job itself.
    ``mode_source`` explains to users where the mode came from. ``time_ns`` is an estimate of the
    run time. A job is ended after ``limit_ns``, 0 = no limit.

    ``memory_bytes``, ``gpus`` and ``features`` apply to each node of the job. If sizes count units
    of ``unit_cores`` cores, memory and GPUs apply to each unit. ``memory_bytes`` 0 = no memory
    limit. ``due_ns`` is the due date of the user, -1 = none. ``weight`` is the weight of its
    tardiness, for policies with due dates. The environment is not part of a submission: it is
    secret, and only a start needs it.
    """

    name: str
    app: str
    argv: tuple[str, ...]
    cwd: str = "/"
    stdout_path: str = ""
    stderr_path: str = ""
    kind: JobKind = JobKind.RIGID
    unit: SizeUnit = SizeUnit.CORES
    size_min: int = 1
    size_max: int = 1
    time_ns: int = 0
    priority: float = 1.0
    mode: ResizeMode = ResizeMode.MASK
    exclusive: bool = False
    cap_uw: int = 0
    user: str = ""
    tasks_per_node: int = 1
    own_launcher: bool = False
    mode_source: str = ""
    limit_ns: int = 0
    requeue_max: int = 0
    """Maximum number of further attempts after lost attempts."""
    requeue_on_failure: bool = False
    """Whether failed attempts are requeued as well."""
    restartable: bool = False
    snapshot_dir: str = ""
    """Snapshot folder; empty = a folder with the number of the job in ``cwd``."""
    snapshot_signal: int = 0
    snapshot_grace_ns: int = 0
    uid: int = UNKNOWN_UID
    """UID of the account ``user``."""
    memory_bytes: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()
    queue: str = ""
    account: str = ""
    """The project that the job counts for; empty = none."""
    due_ns: int = -1
    weight: float = 1.0
    reservation: str = ""
    """Reservation in which the job runs exclusively; empty = outside all reservations."""
    preemptable: bool = False
    levels: Levels = PLAIN
    """Requested caps of DRAM and GPUs; 0 leaves the cap to the policy, as in `cap_uw`."""
    sharing: CoreSharing = CoreSharing.AS_KIND
    unit_cores: int = 0
    """Cores of each unit; 0 = sizes do not count units."""
    spread: Spread = Spread.ANY
    among: tuple[NodeId, ...] = ()
    """The nodes that the job may use; empty = all."""
    predicted_uw: int = 0
    """Predicted power of the whole job at its maximum size and full speed, above idle; 0 = unknown.

    Caps, not this prediction, limit the power of the job.
    """
    epochs: int = 0
    """Total number of epochs; 0 = not a training job, or unknown."""
    mail: MailRequest = NO_MAIL
    manager: str = ""
    """Its resource manager, such as ``slurm``; empty = this coordinator."""

    @property
    def lends(self) -> bool:
        """Whether other jobs may borrow some of its cores while it runs."""
        able = self.kind.resized and self.mode not in (ResizeMode.FIXED, ResizeMode.RESTART)
        return able and not self.exclusive and self._shares(self.sharing.lends)

    @property
    def borrows(self) -> bool:
        """Whether it may start on fewer cores than it requests, on nodes of other jobs."""
        able = self.kind is not JobKind.RIGID and not self.exclusive
        able = able and self.unit is not SizeUnit.UNITS
        return able and self._shares(self.sharing.borrows)

    def _shares(self, said: bool) -> bool:
        if self.sharing is CoreSharing.AS_KIND:
            return self.unit is SizeUnit.CORES
        return said

    @property
    def alone(self) -> bool:
        """Whether no other job may use its nodes."""
        return self.exclusive or (self.unit is SizeUnit.NODES and not (self.lends or self.borrows))

    @property
    def least_on_node(self) -> int:
        """Minimum number of cores on each of its nodes: every task keeps one core."""
        if self.unit is SizeUnit.UNITS:
            return self.unit_cores
        return self.min_size if self.unit is SizeUnit.CORES else self.tasks_per_node

    @property
    def requests(self) -> bool:
        """Whether the job requests more of a node than cores."""
        return bool(self.memory_bytes or self.gpus or self.features or self.among)

    @property
    def node_filters(self) -> tuple[tuple[str, ...], tuple[NodeId, ...]]:
        """Return the required features and node names, which do not depend on free resources."""
        return self.features, self.among

    @property
    def unit_amounts(self) -> Amounts:
        """Return the requested memory and GPUs for each node, or for each unit on a node."""
        return Amounts(memory_bytes=self.memory_bytes, gpus=self.gpus)

    def units_on(self, cores: int) -> int:
        """Return the number of units on this many cores; 1 if sizes do not count units."""
        return cores // self.unit_cores if self.unit is SizeUnit.UNITS else 1

    def amounts_on(self, cores: int) -> Amounts:
        """Return the memory and GPUs that the job gets with this many cores of a node."""
        units = self.units_on(cores)
        return Amounts(memory_bytes=units * self.memory_bytes, gpus=units * self.gpus)

    def tasks_on(self, cores: int) -> int:
        """Return the number of tasks on this many cores of a node; a unit is a task."""
        return self.units_on(cores) if self.unit is SizeUnit.UNITS else self.tasks_per_node

    @property
    def restarts(self) -> bool:
        """Whether it may be started more than once, from a snapshot or from scratch."""
        return (
            self.restartable
            or self.requeue_max > 0
            or self.preemptable
            or self.mode is ResizeMode.RESTART
        )

    @property
    def min_size(self) -> int:
        """Smallest possible size: every task keeps a core."""
        tasks = self.tasks_per_node if self.unit is SizeUnit.CORES else 1
        return max(self.size_min, tasks)

    def max_size(self, wanted: int) -> int:
        """Return the maximum size while its program requests this many cores; 0 = no request.

        Only the request of an evolving job counts, and it is clipped to the submitted sizes.
        """
        if not wanted or self.kind is not JobKind.EVOLVING:
            return self.size_max
        return max(self.min_size, min(wanted, self.size_max))
