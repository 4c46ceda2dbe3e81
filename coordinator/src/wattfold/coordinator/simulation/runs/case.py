"""What a run simulates, as small frozen values: a workload, a machine, a budget, a policy, a seed.

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

from wattfold.coordinator.core.queue import Waits
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.descriptions import Value
from wattfold.coordinator.simulation.choices import MODELS as MODELS
from wattfold.coordinator.simulation.cluster.restarts import RestartTimes
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.prices import Prices
from wattfold.coordinator.simulation.pool.progress import Preemption
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowPolicy

POLICIES = registry.simulator_names()
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
)
"""Named in what a run is only where they are used: files of earlier runs stay the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """Where the jobs come from: a log or a model, and what is done with them before the run."""

    log: Path | None = None
    model: str = ""
    jobs: int = 1000
    """How many a model draws."""
    load: float = 1.0
    """Of the Poisson model."""
    odd_rows: OddRowPolicy = field(default_factory=OddRowPolicy)
    first: int = 0
    count: int | None = None
    """So many jobs from a position on, counted from zero."""
    gamma: float = 1.0
    """Times between arrivals are multiplied by it."""
    procs_per_node: int = 1
    cut_sizes: bool = False
    """Sizes above what the machine has, and its budget feeds at full power, are cut to that."""
    exact_estimates: bool = False
    annotations: Path | None = None
    profiles: bool = False
    """Jobs get profiles, from the file of annotations or drawn from the seed."""
    malleable_share: float = 1.0
    priorities: tuple[tuple[int, float], ...] = ()
    """Weights of users; 1 for those not named."""
    requests: Path | None = None
    """What units of jobs ask of nodes."""
    ends_at_limit: bool = False
    """What users asked for is a limit: jobs that reach it are ended."""
    queue_waits: tuple[tuple[int, Waits], ...] = ()
    """What queues, by their numbers in the log, say of waits."""
    share_nodes: bool = False
    """Jobs of less processors than make a node ask for so many cores of one."""
    training: Path | None = None
    """The jobs are those of this file, and train (`workloads.training_files`)."""
    epoch_times: Path | None = None
    """What an epoch of theirs takes where."""

    @property
    def name(self) -> str:
        """For titles: the log's name or the model's."""
        file = self.log or self.training
        return file.name.split(".")[0] if file else f"{self.model} model"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """A policy by its name and its settings; those of other policies are not looked at.

    ``settings`` are those of the policy's description by their keys, as `--set` gives them, and go
    before the fields of the same meaning. Raises ValueError for a name or key that is none.
    """

    name: str
    settings: tuple[tuple[str, Value], ...] = ()
    size: str = "max"
    """Backfilling: which end of its range a job gets."""
    cap_uw: int | None = None
    """Backfilling: the cap of every job; None = the greatest."""
    alpha: float = 0.28
    sizes_count: int = 8
    levels_count: int = 6
    caps_uw: tuple[int, ...] | None = None
    resize_interval_s: float = 500.0
    gap: float = 1e-3
    solver: str = "lagrangian"
    price_resizes: bool = False
    dram_levels_uw: tuple[int, ...] = ()
    """PARM: DRAM caps to choose from; () = the standing one."""

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise ValueError(f"unknown policy {self.name!r}; there are {', '.join(POLICIES)}")
        for key, _ in self.settings:
            if self.entry.family.setting(key) is None:
                raise ValueError(f"{self.name} has no setting {key!r}")

    @property
    def entry(self) -> registry.Entry:
        """What the policy says of itself."""
        entry = registry.find(self.name)
        assert entry is not None, "the name was checked"
        return entry

    def values(self) -> dict[str, Value]:
        """Every setting of the policy by its key."""
        values = self.entry.family.defaults()
        if self.entry.variant.pool is not None:
            values |= {key: value for key, value in self._fields().items() if key in values}
        return values | dict(self.settings)

    def check_unlimited(self, where: str) -> None:
        """Raises ValueError where passes of backfilling cannot be limited and are to be."""
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
    """Settings of simulated agents; shares are of commands, times in seconds."""

    cores_per_node: int = 16
    sizes_in: str = "nodes"
    """What sizes of jobs count: ``nodes``, or ``cores`` of one node."""
    lease_s: float = 600.0
    """Every node renews it three times in it: much shorter ones take long on long logs."""
    window_s: float = 1.0
    delay_s: float = 0.005
    lose: float = 0.0
    late: float = 0.0
    double: float = 0.0
    refuse: float = 0.0
    restarts: bool = False
    """Malleable jobs change size by being started again."""
    save_s: float = 0.0
    """How long such a job takes to save and to end."""
    start_s: float = 0.0
    """And how long to go on from there, once all its processes run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationCase:
    """One run."""

    source: WorkloadSource
    machine: Machine | NodeMachine
    budget: Budget
    policy: PolicyChoice
    seed: int = 0
    model: RunTimeModel | None = None
    placement: str = "any"
    resize_costs: bool = True
    preemption: Preemption | None = None
    """What jobs keep that are ended to start again; None: where any are, all that is done."""
    restarts: RestartTimes | None = None
    """Of a pool whose jobs change size by being started again; None: by links."""
    messages: MessageLevel | None = None
    """None: a pool."""
    predict: str = ""
    """What plans take run times for, one of `models.forecast.METHODS`; empty: the user's word."""
    prices: Prices | None = None
    """What jobs that train are charged for."""
    folder: Path | None = None
    """Where the run leaves its files; no part of what it is."""

    @property
    def counted(self) -> Machine:
        """The machine, where its nodes are counted. Raises ValueError where they are not."""
        if isinstance(self.machine, NodeMachine):
            raise ValueError(f"{self.policy.name} needs identical counted nodes: --nodes")
        return self.machine

    @property
    def nodes_at_full_power(self) -> int:
        """Nodes that the lowest budget feeds at the greatest cap."""
        machine = self.machine
        if isinstance(machine, NodeMachine):
            return machine.nodes_fed(self.budget.least_uw - machine.floors_uw)
        # The service charges every node as at its floor, whatever it draws.
        idle_uw = machine.busy_uw(machine.cap_uw_min) if self.messages else machine.idle_uw
        spare_uw = self.budget.least_uw - machine.nodes * idle_uw
        each_uw = machine.busy_uw(machine.cap_uw_max) - idle_uw
        return min(self.machine.nodes, max(spare_uw, 0) // each_uw if each_uw else 1 << 62)

    @property
    def name(self) -> str:
        """Its policy, and how that takes run times if not by users' words."""
        return f"{self.policy.name}+{self.predict}" if self.predict else self.policy.name

    @property
    def label(self) -> str:
        """Names its folder and its files."""
        return f"{self.name}-seed{self.seed}"

    def identity(self) -> Mapping[str, object]:
        """All that decides the result. Raises OSError where a file of the workload is gone."""
        described = asdict(self)
        del described["folder"]
        described["source"] = _used(described["source"])
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
    """Of the content; size and time of the last change are there to notice another one."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
