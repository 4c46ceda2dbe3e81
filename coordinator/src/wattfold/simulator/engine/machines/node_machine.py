"""Machine of several classes of numbered nodes, each class with its own resources.

Nodes are numbered from 0, class after class. Powers are in microwatts and have the meaning of those
in `Machine`; `core.charge` divides the power of a node among its jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Unpack

from wattfold.contract.units import NS_PER_S, uw_from_w, w_from_uw
from wattfold.coordinator.core.model.node import NodeKind, Zone, ZoneKind, interned
from wattfold.coordinator.core.power.charge import gpu_cap_uw, gpu_zone, share_uw
from wattfold.coordinator.policies.port import Site
from wattfold.simulator.engine.machines.class_boots import ClassBoots
from wattfold.simulator.engine.machines.machine import (
    UNLIMITED_UW,
    Machine,
    NodePowers,
    Watts,
    uw_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatts:
    """GPU model of a node, and the limits and idle power of each GPU; 0 W = unknown."""

    model: str = ""
    min_w: float = 0.0
    max_w: float = 0.0
    idle_w: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass(NodePowers):
    """A number of identical nodes."""

    name: str
    count: int
    cores: int
    memory_bytes: int = 0
    """Memory available to jobs in total; 0 = unknown: jobs that request memory cannot run there."""
    gpus: int = 0
    features: tuple[str, ...] = ()
    gpu_model: str = ""
    """Model of all its GPUs; empty = unknown."""
    gpu_uw_min: int = 0
    gpu_uw_max: int = 0
    """Range of the limits of each GPU; 0 = GPU power is unknown and not counted."""
    gpu_idle_uw: int = 0
    """Power of each unused GPU."""

    def __post_init__(self) -> None:
        where = f"class {self.name!r}"
        if self.count < 1 or self.cores < 1:
            raise ValueError(
                f"{where} needs at least one node of one core, got {self.count} of {self.cores}"
            )
        self.check_powers(f"{where}: ")
        if self.memory_bytes < 0 or self.gpus < 0:
            raise ValueError(f"{where}: memory and GPUs must not be negative")
        self._check_gpus(where)

    def _check_gpus(self, where: str) -> None:
        if not self.gpus and (self.gpu_model or self.gpu_uw_max):
            raise ValueError(f"{where} has settings for GPUs but no GPUs")
        powers = self.gpu_uw_min, self.gpu_uw_max, self.gpu_idle_uw
        if any(powers) and not (
            0 < self.gpu_uw_min <= self.gpu_uw_max and 0 <= self.gpu_idle_uw <= self.gpu_uw_max
        ):
            least_w, most_w, idle_w = (w_from_uw(one) for one in powers)
            raise ValueError(
                f"{where}: limits of a GPU need 0 < min <= max, and an idle GPU draws at "
                f"most max; got {least_w:g} and {most_w:g} W, idle {idle_w:g} W"
            )

    @classmethod
    def of_watts(
        cls,
        name: str,
        count: int,
        cores: int,
        *,
        memory_bytes: int = 0,
        gpus: int = 0,
        features: tuple[str, ...] = (),
        gpu: GpuWatts | None = None,
        **watts: Unpack[Watts],
    ) -> NodeClass:
        """Return a class from powers in watts; by default an idle node is charged at its floor."""
        powers_uw = uw_of(**watts)
        gpu = gpu or GpuWatts()
        return cls(
            name=name,
            count=count,
            cores=cores,
            memory_bytes=memory_bytes,
            gpus=gpus,
            features=features,
            gpu_model=gpu.model,
            gpu_uw_min=uw_from_w(gpu.min_w),
            gpu_uw_max=uw_from_w(gpu.max_w),
            gpu_idle_uw=uw_from_w(gpu.idle_w),
            **powers_uw,
        )

    @property
    def gpus_uw(self) -> int:
        """Charge of all its GPUs when unused: their minimum limits."""
        return self.gpus * self.gpu_uw_min

    @property
    def unused_uw(self) -> int:
        """Power of a node without a job."""
        return self.idle_uw + self.gpus * self.gpu_idle_uw

    @property
    def kind(self) -> NodeKind:
        """Kind of its nodes."""
        return _kind(self)

    def above_idle_uw(self, cap_uw: int) -> int:
        """Return the power at a cap of a node with jobs on all cores, above the idle charge."""
        return self.base_uw + self.dram_uw + min(cap_uw, self.cap_uw_max) - self.idle_uw

    def part_uw(self, cores: int, cap_uw: int, gpus: int = 0, gpu_uw: int = 0) -> int:
        """Return the power that a job on these cores at a level adds to the charge of an idle node.

        Packages cannot be capped below their floor, so lower levels count as the floor. ``gpu_uw``
        is the level of each of its ``gpus``, 0 = the maximum.
        """
        cores_uw = share_uw(self.kind, cores, max(cap_uw, self.cap_uw_min))
        return cores_uw + gpus * (self.gpu_held_uw(gpu_uw) - self.gpu_uw_min)

    def gpu_held_uw(self, gpu_uw: int) -> int:
        """Return the actual limit of a job's GPU at a level; ``gpu_uw`` 0 = without a level."""
        return gpu_cap_uw(_gpu_zone(self), gpu_uw) if self.gpu_uw_max else 0

    def gpu_zone(self, gpu: str) -> Zone:
        """Return the zone of the GPU with this ID, as an agent would report it."""
        return replace(_gpu_zone(self), name=gpu_zone(gpu))


