"""The state of the core: stored fields, and derived values in `State.derived`."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.model.account import Account, UserLimits
from wattfold.coordinator.core.model.announced import Announced
from wattfold.coordinator.core.model.emergency import Emergency
from wattfold.coordinator.core.model.events import ProfileStored, ProgramCertified
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.epoch_times import AppEpochs
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.resize_cost import ResizeCost
from wattfold.coordinator.core.model.node import GIVEN_BACK, Node
from wattfold.coordinator.core.model.node_power import SleepSettings
from wattfold.coordinator.core.model.plan import PlanningRound
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.model.resource_manager import ResourceManagerState
from wattfold.coordinator.core.power.cap_sums import CapSums
from wattfold.coordinator.core.power.charge import fixed_uw, given_back_uw
from wattfold.coordinator.core.power.ledger import PowerLedger
from wattfold.coordinator.core.state.derived import Derived
from wattfold.coordinator.core.state.fair_share import FairShare
from wattfold.coordinator.core.state.index import Index
from wattfold.coordinator.models.forecast import USER, RunHistory
from wattfold.coordinator.models.pass_model import PassProfile

NO_EPOCH = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """Settings that do not change while the coordinator runs.

    ``lease_slack_ns`` covers the second in which an agent falls to its floor, and the drift of two
    clocks over one lease.
    """

    dram_cap_uw: int = 0
    lease_slack_ns: int = 1_500_000_000
    retry_ns: int = 1_000_000_000
    kept_ended_jobs: int = 10_000
    kept_keys: int = 100_000
    """Maximum number of stored idempotency keys of deleted jobs."""
    check_every: int = 5000
    """Number of events within which the whole state is checked, a part after each event.

    The parts that an event touched are checked at once.
    """
    predict: str = USER
    """Source of run times for plans: one of `models.forecast.METHODS`."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of the zero of coordinator time, before any calendar step.

    See `State.origin_s`.
    """
    sleep: SleepSettings = SleepSettings()  # noqa: RUF009 - immutable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A profile with its source: "measured" or "progress"."""

    stored: ProfileStored
    stored_ns: int

    @property
    def profile(self) -> PassProfile:
        """The parameters."""
        return self.stored.profile

    @property
    def source(self) -> str:
        """The source of the parameters."""
        return self.stored.source


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCertificate:
    """The resize mode of a program, and the time of its certification."""

    certified: ProgramCertified
    stored_ns: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Time before ``until_ns`` that only the calendar counted, and that may not have passed."""

    claimed_ns: int
    until_ns: int


def profile_key(app: str, unit: str) -> str:
    """Return the key of a profile: an application has separate profiles for cores and nodes."""
    return f"{app}/{unit}"


@dataclass(slots=True)
class State:
    """The complete state of the core. ``solving`` is the number of the running round, 0 = none."""

    settings: CoreSettings
    ledger: PowerLedger
    epoch: Epoch = NO_EPOCH
    instance: str = ""
    """Identity of the coordinator that began the epoch; empty = of an earlier version."""
    caps_unknown: bool = False
    """Whether nodes may hold higher caps than known. The next start has to charge them."""
    lease_ns: int = 10_000_000_000
    command_timeout_ns: int = 2_000_000_000
    longest_window_ns: int = 0
    """The longest averaging window of any zone so far."""
    jobs: dict[JobId, Job] = field(default_factory=dict)
    arrays: dict[JobId, JobArray] = field(default_factory=dict)
    """Job arrays of which a task waits, runs or is among the known ended jobs."""
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    profiles: dict[str, StoredProfile] = field(default_factory=dict)
    certificates: dict[str, StoredCertificate] = field(default_factory=dict)
    """Certificates by application. The resize mode does not depend on the unit of size."""
    keys: dict[str, JobId] = field(default_factory=dict)
    key_prints: dict[str, str] = field(default_factory=dict)
    """Digest of the request under each key; empty = unknown, from an earlier version."""
    requests: int = 0
    submissions: int = 0
    rounds: int = 0
    solving: int = 0
    solving_since_ns: int = 0
    failing_since_ns: int = -1
    """Time since which no round used a plan of the policy itself; -1 = the last round did."""
    plan_needed: str = ""
    revisit_ns: int = 0
    last_round: PlanningRound | None = None
    woken_at_ns: int = 0
    accepted_outside_uw: int = 0
    """Power of nodes outside the ledger that an operator accepted in addition to the budget."""
    announced: tuple[Announced, ...] = ()
    """Announced budgets, ordered by time. Copies of the state get them only when they change."""
    announcements: int = 0
    """Number of announcements so far."""
    keep_awake: int = 0
    """Number of nodes without a job that an operator keeps awake."""
    needed_awake: tuple[NodeId, ...] = ()
    """Nodes that the last plan needs awake soon."""
    boots_from_ns: int = 0
    """Time from which the next boot may begin."""
    emergency: Emergency | None = None
    """The emergency in force."""
    queues: dict[str, Queue] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    user_limits: dict[str, UserLimits] = field(default_factory=dict)
    limit_changes: int = 0
    """Number of times that accounts or limits were configured."""
    fair_share: FairShare = field(default_factory=FairShare)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    """Current and future reservations."""
    begun: list[str] = field(default_factory=list)
    """Names of the reservations whose start was processed."""
    restarts: dict[str, ResizeCost] = field(default_factory=dict)
    """Learnt resize costs by `resize_cost.cost_key`, of all modes."""
    epoch_times: dict[str, AppEpochs] = field(default_factory=dict)
    """Known epoch times, by application."""
    history: RunHistory = field(default_factory=RunHistory)
    """Run times of earlier jobs, by user and application."""
    calendar_ns: int = 0
    """Sum of all calendar steps since the journal began; positive = forward."""
    gap: Gap | None = None
    """Gap before the current start of the coordinator; None = its monotonic clock counted."""
    manager: ResourceManagerState = field(default_factory=ResourceManagerState)
    derived: Derived = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        jobs, nodes = self.jobs.values(), self.nodes.values()
        self.derived = Derived.of(jobs, nodes, self.keys, self.arrays, self.limit_changes)

    @property
    def origin_s(self) -> float:
        """Calendar time (UTC, Unix seconds) of the zero of coordinator time."""
        return self.settings.origin_s + self.calendar_ns / 1e9

    @property
    def index(self) -> Index:
        """Index of placed jobs, changes and due times."""
        return self.derived.index

    @property
    def cap_sums(self) -> CapSums:
        """The target caps of every node, and their sums."""
        return self.derived.cap_sums

    def placed(self) -> list[Job]:
        """Return jobs that hold or are about to hold cores, in order of submission."""
        return self.index.placed()

    def on_node(self, node_id: NodeId) -> list[Job]:
        """Return placed jobs with a process or a share on a node."""
        return self.index.on_node(node_id)

    @property
    def open_jobs(self) -> int:
        """Number of jobs that have not ended."""
        return len(self.index.open)

    def next_request(self) -> str:
        """Return a new request ID that no other epoch uses."""
        self.requests += 1
        return f"{self.epoch}-{self.requests}"

    def occupied(self, node_id: NodeId, but: JobId | None = None) -> CpuSet:
        """Return the cores of a node that processes may be running on, except those of a job."""
        cpus = CpuSet()
        for job in self.on_node(node_id):
            if job.job_id != but and node_id in job.ranks:
                cpus |= job.ranks[node_id].occupied
        for job_id, held in self.nodes[node_id].foreign.items():
            if job_id != but:
                cpus |= held
        return cpus

    def stray_jobs(self) -> frozenset[JobId]:
        """Return jobs with a process on a node that is not one of their ranks."""
        return frozenset(job_id for node in self.nodes.values() for job_id in node.foreign)

    def floor_uw(self) -> int:
        """Return the minimum power of the admitted nodes and the nodes that wait for admission.

        No budget below this power can be met.
        """
        return sum(
            self.ledger.accounts[node.node_id].charge_uw
            if node.dark
            else fixed_uw(node.spec, self.settings.dram_cap_uw)
            if node.duty not in GIVEN_BACK
            else given_back_uw(node, node.spec)
            for node in self.nodes.values()
            if node.spec is not None and (node.admitted or node.awaits_room)
        )

    def profile_of(self, job: Job) -> PassProfile | None:
        """Return the stored profile of a job's application and unit, if any."""
        entry = self.profiles.get(profile_key(job.spec.app, job.spec.unit.value))
        return entry.profile if entry else None


class InvariantError(Exception):
    """The state contradicts itself: a defect, reported with the last events."""
