"""Nodes: the facts that agents report (NodeSpec) and the state in the core (Node)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.contract.topology import Topology
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.amounts import Amounts
from wattfold.coordinator.core.model.node_power import PowerOrder, PowerState


class ZoneKind(enum.Enum):
    """Role of a power zone."""

    PACKAGE = "package"
    DRAM = "dram"
    PSYS = "psys"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A power zone of a node, with powers in microwatts.

    If the zone cannot be capped, ``cap_uw_max`` is its maximum power.
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
    """Common properties of identical nodes: cores, range of caps, power curve and GPUs.

    ``floor_uw`` is the part of a level that idle nodes are charged as well. It may be negative: an
    idle node is then charged less than a job's node without its packages. ``least_uw`` is the
    minimum cap of the packages; 0 = not needed.
    """

    cores: int
    floor_uw: int
    most_uw: int
    least_uw: int = 0
    curve: Curve | None = None
    gpus: int = 0
    gpu_floor_uw: int = 0
    """Minimum floor and maximum limit of its GPUs; 0 = no GPU can be capped."""
    gpu_most_uw: int = 0
    gpu_model: str = ""
    lowest_uw: int = field(init=False, compare=False, repr=False)
    """Lowest level of a node with a job."""

    def __post_init__(self) -> None:
        lowest_uw = max(self.floor_uw, self.least_uw) if self.least_uw else self.floor_uw
        object.__setattr__(self, "lowest_uw", lowest_uw)

    def __hash__(self) -> int:
        # Policies use it as a key many times per round. Curves seldom differ, so they are left out.
        return hash((self.cores, self.floor_uw, self.most_uw))


@lru_cache(maxsize=1024)
def interned(kind: NodeKind) -> NodeKind:
    """Return one object for all equal kinds, so that kinds can be compared by identity."""
    return kind


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """Facts that an agent reports about its node. ``zones`` are charged to the budget.

    ``isolated_cpus`` and ``offline_cpus`` belong to the host and are not offered to jobs.
    ``memory_bytes`` is the memory for all jobs together, 0 = unknown. ``gpus`` are IDs.
    ``memory_mechanism`` enforces the memory limits of jobs, empty = they are not enforced.
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
    """Address for step requests of jobs: unix:PATH or tcp:HOST:PORT; empty = no steps."""

    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    memory_mechanism: str = ""
    gpu_model: str = ""
    """Model of all its GPUs in one word (V100); empty = unknown, or different models."""
    gpu_access: str = ""
    """Mechanism that denies jobs access to GPUs of other jobs; empty = no GPUs, or not reported."""

    packages: tuple[Zone, ...] = field(init=False, compare=False, repr=False)
    """Zones for which policies choose caps. Derived once, like the sums, for speed."""
    package_floor_uw: int = field(init=False, compare=False, repr=False)
    """Sum of the floors of the packages."""
    package_max_uw: int = field(init=False, compare=False, repr=False)
    """Sum of the maximum caps of the packages."""
    kind: NodeKind = field(init=False, compare=False, repr=False)
    """Common properties with identical nodes."""

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
        """Total amounts for jobs."""
        return Amounts(cores=len(self.cpus), memory_bytes=self.memory_bytes, gpus=len(self.gpus))


def like(spec: NodeSpec, other: NodeSpec) -> bool:
    """Whether two nodes are identical for jobs that request only cores."""
    return (
        len(spec.cpus) == len(other.cpus)
        and spec.zones == other.zones
        and spec.base_power_uw == other.base_power_uw
        and spec.curve == other.curve
    )


class NodeState(enum.Enum):
    """Contact with a node. CONNECTING: not yet admitted. SILENT: its lease may still run."""

    CONNECTING = "connecting"
    UP = "up"
    SILENT = "silent"
    DOWN = "down"
    REFUSED = "refused"


class Duty(enum.Enum):
    """Administrative state: the orders of operators for a node, and their progress.

    The first three states are in service: leases and caps continue, but only SERVING accepts new
    jobs. A node that is RESTORING or LEFT is charged with its original limits. It is sent nothing
    that would return it to service. The last three states are removed nodes outside the ledger.
    """

    SERVING = "serving"
    DRAINING = "draining"
    LEAVING = "leaving"
    """Draining. The node leaves as soon as the budget has room for its original limits."""
    RESTORING = "restoring"
    """Ordered to restore its original limits. The order is repeated until the node confirms."""
    LEFT = "left"
    UNPOWERED = "no-power"
    """Removed: an operator states that the node has no power."""
    OUTSIDE = "outside"
    """Removed: an operator states that its power is not part of this budget."""
    RETURNED = "returned"
    """Removed as without power, but it answered again: it waits until an operator resumes it."""