@lru_cache(maxsize=256)
def _kind(node_class: NodeClass) -> NodeKind:
    kind = node_class.kind_of(node_class.cores)
    if not node_class.gpus:
        return kind
    return interned(
        replace(
            kind,
            gpus=node_class.gpus,
            gpu_floor_uw=node_class.gpu_uw_min,
            gpu_most_uw=node_class.gpu_uw_max,
            gpu_model=node_class.gpu_model,
        )
    )


@lru_cache(maxsize=256)
def _gpu_zone(node_class: NodeClass) -> Zone:
    return Zone(
        name=gpu_zone("0"),
        kind=ZoneKind.GPU,
        cap_uw_min=node_class.gpu_uw_min,
        cap_uw_max=node_class.gpu_uw_max,
        floor_uw=node_class.gpu_uw_min,
        window_ns=NS_PER_S,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageWindow:
    """Nodes of a class that are out of use for a time, counted from the first submission.

    The window covers ``count`` nodes of the class from number ``first`` on. Jobs there at its start
    are requeued.
    """

    class_name: str
    start_ns: int
    end_ns: int
    first: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.start_ns < self.end_ns:
            raise ValueError(
                f"a window on {self.class_name!r} goes from {self.start_ns / 1e9:g} s to "
                f"{self.end_ns / 1e9:g} s"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMachine:
    """Classes of nodes under one budget."""

    classes: tuple[NodeClass, ...]
    memory_mb: float = 2048.0
    """Data of a job per node of its minimum size, moved by a change of its number of nodes."""
    link_mb_per_s: float = 425.0
    windows: tuple[OutageWindow, ...] = ()
    boots: tuple[ClassBoots, ...] = ()
    """Boots of classes that boot in another way than the other nodes, if nodes sleep."""

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError("a machine needs at least one class of nodes")
        names = [one.name for one in self.classes]
        if len(set(names)) < len(names):
            raise ValueError(f"classes of nodes need unique names, got {', '.join(names)}")
        counts = {one.name: one.count for one in self.classes}
        booted = [one.class_name for one in self.boots]
        for name in booted:
            if name not in counts or booted.count(name) > 1:
                raise ValueError(f"boots of class {name!r}, which does not exist or has them twice")
        for window in self.windows:
            most = counts.get(window.class_name, 0)
            if window.first < 0 or window.count < 1 or window.first + window.count > most:
                raise ValueError(
                    f"a window is on nodes {window.first} to {window.first + window.count - 1} of "
                    f"class {window.class_name!r}, which has {most}"
                )

    @classmethod
    def of_counted(cls, machine: Machine, cores: int = 1) -> NodeMachine:
        """Return the nodes of a counted pool by number, with ``cores`` cores each."""
        only = NodeClass(
            name="node",
            count=machine.nodes,
            cores=cores,
            base_uw=machine.base_uw,
            dram_uw=machine.dram_uw,
            cap_uw_min=machine.cap_uw_min,
            cap_uw_max=machine.cap_uw_max,
            idle_uw=machine.idle_uw,
        )
        return cls(
            classes=(only,), memory_mb=machine.memory_mb, link_mb_per_s=machine.link_mb_per_s
        )

    @property
    def nodes(self) -> int:
        """Number of nodes of all classes."""
        return sum(one.count for one in self.classes)

    @property
    def cores(self) -> int:
        """Number of cores of all classes."""
        return sum(one.count * one.cores for one in self.classes)

    @property
    def grain(self) -> int:
        """LCM of the cores per node of all classes; the unit for shares of a node."""
        return math.lcm(*(one.cores for one in self.classes))

    def site(self, spendable_uw: int) -> Site:
        """Return the site, as for counted nodes; without a kind if the classes differ.

        Its maximum power is unlimited, because budgets may rise again.
        """
        kind = self.classes[0].kind if len(self.classes) == 1 else None
        return Site(count=self.nodes, spendable_uw=spendable_uw, kind=kind, most_uw=UNLIMITED_UW)

    def nodes_fed(self, spare_uw: int) -> int:
        """Return how many nodes ``spare_uw`` raises from idle to maximum cap, cheapest first."""
        fed = 0
        each = [(one.above_idle_uw(one.cap_uw_max), one) for one in self.classes]
        for each_uw, one in sorted(each, key=lambda node_class: node_class[0]):
            more = min(one.count, max(spare_uw, 0) // each_uw) if each_uw else one.count
            fed, spare_uw = fed + more, spare_uw - more * each_uw
        return fed

    @property
    def counted(self) -> Machine | None:
        """The same nodes as a counted pool; None if they are not one plain class."""
        only = self.classes[0]
        if len(self.classes) > 1 or self.windows or only.gpu_uw_max:
            return None
        return Machine(
            nodes=only.count,
            base_uw=only.base_uw,
            dram_uw=only.dram_uw,
            cap_uw_min=only.cap_uw_min,
            cap_uw_max=only.cap_uw_max,
            idle_uw=only.idle_uw,
            memory_mb=self.memory_mb,
            link_mb_per_s=self.link_mb_per_s,
        )

    def data_mb(self, size_min: int) -> float:
        """Return the data of a job: it fills the memory of its minimum size."""
        return self.memory_mb * size_min

    @property
    def idle_total_uw(self) -> int:
        """Charge of all nodes without any job."""
        return sum(one.count * (one.idle_uw + one.gpus_uw) for one in self.classes)

    @property
    def unused_total_uw(self) -> int:
        """Power of all nodes without any job."""
        return sum(one.count * one.unused_uw for one in self.classes)

    @property
    def full_uw(self) -> int:
        """Charge of all nodes at their maximum caps: a budget that never binds."""
        return sum(
            one.count * (one.busy_uw(one.cap_uw_max) + one.gpus * one.gpu_uw_max)
            for one in self.classes
        )
