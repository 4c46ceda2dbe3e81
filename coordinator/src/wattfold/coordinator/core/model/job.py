"""Jobs: the request of the user (JobSpec) and its state in the core (Job)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.jobs.attempt import Attempt, Requeue
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.jobs.speeds import SeenSpeed
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.levels import PLAIN, Levels
from wattfold.coordinator.core.model.resource_manager import Allocation
from wattfold.coordinator.models.forecast import NOTHING_KNOWN, SimilarRuns
from wattfold.coordinator.models.pass_model import SizeUnit


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


RETRYING = "retrying to "
ATTEMPT_ENDED = "attempt "
"""Prefixes of reasons that end with a colon and the text of an agent or an operator."""
HELD = "held until it is released"


class JobState(enum.Enum):
    """State of a job. HELD, WAITING and PENDING have not started; the last five are final.

    WAITING: the conditions of its start are not met, so no policy sees it.
    """

    HELD = "held"
    WAITING = "waiting"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    TIMED_OUT = "timed-out"


class Ender(enum.Enum):
    """Reason why a job is ended that has not ended by itself."""

    NOBODY = "nobody"
    USER = "user"
    TIME_LIMIT = "time limit"
    RESERVATION = "reservation"


UNKNOWN_UID = -1
"""UID of jobs from older journals. They belong to the coordinator's own account by name."""
FINAL_STATES = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.LOST,
        JobState.TIMED_OUT,
    },
)
PLACED_STATES = frozenset(
    {JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING}
)
KEEPS_STATES = frozenset({JobState.SUSPENDED, JobState.ENDING})
"""Jobs in these states keep their resources, and plans do not contain them."""


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
    account: str = ""  # The project that the job counts for; empty = none.
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
    manager: str = ""  # Its resource manager, such as ``slurm``; empty = this coordinator.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Resources of a job on one node: cores, bytes of memory, GPUs by ID."""

    node_id: NodeId
    cpus: CpuSet
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()

    @property
    def beside_cores(self) -> tuple[int, tuple[str, ...]]:
        """Return the amounts that do not change when the cores change."""
        return self.memory_bytes, self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The size, cap and nodes that a policy assigns to a job.

    ``cap_uw`` is the package cap per whole node that was chosen with the size (P_j of PARM).
    ``levels`` are the caps of other zones. ``expected_total_s`` is t[j, n, p], the time of the
    whole job at this size and cap, 0 = unknown. The core integrates the completed share from it.
    """

    job_id: JobId
    size: int
    cap_uw: int
    shares: tuple[Share, ...]
    expected_total_s: float = 0.0
    levels: Levels = PLAIN
    reach: tuple[NodeId, ...] = ()
    """The reach of an accepted start, see `Job.reach`."""

    def on(self, node_id: NodeId) -> CpuSet:
        """Return the cores on a node; empty if there are none."""
        for share in self.shares:
            if share.node_id == node_id:
                return share.cpus
        return CpuSet()


@dataclass(slots=True, kw_only=True)
class Job:
    """State of a job. Times are coordinator time in nanoseconds, -1 = not yet."""

    job_id: JobId
    spec: JobSpec
    state: JobState
    submitted_ns: int
    started_ns: int = -1
    ended_ns: int = -1
    resized_ns: int = -1
    target: Assignment | None = None
    ranks: dict[NodeId, Rank] = field(default_factory=dict)
    done: float = 0.0
    done_at_ns: int = 0
    resizes: int = 0
    # Cores that the program requested last (0 = none), and the time of the request.
    wanted: int = 0
    wanted_ns: int = -1
    exit_code: int = 0
    message: str = ""
    reason: str = ""
    expected_start_ns: int = 0
    """Start expected by the last plan; 0 = no expectation, or the job does not wait."""
    promise: Promise | None = None
    """Planned start that plans have to keep, until the job has started."""
    ended_by: Ender = Ender.NOBODY
    over_since_ns: int = -1
    """Time from which the job exceeds its modelled run time, as of its last change of speed."""
    # Epoch of the coordinator at submission; 0 = before version 2.
    epoch: int = 0
    attempt: int = 1
    """Number of the current or next start. The fields above describe this attempt."""
    attempts: tuple[Attempt, ...] = ()
    """The previous attempts."""
    requeue: Requeue | None = None
    """The order that ends this attempt and requeues the job."""
    yields_to: JobId = JobId("")  # noqa: RUF009 - a string
    """The job for which it was last preempted."""
    preempts: bool = False
    """Whether other jobs were preempted for this job while it waits."""
    suspended_ns: int = -1
    paused_ns: int = 0
    """Time for which this attempt was suspended before ``suspended_ns``."""
    size_asked: int = 0
    """Size fixed by a user; 0 = the policy chooses."""
    following: Assignment | None = None
    """Assignment of the next attempt, while the current attempt ends for a resize."""
    ordered_ns: int = -1
    """Start of the pending restart at another size."""
    saved: float = 0.0  # Completed share in the snapshot, if known.
    told: bool = False  # Whether the program reported its completed share in this attempt.
    owed: float = -1.0
    """Completed share when the attempt ended for a resize, until the program reports its progress.

    -1 = no report is pending.
    """
    moving_bytes: int = 0
    """Size of the snapshot from which it resumes at another size; 0 = unknown."""
    ran_ns: int = 0  # At other sizes since it last waited. It counts for the time limit.
    known: SimilarRuns = NOTHING_KNOWN
    """Run times of similar earlier jobs, as known at its submission."""
    reach: tuple[NodeId, ...] = ()
    """Nodes with its processes, which it may hold while it runs; empty = its target's nodes."""
    speeds: tuple[SeenSpeed, ...] = ()
    """Measured speeds at the sizes of the job so far."""
    epochs_saved: int = 0
    """Epochs in the snapshot of a training job. The next attempt resumes from them."""
    epochs_timed: int = 0
    """Number of timed epochs of the current attempt, with their mean in ``epoch_mean_ns``."""
    epoch_mean_ns: int = 0
    told_off_ns: int = -1  # Time of the order to requeue the job; -1 = no order.
    left_ns: int = 0
    """Time that the previous attempt took to save and exit on request; 0 = not requested."""
    placed_ns: int = -1  # When the current attempt was placed.
    conditions: StartConditions = UNCONDITIONAL
    freed_ns: int = -1  # When the conditions of its start were met; -1 = it did not wait.
    shared_uw: int = 0  # Power that adds to the recent use of its share (fair share).
    hopeless: bool = False  # Whether it waits for a job that failed or is hopeless itself.
    unconfirmed: bool = False
    """Whether its run time is unconfirmed by its nodes since the coordinator's machine rebooted."""
    capped_ns: int = 0
    """Run time of all attempts with a package cap; below: the integral of the cap over it."""
    cap_uw_ns: int = 0
    allocation: Allocation | None = None  # By its resource manager; None = it has none.

    @property
    def saved_share(self) -> float:
        """Completed share in the snapshot of a training job that reports epochs; otherwise 0."""
        return self.epochs_saved / self.spec.epochs if self.spec.epochs else 0.0

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL_STATES

    @property
    def has_snapshot(self) -> bool:
        """Whether it is known to have a snapshot for another attempt."""
        return self.epochs_saved > 0 or self.saved > 0

    @property
    def start_promised(self) -> bool:
        """Whether its expected start is a planned start that plans keep."""
        return self.promise is not None and self.expected_start_ns == self.promise.start_ns

    @property
    def resizable(self) -> bool:
        """Whether its cores may change while it runs."""
        return self.spec.kind.resized and self.spec.mode is not ResizeMode.FIXED

    @property
    def restarted(self) -> bool:
        """Whether a resize ends the job and starts it again."""
        return self.resizable and self.spec.mode is ResizeMode.RESTART

    @property
    def planned_spec(self) -> JobSpec:
        """Return the submission for planning, with a size fixed by a user and within the reach."""
        size = self.size_asked
        if not size and 0 < len(self.reach) < self.spec.size_max:
            return replace(self.spec, size_max=len(self.reach))
        return replace(self.spec, size_min=size, size_max=size) if size else self.spec

    def done_by(self, now_ns: int) -> float:
        """Return the completed share by now: the last share plus interval / t[j, n, p] (PARM)."""
        if self.state is JobState.RUNNING and self.target and self.target.expected_total_s > 0:
            elapsed_s = (now_ns - self.done_at_ns) / 1e9
            done = self.done + elapsed_s / self.target.expected_total_s
            return min(done, self._next_epoch_share, MAX_DONE)
        return self.done

    @property
    def _next_epoch_share(self) -> float:
        """Completed share at the next epoch report of a training job; 1 for other jobs."""
        return (self.epochs_saved + 1) / self.spec.epochs if self.spec.epochs else 1.0

    def over_ns(self, now_ns: int) -> int:
        """Return the run time past the estimated end; 0 before it, and without an estimate."""
        if self.final:
            return 0
        since_ns = self._over_since(now_ns)
        return max(now_ns - since_ns, 0) if since_ns >= 0 else 0

    def _over_since(self, now_ns: int) -> int:
        if self.state is not JobState.RUNNING or self.over_since_ns >= 0:
            return self.over_since_ns
        total_s = self.target.expected_total_s if self.target else 0.0
        end_ns = self.done_at_ns + round((1 - self.done) * total_s * 1e9)
        return end_ns if total_s > 0 and end_ns <= now_ns else -1

    @property
    def limit_at_ns(self) -> int:
        """Time at which it reaches its time limit; -1 = no limit, or it does not run."""
        if self.state is not JobState.RUNNING or not self.spec.limit_ns:
            return -1
        return self.started_ns + self.paused_ns - self.ran_ns + self.spec.limit_ns

    def suspended_for_ns(self, now_ns: int) -> int:
        """Return the total time for which this attempt was suspended."""
        since_ns = self.suspended_ns
        return self.paused_ns + (max(now_ns - since_ns, 0) if since_ns >= 0 else 0)

    def move_past(self, by_ns: int, until_ns: int) -> None:
        """Move past times forward, at most to ``until_ns``. For the handlers of events."""
        for name in _PAST:
            time_ns = getattr(self, name)
            if 0 <= time_ns < until_ns:
                setattr(self, name, min(time_ns + by_ns, until_ns))

    def go_on(self, now_ns: int) -> None:
        """End the suspension of the job. For the handlers of events."""
        self.suspended_ns, self.paused_ns = -1, self.suspended_for_ns(now_ns)

    def advance_progress(self, now_ns: int) -> None:
        """Fix the completed share by now, because the speed changes. For the handlers of events."""
        self.over_since_ns = self._over_since(now_ns)
        self.count_cap(now_ns)
        self.done, self.done_at_ns = self.done_by(now_ns), now_ns

    def count_cap(self, now_ns: int) -> None:
        """Integrate the cap since ``done_at_ns``, which the caller then sets to ``now_ns``."""
        if self.state is JobState.RUNNING and self.target is not None and self.target.cap_uw:
            span_ns = max(now_ns - self.done_at_ns, 0)
            self.capped_ns += span_ns
            self.cap_uw_ns += self.target.cap_uw * span_ns


_PAST = (
    "submitted_ns",
    "started_ns",
    "ended_ns",
    "resized_ns",
    "done_at_ns",
    "wanted_ns",
    "over_since_ns",
    "suspended_ns",
    "ordered_ns",
    "told_off_ns",
    "placed_ns",
    "freed_ns",
)
"""Names of the fields with times of past events."""
MAX_DONE = 0.99
"""Maximum completed share of a running job: its model may be too fast."""

__all__ = [
    "FINAL_STATES",
    "KEEPS_STATES",
    "MAPPED",
    "MAX_DONE",
    "PLACED_STATES",
    "UNKNOWN_UID",
    "Assignment",
    "CoreSharing",
    "Ender",
    "Job",
    "JobKind",
    "JobSpec",
    "JobState",
    "ResizeMode",
    "Share",
    "SizeUnit",
]