IN_SERVICE = frozenset({Duty.SERVING, Duty.DRAINING, Duty.LEAVING})
GIVEN_BACK = frozenset({Duty.RESTORING, Duty.LEFT})
FORGOTTEN = frozenset({Duty.UNPOWERED, Duty.OUTSIDE, Duty.RETURNED})


@dataclass(slots=True, kw_only=True)
class Node:
    """State of a node. ``spec`` is None before the first contact.

    ``lease_until_ns`` is an upper bound of the end of the agent's lease, in coordinator time.
    ``lease_reads``: the caps in the answer to a renewal are certainly the newest. ``not_held_uw``
    is the charge of zones that draw more than their caps. ``read_uw`` are the last read caps of a
    node that is not admitted. ``foreign`` are the cores of processes that the journal does not
    know.

    A ``retired`` node is not in the configuration any more. It is deleted once nothing granted to
    it can still hold. ``original_uw`` is the maximum power of its zones under their restored
    original limits, as far as it is known. ``unleased``: the node was ordered to restore them, or
    this may be missing in the journal, and it has had no lease since. So the end of a lease lowers
    nothing. ``features`` are added by the configuration of the coordinator. ``lacking_bytes`` and
    ``lacking_gpus`` are amounts that its jobs hold, but that were missing when it came back.
    ``fault`` is why the node cannot start processes, as its agent reports. Until the fault is over
    the node accepts no new jobs.
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
    """Time until which a lost command may return the node to service after an earlier leave."""
    original_uw: dict[ZoneName, int] = field(default_factory=dict)
    unleased: bool = False
    features: tuple[str, ...] = ()
    lacking_bytes: int = 0
    lacking_gpus: tuple[str, ...] = ()
    fault: str = ""
    power: PowerState = PowerState.AWAKE
    dark: bool = False
    """Whether its account is one amount without zones: no agent limits what it draws."""
    power_since_ns: int = 0
    """Begin of the current suspension or boot."""
    power_request: str = ""
    power_retry_ns: int = 0
    wakes_next: bool = False
    """Whether it was ordered to wake while it fell asleep."""
    boots: int = 0
    failed_boots: int = 0
    boot_took_ns: int = 0
    """Time of its last boot, until its agent reported; 0 = not known."""
    boot_failed: bool = False
    """Whether its last boot failed. Plans do not use it until an operator orders it to wake."""
    booted_ns: tuple[int, ...] = ()
    """Begins of its last boots, as many as are limited in a day."""
    awake_since_ns: int = 0
    """End of its last boot."""
    power_order: PowerOrder = PowerOrder.NONE
    rising_uw: int = 0
    """Power that its caps may not get yet, because of the ramp limit."""
    adopted: dict[JobId, AdoptedJob] = field(default_factory=dict)
    """Running jobs of another owner, as its agent reported them last."""

    @property
    def all_features(self) -> tuple[str, ...]:
        """Return the features of agent and configuration and the GPU model, sorted."""
        own = self.spec.features if self.spec else ()
        model = (self.spec.gpu_model,) if self.spec and self.spec.gpu_model else ()
        if not (own or model or self.features):
            return ()
        return tuple(sorted({*own, *model, *self.features}))

    @property
    def usable(self) -> bool:
        """Whether jobs may be there: the node is in service, admitted and up."""
        return self._up and self.duty in IN_SERVICE

    @property
    def _up(self) -> bool:
        return self.state is NodeState.UP and self.admitted and self.spec is not None

    @property
    def takes_jobs(self) -> bool:
        """Whether new jobs may start there."""
        awake = self.power is PowerState.AWAKE
        return self.duty is Duty.SERVING and awake and not self.fault and self._up

    @property
    def closed(self) -> str:
        """Return why a node in service accepts no new jobs, as a text."""
        if self.duty is Duty.SERVING and self.fault:
            return f"cannot start jobs: {self.fault}"
        if self.duty is Duty.SERVING and self.power is not PowerState.AWAKE:
            return f"is {self.power.value}"
        return f"is {self.duty.value}"

    @property
    def gone(self) -> bool:
        """Whether it is retired and nothing that was granted to it can still hold."""
        unknown = self.spec is None or not self.admitted
        return self.retired and not self.reachable and (unknown or self.state is NodeState.DOWN)

    @property
    def awaits_room(self) -> bool:
        """Whether it will be admitted once the other nodes have made room in the budget."""
        waits = self.reachable and not self.admitted and self.duty not in FORGOTTEN
        return waits and self.state is not NodeState.REFUSED
