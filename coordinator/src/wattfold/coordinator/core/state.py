"""The state of the core: what is stored, and in `State.derived` what is worked out from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.core.announced import Announced
from wattfold.coordinator.core.cap_sums import CapSums
from wattfold.coordinator.core.charge import fixed_uw, given_back_uw
from wattfold.coordinator.core.derived import Derived
from wattfold.coordinator.core.epoch_times import AppEpochs
from wattfold.coordinator.core.events import ProfileStored, ProgramCertified
from wattfold.coordinator.core.index import Index
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.ledger import PowerLedger
from wattfold.coordinator.core.node import GIVEN_BACK, Node
from wattfold.coordinator.core.plan import PlanningRound
from wattfold.coordinator.core.queue import Queue
from wattfold.coordinator.core.reservation import Reservation
from wattfold.coordinator.core.resize_cost import ResizeCost
from wattfold.coordinator.models.forecast import USER, RunHistory
from wattfold.coordinator.models.pass_model import PassProfile

NO_EPOCH = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """What does not change while the coordinator runs. ``lease_slack_ns`` covers the agent's
    second to fall to its floor and the drift of two clocks over one lease."""

    dram_cap_uw: int = 0
    lease_slack_ns: int = 1_500_000_000
    retry_ns: int = 1_000_000_000
    kept_ended_jobs: int = 10_000
    kept_keys: int = 100_000
    """Idempotency keys kept of jobs that have ended so long ago that they are forgotten."""
    check_every: int = 5000
    """Within so many events all of the state is checked, a part of it after each of them beside
    what it touched."""
    predict: str = USER
    """How plans take run times, one of `models.forecast.METHODS`."""
    origin_s: float = 0.0
    """Calendar time (UTC, Unix seconds) of the zero of coordinator time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A profile and where it came from: "measured" or "progress"."""

    stored: ProfileStored
    stored_ns: int

    @property
    def profile(self) -> PassProfile:
        """The parameters."""
        return self.stored.profile

    @property
    def source(self) -> str:
        """Who found them."""
        return self.stored.source


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCertificate:
    """How a program may be resized, and since when that is known."""

    certified: ProgramCertified
    stored_ns: int


def profile_key(app: str, unit: str) -> str:
    """Key of a profile: sizes in cores and in nodes are different profiles."""
    return f"{app}/{unit}"


@dataclass(slots=True)
class State:
    """Everything the core knows. ``solving`` is the number of the round under way, 0 = none."""

    settings: CoreSettings
    ledger: PowerLedger
    epoch: Epoch = NO_EPOCH
    lease_ns: int = 10_000_000_000
    command_timeout_ns: int = 2_000_000_000
    longest_window_ns: int = 0
    """The longest time over which a zone of a node has averaged its power."""
    jobs: dict[JobId, Job] = field(default_factory=dict)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    profiles: dict[str, StoredProfile] = field(default_factory=dict)
    certificates: dict[str, StoredCertificate] = field(default_factory=dict)
    """By application: how a program may be resized does not depend on what its size counts."""
    keys: dict[str, JobId] = field(default_factory=dict)
    key_prints: dict[str, str] = field(default_factory=dict)
    """What was asked for under a key; empty = not known, from an earlier version."""
    requests: int = 0
    submissions: int = 0
    rounds: int = 0
    solving: int = 0
    plan_needed: str = ""
    revisit_ns: int = 0
    last_round: PlanningRound | None = None
    woken_at_ns: int = 0
    accepted_outside_uw: int = 0
    """What nodes outside the ledger may draw beside the budget, by an operator's word."""
    announced: list[Announced] = field(default_factory=list)
    """Budgets to come, by time."""
    announcements: int = 0
    """How many there have been."""
    queues: dict[str, Queue] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    """Those that are not over."""
    begun: list[str] = field(default_factory=list)
    """The ones of which the begin was taken notice of."""
    restarts: dict[str, ResizeCost] = field(default_factory=dict)
    """By `resize_cost.cost_key`: what another size has cost such jobs, not by restarts alone."""
    epoch_times: dict[str, AppEpochs] = field(default_factory=dict)
    """By application: what an epoch takes on so many GPUs of a model."""
    history: RunHistory = field(default_factory=RunHistory)
    """How long jobs ran, by user and application."""
    derived: Derived = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.derived = Derived.of(self.jobs.values(), self.nodes.values(), self.keys)

    @property
    def index(self) -> Index:
        """Which jobs are where, what has changed, what is due when."""
        return self.derived.index

    @property
    def cap_sums(self) -> CapSums:
        """The caps wanted on every node, and their sums."""
        return self.derived.cap_sums

    def placed(self) -> list[Job]:
        """Jobs that hold or are about to hold cores, in order of submission."""
        return self.index.placed()

    def on_node(self, node_id: NodeId) -> list[Job]:
        """Those of `placed` with a process or a share on a node."""
        return self.index.on_node(node_id)

    @property
    def open_jobs(self) -> int:
        """Jobs that have not ended."""
        return len(self.index.open)

    def occupied(self, node_id: NodeId, but: JobId | None = None) -> CpuSet:
        """Cores of a node that processes may be running on, without one job's own."""
        cpus = CpuSet()
        for job in self.on_node(node_id):
            if job.job_id != but and node_id in job.ranks:
                cpus |= job.ranks[node_id].occupied
        for job_id, held in self.nodes[node_id].foreign.items():
            if job_id != but:
                cpus |= held
        return cpus

    def strays(self) -> frozenset[JobId]:
        """Jobs with a process somewhere that is not one of their own."""
        return frozenset(job_id for node in self.nodes.values() for job_id in node.foreign)

    def floor_uw(self) -> int:
        """The least the nodes of the ledger draw, and those that wait for it: no budget below it
        can be kept."""
        return sum(
            fixed_uw(node.spec, self.settings.dram_cap_uw)
            if node.duty not in GIVEN_BACK
            else given_back_uw(node, node.spec)
            for node in self.nodes.values()
            if node.spec is not None and (node.admitted or node.awaits_room)
        )

    def profile_of(self, job: Job) -> PassProfile | None:
        """The stored profile of a job's application and unit, None if there is none."""
        entry = self.profiles.get(profile_key(job.spec.app, job.spec.unit.value))
        return entry.profile if entry else None


class InvariantError(Exception):
    """The state contradicts itself: a defect, reported with the last events."""
