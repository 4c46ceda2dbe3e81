"""Nodes as the core knows them: what they are (NodeSpec) and how they are (Node)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.contract.topology import Topology
from wattfold.coordinator.core.amounts import Amounts


class ZoneKind(enum.Enum):
    """Role of a power zone."""

    PACKAGE = "package"
    DRAM = "dram"
    PSYS = "psys"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A power zone of a node; powers in microwatts.

    ``cap_uw_max`` of a zone that cannot be capped is the most it can draw.
    """

    name: ZoneName
    kind: ZoneKind
    cap_uw_min: int
    cap_uw_max: int
    floor_uw: int
    window_ns: int
    can_cap: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Package power of a node over frequency: p = a f^3 + b f + c (PARM, Eq. 18); GHz and W."""

    a: float
    b: float
    c: float
    f_low_ghz: float
    f_high_ghz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """What like nodes have in common for power and speed: cores, range of caps, power curve, GPUs.

    ``floor_uw`` is the part of a level that idle nodes pay as well. It may be below zero: an idle
    node is then charged less than a job's node without its packages. ``least_uw`` is the least cap
    the packages take at all; zero where that is of no interest.
    """

    cores: int
    floor_uw: int
    most_uw: int
    least_uw: int = 0
    curve: Curve | None = None
    gpus: int = 0
    gpu_floor_uw: int = 0
    """The least floor and the greatest limit of any of its GPUs; 0 = none can be capped."""
    gpu_most_uw: int = 0
    gpu_model: str = ""

    def __hash__(self) -> int:
        # It is part of what policies remember by, many times a round; curves seldom tell apart.
        return hash((self.cores, self.floor_uw, self.most_uw))


@lru_cache(maxsize=1024)
def interned(kind: NodeKind) -> NodeKind:
    """One object for all equal kinds, so that those of many nodes are told apart by identity."""
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What an agent says of its node. ``zones`` are the ones charged to the budget.

    ``isolated_cpus`` and ``offline_cpus`` are of its host and not offered. ``memory_bytes`` is what
    its jobs may use together, 0 = not known; ``gpus`` are ids; ``memory_mechanism`` is how jobs are
    held to their memory, empty = they are not.
    """

    node_id: NodeId
    cpus: CpuSet
    zones: tuple[Zone, ...]
    base_power_uw: int
    curve: Curve | None = None
    emulated: bool = False
    mask_mechanism: str = ""
    throttle_mechanism: str = ""
    topology: Topology = Topology()  # noqa: RUF009 - immutable
    isolated_cpus: CpuSet = CpuSet()  # noqa: RUF009
    offline_cpus: CpuSet = CpuSet()  # noqa: RUF009
    steps_address: str = ""
    """Where steps of jobs there are asked for: unix:PATH or tcp:HOST:PORT; empty = nowhere."""

    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    memory_mechanism: str = ""
    gpu_model: str = ""
    """What all its GPUs are, in one word people use (V100); empty = not known, or unlike ones."""
    gpu_access: str = ""
    """How jobs are kept from the GPUs of others; empty = it has none, or its agent does not say."""

    packages: tuple[Zone, ...] = field(init=False, compare=False, repr=False)
    """The zones a policy chooses caps for. Derived, as are the sums: policies ask all the time."""
    package_floor_uw: int = field(init=False, compare=False, repr=False)
    """Sum of the floors of the packages."""
    package_max_uw: int = field(init=False, compare=False, repr=False)
    """Sum of the greatest caps of the packages."""
    kind: NodeKind = field(init=False, compare=False, repr=False)
    """What it has in common with others like it."""

    def __post_init__(self) -> None:
        packages = tuple(z for z in self.zones if z.kind is ZoneKind.PACKAGE and z.can_cap)
        object.__setattr__(self, "packages", packages)
        floor_uw = sum(z.floor_uw for z in packages)
        most_uw = sum(z.cap_uw_max for z in packages)
        object.__setattr__(self, "package_floor_uw", floor_uw)
        object.__setattr__(self, "package_max_uw", most_uw)
        gpus = [z for z in self.zones if z.kind is ZoneKind.GPU and z.can_cap]
        kind = NodeKind(
            cores=len(self.cpus),
            floor_uw=floor_uw,
            most_uw=most_uw,
            least_uw=sum(z.cap_uw_min for z in packages),
            curve=self.curve,
            gpus=len(self.gpus),
            gpu_floor_uw=min((z.floor_uw for z in gpus), default=0),
            gpu_most_uw=max((z.cap_uw_max for z in gpus), default=0),
            gpu_model=self.gpu_model,
        )
        object.__setattr__(self, "kind", interned(kind))

    @property
    def capacity(self) -> Amounts:
        """All there is of it for jobs."""
        return Amounts(cores=len(self.cpus), memory_bytes=self.memory_bytes, gpus=len(self.gpus))


