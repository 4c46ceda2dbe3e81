"""Description of a run in small frozen values: workload, machine, budget, policy and seed.

A case can be sent to another process, which reads or draws the jobs itself. Equal cases give equal
results, byte by byte. Files count by their content: a log may be moved, but not changed.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.queue import Waits
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.choices import MODELS as MODELS
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.messages.restarts import RestartTimes
from wattfold.simulator.workloads.odd_rows import OddRowPolicy

POLICIES = registry.simulator_names()
_ENDINGS = (".gz", ".swf", ".txt", ".csv", ".json")
"""Endings of files of jobs; a dot may be part of the name, as in CTC-SP2-1996-3.1-cln.swf.gz."""
LATER = (
    "requests",
    "queue_waits",
    "share_nodes",
    "ends_at_limit",
    "preemption",
    "restarts",
    "predict",
    "training",
    "epoch_times",
    "prices",
    "size_most",
    "sleep",
    "price_hold_ns",
    "limits",
    "ramp",
)
"""Fields that the identity of a run contains only if used, so that old identities stay valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """Source of the jobs: a log or a model, and their changes before the run."""

    log: Path | None = None
    model: str = ""
    jobs: int = 1000
    """Number of jobs of a model."""
    load: float = 1.0
    """Load of the Poisson model."""
    odd_rows: OddRowPolicy = field(default_factory=OddRowPolicy)
    first: int = 0
    count: int | None = None
    """Number of jobs from position ``first`` on, counted from zero."""
    gamma: float = 1.0
    """Factor for the times between arrivals."""
    procs_per_node: int = 1
    cut_sizes: bool = False
    """Cut larger sizes to the nodes that the machine has and its budget feeds at full power."""
    size_most: int = 0
    """Maximum size for the cut, in nodes; 0: as the budget of the case allows."""
    exact_estimates: bool = False
    annotations: Path | None = None
    profiles: bool = False
    """Whether jobs get profiles, from the file of annotations or drawn from the seed."""
    malleable_share: float = 1.0
    priorities: tuple[tuple[int, float], ...] = ()
    """Weights of users; 1 for other users."""
    requests: Path | None = None
    """File of requests of job units to nodes."""
    ends_at_limit: bool = False
    """Whether the requested time is a limit that ends jobs."""
    queue_waits: tuple[tuple[int, Waits], ...] = ()
    """Waits that queues state, by their numbers in the log."""
    share_nodes: bool = False
    """Whether jobs with fewer processors than a node request this number of cores of a node."""
    training: Path | None = None
    """File of training jobs, which replace the jobs of a log (`workloads.training_files`)."""
    epoch_times: Path | None = None
    """File of their epoch times."""

    @property
    def name(self) -> str:
        """Name for titles: the log's or the model's."""
        file = self.log or self.training
        if file is None:
            return f"{self.model} model"
        name = file.name
        for ending in _ENDINGS:
            name = name.removesuffix(ending)
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """A policy by its name and its settings; settings of other policies are ignored.

    ``settings`` are settings from the policy's description by their keys, as in `--set`; they
    override the fields with the same meaning. Raises ValueError for an unknown name or key.
    """

    name: str
    settings: tuple[tuple[str, Value], ...] = ()
    size: str = "max"
    """Backfilling: whether a job gets its minimum or maximum size."""
    cap_uw: int | None = None
    """Backfilling: the cap of every job; None = the maximum."""
    alpha: float = 0.28
    sizes_count: int = 8
    levels_count: int = 6
    caps_uw: tuple[int, ...] | None = None
    resize_interval_s: float = 500.0
    gap: float = 1e-3
    solver: str = "lagrangian"
    price_resizes: bool = False
    dram_levels_uw: tuple[int, ...] = ()
    """PARM: selectable DRAM caps; () = the default cap."""

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise ValueError(f"unknown policy {self.name!r}; there are {', '.join(POLICIES)}")
        for key, _ in self.settings:
            if self.entry.family.setting(key) is None:
                raise ValueError(f"{self.name} has no setting {key!r}")

    @property
    def entry(self) -> registry.RegisteredPolicy:
        """Description of the policy."""
        entry = registry.find(self.name)
        assert entry is not None, "the name was checked"
        return entry

    def values(self) -> dict[str, Value]:
        """Return every setting of the policy by its key."""
        values = self.entry.family.defaults()
        if self.entry.variant.pool is not None:
            values |= {key: value for key, value in self._fields().items() if key in values}
        return values | dict(self.settings)

    def chosen(self) -> Any:
        """Return the settings as an object of the dataclass of the family."""
        return self.entry.family.chosen(self.values())

    def check_unlimited(self, where: str) -> None:
        """Raise ValueError if settings limit backfilling passes, which is not possible here."""
        for key in ("looked", "every"):
            if self.values().get(key):
                raise ValueError(
                    f"{self.name}.{key} limits passes in a pool of identical counted nodes: {where}"
                )

    def _fields(self) -> dict[str, Value]:
        return {
            "size": self.size,
            "alpha": self.alpha,
            "sizes": self.sizes_count,
            "levels": self.levels_count,
            "resize_interval_s": self.resize_interval_s,
            "gap": self.gap,
            "solver": self.solver,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLevel:
    """Settings of simulated agents; probabilities are per command, times in seconds."""

    cores_per_node: int = 16
    sizes_in: str = "nodes"
    """Unit of job sizes: ``nodes``, or ``cores`` of one node."""
    lease_s: float = 600.0
    """Length of leases.

    Every node renews it three times in it: short leases make long logs slow.
    """
    window_s: float = 1.0
    delay_s: float = 0.005
    lose: float = 0.0
    late: float = 0.0
    double: float = 0.0
    refuse: float = 0.0
    restarts: bool = False
    """Malleable jobs change size by restarts."""
    save_s: float = 0.0
    """Time for such a job to save and to end."""
    start_s: float = 0.0
    """Time for it to resume, once all its processes run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepCase:
    """How nodes sleep. ``failing`` is the share of boots that fail, 0..1."""

    rules: SleepRules
    failing: float = 0.0

    @property
    def name(self) -> str:
        """Addition to the name of the policy."""
        return "timer" if self.rules.timer_ns else "sleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationCase:
    """Description of one run."""

    source: WorkloadSource
    machine: Machine | NodeMachine
    budget: BudgetSchedule
    policy: PolicyChoice
    seed: int = 0
    model: RunTimeModel | None = None
    placement: str = "any"
    resize_costs: bool = True
    preemption: PreemptionRule | None = None
    """Work that requeued jobs keep; None: all of it."""
    restarts: RestartTimes | None = None
    """Durations of restarts, in a pool whose jobs change size by restarts; None: cost by links."""
    messages: MessageLevel | None = None
    """None: a pool."""
    predict: str = ""
    """Predictor of run times, one of `models.forecast.METHODS`; empty: the user's estimate."""
    prices: Prices | None = None
    """Prices for training jobs, or to hold jobs back."""
    price_hold_ns: int = 0
    """Longest time for which a job is held back for cheaper hours."""
    sleep: SleepCase | None = None
    """Sleeping nodes; None: all nodes are always awake."""
    limits: AccountsConfigured | None = None
    """Limits of users and accounts. Users have the numbers of the log as their names."""
    ramp: RampLimits | None = None
    """Limits of the changes of committed power; None: unlimited."""
    folder: Path | None = None
    """Folder of the run's files; not part of its identity."""

    @property
    def counted(self) -> Machine:
        """The machine, if its nodes are counted. Raises ValueError otherwise."""
        if isinstance(self.machine, NodeMachine):
            raise ValueError(f"{self.policy.name} needs identical counted nodes: --nodes")
        return self.machine

    @property
    def nodes_at_full_power(self) -> int:
        """Number of nodes that the lowest budget feeds at the maximum cap."""
        machine = self.machine
        if isinstance(machine, NodeMachine):
            return machine.nodes_fed(self.budget.least_uw - machine.idle_total_uw)
        # The service charges every node at its floor, whatever its power.
        idle_uw = machine.busy_uw(machine.cap_uw_min) if self.messages else machine.idle_uw
        spare_uw = self.budget.least_uw - machine.nodes * idle_uw
        each_uw = machine.busy_uw(machine.cap_uw_max) - idle_uw
        return min(self.machine.nodes, max(spare_uw, 0) // each_uw if each_uw else 1 << 62)

    @property
    def name(self) -> str:
        """Name of its policy, with the predictor of run times if it has one."""
        name = f"{self.policy.name}+{self.predict}" if self.predict else self.policy.name
        name = f"{name}+{self.sleep.name}" if self.sleep else name
        return f"{name}+held" if self.price_hold_ns else name

    @property
    def label(self) -> str:
        """Name of its folder and its files."""
        return f"{self.name}-seed{self.seed}"

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result. Raises OSError if a file is missing."""
        described = asdict(self)
        del described["folder"]
        described["source"] = _used(described["source"])
        if isinstance(self.machine, NodeMachine) and not self.machine.boots:
            del described["machine"]["boots"]  # As `LATER`.
        return {key: _plain(value) for key, value in _used(described).items()}


def _used(described: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in described.items() if value or key not in LATER}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        known = value.stat()
        return {"name": value.name, "sha256": _digest(value, known.st_size, known.st_mtime_ns)}
    return value


@functools.lru_cache(maxsize=64)
def _digest(path: Path, _size: int, _changed_ns: int) -> str:
    """Return the digest of the content; size and change time are keys of the cache."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
