"""Jobs as the core knows them: what was asked for (JobSpec) and what has become of it (Job)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.amounts import Amounts
from wattfold.coordinator.core.attempt import Attempt, Requeue
from wattfold.coordinator.core.levels import PLAIN, Levels
from wattfold.coordinator.core.promise import Promise
from wattfold.coordinator.core.rank import Rank
from wattfold.coordinator.core.speeds import SeenSpeed
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.models.forecast import NOTHING_KNOWN, Known
from wattfold.coordinator.models.pass_model import SizeUnit


class JobKind(enum.Enum):
    """Who chooses the size, and when (Feitelson's classes)."""

    RIGID = "rigid"
    MOLDABLE = "moldable"
    MALLEABLE = "malleable"
    EVOLVING = "evolving"

    @property
    def resized(self) -> bool:
        """Whether its cores may change while it runs."""
        return self in (JobKind.MALLEABLE, JobKind.EVOLVING)


class ResizeMode(enum.Enum):
    """What follows a resize: nothing, the cores, also the number of threads, the objects, a restart
    by the program's own runtime, or a start from its snapshot at another size."""

    FIXED = "fixed"
    MASK = "mask"
    TEAM = "team"
    MAP = "map"
    REBUILD = "rebuild"
    RESTART = "restart"


MAPPED = frozenset({ResizeMode.MAP, ResizeMode.REBUILD})
"""A Charm++ program is told its processor map; after a rebuild the PEs outside of it are gone."""


RETRYING = "retrying to "
"""Prefix of a job's reason that ends with the words of an agent, after a colon."""


class CoreSharing(enum.Enum):
    """Whether a job shares cores of its nodes: as its user or its queue says, else as its kind."""

    AS_KIND = "as-kind"
    NO = "no"
    LEND = "lend"
    BORROW = "borrow"
    BOTH = "both"

    @property
    def lends(self) -> bool:
        """Whether it is said that others may have some of its cores for a while."""
        return self in (CoreSharing.LEND, CoreSharing.BOTH)

    @property
    def borrows(self) -> bool:
        """Whether it is said that it may start on fewer cores, beside others."""
        return self in (CoreSharing.BORROW, CoreSharing.BOTH)


class JobState(enum.Enum):
    """Life of a job. HELD and PENDING wait; the last five are final."""

    HELD = "held"
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
    """Who has a job ended that has not ended by itself."""

    NOBODY = "nobody"
    USER = "user"
    TIME_LIMIT = "time limit"
    RESERVATION = "reservation"


UNKNOWN_UID = -1
"""Of jobs of earlier versions, which belong to the account of the coordinator by its name."""
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
"""What such a job holds stays its own and is no matter of any plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A submission. Sizes count ``unit``; ``cap_uw`` 0 leaves the cap to the policy.

    ``tasks_per_node`` processes on a node get cores of their own, one at least. With
    ``own_launcher`` the command runs on the first node only and starts the rest of the job itself.
    ``mode_source`` says for people where the mode came from. ``time_ns`` is an estimate;
    ``limit_ns`` is how long it may run before it is ended, 0 = as long as it takes.
    ``memory_bytes``, ``gpus`` and ``features`` are of every node it is on, the first two of each of
    its units where sizes count units, of ``unit_cores`` cores; without memory asked for
    it is held to none. ``due_ns`` is when its user wants it done, -1 = no matter; ``weight`` what
    that is worth beside others, to policies that go by it.
    What only a start needs and nobody else may see, its environment, is not part of it.
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
    """Further attempts after lost ones."""
    restartable: bool = False
    snapshot_dir: str = ""
    """Empty = a folder of the job's number in ``cwd``."""
    snapshot_signal: int = 0
    snapshot_grace_ns: int = 0

    uid: int = UNKNOWN_UID
    """Number of the account ``user``."""
    memory_bytes: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()
    queue: str = ""
    due_ns: int = -1
    weight: float = 1.0
    reservation: str = ""
    """Where it runs alone; empty = outside of all."""
    preemptable: bool = False
    levels: Levels = PLAIN
    """Those it must have; what is left open in them is up to the policy, like a `cap_uw` of 0."""
    sharing: CoreSharing = CoreSharing.AS_KIND
    unit_cores: int = 0
    """Cores of each unit; 0 = sizes count something else."""
    spread: Spread = Spread.ANY
    among: tuple[NodeId, ...] = ()
    """The nodes on which it may be; empty = any."""
    predicted_uw: int = 0
    """What all of it is predicted to draw at its greatest size and full speed, above what idle
    nodes do; 0 = not known. A prediction: what it may draw is up to caps."""
    epochs: int = 0
    """Those of a training job, all of them; 0 = it is none, or does not say."""

    @property
    def lends(self) -> bool:
        """Whether others may have some of its cores while it runs."""
        able = self.kind.resized and self.mode not in (ResizeMode.FIXED, ResizeMode.RESTART)
        return able and not self.exclusive and self._shares(self.sharing.lends)

    @property
    def borrows(self) -> bool:
        """Whether it may start on fewer cores than it asks for, on nodes of others."""
        able = self.kind is not JobKind.RIGID and not self.exclusive
        able = able and self.unit is not SizeUnit.UNITS
        return able and self._shares(self.sharing.borrows)

    def _shares(self, said: bool) -> bool:
        if self.sharing is CoreSharing.AS_KIND:
            return self.unit is SizeUnit.CORES
        return said

    @property
    def alone(self) -> bool:
        """Whether nobody else may be on its nodes."""
        return self.exclusive or (self.unit is SizeUnit.NODES and not (self.lends or self.borrows))

    @property
    def least_on_node(self) -> int:
        """Cores it must have on each of its nodes: every task keeps one."""
        if self.unit is SizeUnit.UNITS:
            return self.unit_cores
        return self.least_size if self.unit is SizeUnit.CORES else self.tasks_per_node

    @property
    def requests(self) -> bool:
        """Whether it asks for anything of a node but cores."""
        return bool(self.memory_bytes or self.gpus or self.features or self.among)

    @property
    def node_filters(self) -> tuple[tuple[str, ...], tuple[NodeId, ...]]:
        """Which nodes will do for it, whatever is free there: by features, by name."""
        return self.features, self.among

    @property
    def unit_amounts(self) -> Amounts:
        """What it asks of every node it is on, or for each of its units there, beside cores."""
        return Amounts(memory_bytes=self.memory_bytes, gpus=self.gpus)

    def units_on(self, cores: int) -> int:
        """How many units it has where it has so many cores; 1 where sizes count something else."""
        return cores // self.unit_cores if self.unit is SizeUnit.UNITS else 1

    def amounts_on(self, cores: int) -> Amounts:
        """What it has of a node beside so many cores of it."""
        units = self.units_on(cores)
        return Amounts(memory_bytes=units * self.memory_bytes, gpus=units * self.gpus)

    def tasks_on(self, cores: int) -> int:
        """Its processes with cores of their own, where it has so many cores: each unit is one."""
        return self.units_on(cores) if self.unit is SizeUnit.UNITS else self.tasks_per_node

    @property
    def restarts(self) -> bool:
        """Whether it may be started more than once: it can go on from a snapshot, or anew."""
        return (
            self.restartable
            or self.requeue_max > 0
            or self.preemptable
            or self.mode is ResizeMode.RESTART
        )

    @property
    def least_size(self) -> int:
        """The least size it may ever have: every task keeps a core."""
        tasks = self.tasks_per_node if self.unit is SizeUnit.CORES else 1
        return max(self.size_min, tasks)

    def greatest_size(self, wanted: int) -> int:
        """The greatest size to give it when its program asks for so many cores; 0 = it does not.

        A wish only counts for an evolving job, and within the sizes it was submitted with.
        """
        if not wanted or self.kind is not JobKind.EVOLVING:
            return self.size_max
        return max(self.least_size, min(wanted, self.size_max))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a job has of one node: cores, bytes of memory, GPUs by id."""

    node_id: NodeId
    cpus: CpuSet
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()

    @property
    def beside_cores(self) -> tuple[int, tuple[str, ...]]:
        """What stays as it is while its cores change."""
        return self.memory_bytes, self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a policy wants for one job.

    ``cap_uw`` is the package cap per whole node its size was chosen with (P_j of PARM), ``levels``
    are the caps of other zones;
    ``expected_total_s`` is t[j, n, p], the time of the whole job at this size and cap, from which
    the core integrates the share done. 0 = unknown.
    """

    job_id: JobId
    size: int
    cap_uw: int
    shares: tuple[Share, ...]
    expected_total_s: float = 0.0
    levels: Levels = PLAIN
    reach: tuple[NodeId, ...] = ()
    """Of a start that was accepted: see `Job.reach`."""

    def on(self, node_id: NodeId) -> CpuSet:
        """Cores on a node, empty where it has none."""
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
    # What the program has asked for last (0 = nothing), and when.
    wanted: int = 0
    wanted_ns: int = -1
    exit_code: int = 0
    message: str = ""
    reason: str = ""
    expected_start_ns: int = 0
    """When the last plan expected it to start; 0 = it did not say, or it does not wait."""
    promise: Promise | None = None
    """The start that plans are to keep; of one that is to start now, that."""
    ended_by: Ender = Ender.NOBODY
    over_since_ns: int = -1
    """Since when it has run longer than its model said, as of the last change of its speed."""
    # In which the job was submitted; 0 = before version 2.
    epoch: int = 0
    attempt: int = 1
    """Number of the present or next start; what is above is of this one."""
    attempts: tuple[Attempt, ...] = ()
    """The ones before."""
    requeue: Requeue | None = None
    """Why it is ended, where it is to wait again after that."""
    yields_to: JobId = JobId("")  # noqa: RUF009 - a string
    """The job it was pre-empted for last."""
    preempts: bool = False
    """Whether others were pre-empted for it since it waits."""
    suspended_ns: int = -1
    paused_ns: int = 0
    """How long this attempt was suspended before ``suspended_ns``."""
    size_asked: int = 0
    """The only size it is to have, by order; 0 = what the policy chooses."""
    following: Assignment | None = None
    """What the next attempt gets, while the present one is ended for another size."""
    ordered_ns: int = -1
    """Since when it is on its way from one size to another."""
    saved: float = 0.0
    """The share done that its snapshot holds, as far as is known."""
    told: bool = False
    """Its program has said in this attempt what share is done."""
    owed: float = -1.0
    """The share done when it was ended for another size, until its program tells how far it is
    since; -1 = nothing is waited for."""
    moving_bytes: int = 0
    """Of the snapshot that it goes on from at another size; 0 = not known."""
    ran_ns: int = 0
    """How long it ran at other sizes since it last waited: counts for its time limit."""
    known: Known = NOTHING_KNOWN
    """What runs like it had shown when it was submitted."""
    reach: tuple[NodeId, ...] = ()
    """Nodes it has processes on, and may hold while it runs; empty = those of its target."""
    speeds: tuple[SeenSpeed, ...] = ()
    """How fast it was seen to work at the sizes it has had."""
    epochs_saved: int = 0
    """Of a training: those in its snapshot, from which its next attempt goes on."""
    epochs_timed: int = 0
    """Epochs of the present attempt of which the time is known, and that in the mean."""
    epoch_mean_ns: int = 0
    told_off_ns: int = -1
    """Since when its attempt is on its way back to the queue, by order."""
    left_ns: int = 0
    """How long the attempt before took to save and to end when it was told to; 0 = it was not."""
    placed_ns: int = -1
    """Since when the present attempt is to start."""

    @property
    def saved_share(self) -> float:
        """The share of its work in its snapshot, of a training that has told; else 0."""
        return self.epochs_saved / self.spec.epochs if self.spec.epochs else 0.0

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL_STATES

    @property
    def start_promised(self) -> bool:
        """Whether its expected start is one that plans keep."""
        return self.promise is not None and self.expected_start_ns == self.promise.start_ns

    @property
    def resizable(self) -> bool:
        """Whether its cores may change while it runs."""
        return self.spec.kind.resized and self.spec.mode is not ResizeMode.FIXED

    @property
    def restarted(self) -> bool:
        """Whether it is resized by ending it and starting it again."""
        return self.resizable and self.spec.mode is ResizeMode.RESTART

    @property
    def planned_spec(self) -> JobSpec:
        """The submission as policies plan with it: of the one size that was ordered, if any."""
        size = self.size_asked
        if not size and 0 < len(self.reach) < self.spec.size_max:
            return replace(self.spec, size_max=len(self.reach))
        return replace(self.spec, size_min=size, size_max=size) if size else self.spec

    def done_by(self, now_ns: int) -> float:
        """The share done by now: that known, and interval / t[j, n, p] since, as PARM does."""
        if self.state is JobState.RUNNING and self.target and self.target.expected_total_s > 0:
            elapsed_s = (now_ns - self.done_at_ns) / 1e9
            return min(self.done + elapsed_s / self.target.expected_total_s, MAX_DONE)
        return self.done

    def over_ns(self, now_ns: int) -> int:
        """For how long it has run past its estimated end; 0 before it, and without an estimate."""
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
        """When it has run for its time limit; -1 = it has none, or does not run."""
        if self.state is not JobState.RUNNING or not self.spec.limit_ns:
            return -1
        return self.started_ns + self.paused_ns - self.ran_ns + self.spec.limit_ns

    def suspended_for_ns(self, now_ns: int) -> int:
        """For how long this attempt has stood still."""
        since_ns = self.suspended_ns
        return self.paused_ns + (max(now_ns - since_ns, 0) if since_ns >= 0 else 0)

    def go_on(self, now_ns: int) -> None:
        """It does not stand still any more. For the handlers of events."""
        self.suspended_ns, self.paused_ns = -1, self.suspended_for_ns(now_ns)

    def advance_progress(self, now_ns: int) -> None:
        """Fixes the share done by now, because the speed changes. For the handlers of events."""
        self.over_since_ns = self._over_since(now_ns)
        self.done, self.done_at_ns = self.done_by(now_ns), now_ns


MAX_DONE = 0.99
"""A running job is never taken for finished: a model that was too fast leaves it one hundredth."""

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