def like(one: NodeSpec, other: NodeSpec) -> bool:
    """Whether two nodes differ in nothing that matters to jobs which ask for cores only."""
    return (
        len(one.cpus) == len(other.cpus)
        and one.zones == other.zones
        and one.base_power_uw == other.base_power_uw
        and one.curve == other.curve
    )


class NodeState(enum.Enum):
    """CONNECTING before the first contact and until admitted; SILENT while its lease may run."""

    CONNECTING = "connecting"
    UP = "up"
    SILENT = "silent"
    DOWN = "down"
    REFUSED = "refused"


class Duty(enum.Enum):
    """What its operators want of a node, and how far that has come.

    The first three are in service: leases, caps and jobs as ever, new jobs for SERVING only. A node
    that is RESTORING or LEFT is charged with its original limits, and nothing is sent to it that
    would take it in again. The last three were forgotten: they are outside the ledger.
    """

    SERVING = "serving"
    DRAINING = "draining"
    LEAVING = "leaving"
    """Draining; then it goes, once there is room for its original limits."""
    RESTORING = "restoring"
    """Told to put its original limits back; told again until it says that it has."""
    LEFT = "left"
    UNPOWERED = "no-power"
    """Forgotten: an operator says that it has no power."""
    OUTSIDE = "outside"
    """Forgotten: an operator says that what it draws is no part of this budget."""
    RETURNED = "returned"
    """Forgotten as without power, and heard of: it waits for an operator to resume it."""


IN_SERVICE = frozenset({Duty.SERVING, Duty.DRAINING, Duty.LEAVING})
GIVEN_BACK = frozenset({Duty.RESTORING, Duty.LEFT})
FORGOTTEN = frozenset({Duty.UNPOWERED, Duty.OUTSIDE, Duty.RETURNED})


@dataclass(slots=True, kw_only=True)
class Node:
    """State of a node. ``spec`` is None before the first contact.

    ``lease_until_ns`` is an upper bound, in coordinator time, of when the agent's lease ends.
    ``lease_reads`` whether the caps in the answer to a renewal are sure to be the newest.
    ``not_held_uw`` is what zones are charged with that draw more than their caps.
    ``read_uw`` are the caps last read of a node that is not admitted. ``foreign`` are the cores of
    processes the journal does not know. A ``retired`` node is not in the configuration any more
    and goes when nothing it was granted can still hold. ``original_uw`` are the most its zones may
    draw once their original limits are put back, as far as it is known. ``unleased``: it was told
    to put them back, and no lease has held since; the end of one lowers nothing. ``features`` are
    those the configuration of the coordinator adds to its agent's. ``lacking_bytes`` and
    ``lacking_gpus`` are what its jobs have of it and it came back without.
    """

    node_id: NodeId
    address: str
    state: NodeState = NodeState.CONNECTING
    spec: NodeSpec | None = None
    message: str = ""
    admitted: bool = False
    retired: bool = False
    reachable: bool = False
    caps_request: str = ""
    caps_retry_ns: int = 0
    lease_request: str = ""
    lease_next_ns: int = 0
    lease_reads: bool = False
    read_uw: dict[ZoneName, int] = field(default_factory=dict)
    lease_until_ns: int = 0
    leased: bool = False
    dead_zones: set[ZoneName] = field(default_factory=set)
    not_held_uw: dict[ZoneName, int] = field(default_factory=dict)
    foreign: dict[JobId, CpuSet] = field(default_factory=dict)
    duty: Duty = Duty.SERVING
    duty_reason: str = ""
    leave_from_ns: int = 0
    """A lost command may take a node in again until then that was told to leave before."""
    original_uw: dict[ZoneName, int] = field(default_factory=dict)
    unleased: bool = False
    features: tuple[str, ...] = ()
    lacking_bytes: int = 0
    lacking_gpus: tuple[str, ...] = ()

    @property
    def all_features(self) -> tuple[str, ...]:
        """Those of its agent and of the configuration, sorted; the model of its GPUs is one."""
        own = self.spec.features if self.spec else ()
        model = (self.spec.gpu_model,) if self.spec and self.spec.gpu_model else ()
        if not (own or model or self.features):
            return ()
        return tuple(sorted({*own, *model, *self.features}))

    @property
    def usable(self) -> bool:
        """Whether jobs may be there: it is in service and obeys."""
        return self._up and self.duty in IN_SERVICE

    @property
    def _up(self) -> bool:
        return self.state is NodeState.UP and self.admitted and self.spec is not None

    @property
    def takes_jobs(self) -> bool:
        """Whether new jobs may go there."""
        return self.duty is Duty.SERVING and self._up

    @property
    def gone(self) -> bool:
        """Whether nobody asks for it and nothing it was granted can still hold."""
        unknown = self.spec is None or not self.admitted
        return self.retired and not self.reachable and (unknown or self.state is NodeState.DOWN)

    @property
    def awaits_room(self) -> bool:
        """Whether it will be admitted once the other nodes have made room for it."""
        waits = self.reachable and not self.admitted and self.duty not in FORGOTTEN
        return waits and self.state is not NodeState.REFUSED
