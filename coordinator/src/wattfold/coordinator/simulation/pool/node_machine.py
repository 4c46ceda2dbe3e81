"""A machine whose nodes are told apart: several classes of them, each with what one of them has.

Nodes are numbered from 0, class after class. Powers are microwatts and mean what they do in
`Machine`; which part of a node's is whose job's is told by `core.charge`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Unpack

from wattfold.contract.units import NS_PER_S, uw_from_w, w_from_uw
from wattfold.coordinator.core.charge import gpu_cap_uw, gpu_zone, share_uw
from wattfold.coordinator.core.node import NodeKind, Zone, ZoneKind, interned
from wattfold.coordinator.policies.scheduler import Site
from wattfold.coordinator.simulation.pool.machine import (
    UNLIMITED_UW,
    Machine,
    NodePowers,
    Watts,
    uw_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWatts:
    """What the GPUs of a node are, and the limits and the idle draw of one; 0 W = not known."""

    model: str = ""
    min_w: float = 0.0
    max_w: float = 0.0
    idle_w: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass(NodePowers):
    """So many like nodes."""

    name: str
    count: int
    cores: int
    memory_bytes: int = 0
    """What jobs may use together; 0 = not known: jobs that ask for memory do not go there."""
    gpus: int = 0
    features: tuple[str, ...] = ()
    gpu_model: str = ""
    """What all its GPUs are; empty = not known."""
    gpu_uw_min: int = 0
    gpu_uw_max: int = 0
    """Range of the limits of each of its GPUs; 0 = what they draw is not known, and not counted."""
    gpu_idle_uw: int = 0
    """What one of its GPUs draws that nobody has."""

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
        """A class in watts; an idle node is charged like one at its floor unless said."""
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
        """What its GPUs are charged where nobody has them: their least limits."""
        return self.gpus * self.gpu_uw_min

    @property
    def unused_uw(self) -> int:
        """What a node without a job draws."""
        return self.idle_uw + self.gpus * self.gpu_idle_uw

    @property
    def kind(self) -> NodeKind:
        """One of its nodes."""
        return _kind(self)

    def above_idle_uw(self, cap_uw: int) -> int:
        """What a node with jobs on all cores draws at a cap beyond what an idle one is charged."""
        return self.base_uw + self.dram_uw + min(cap_uw, self.cap_uw_max) - self.idle_uw

    def part_uw(self, cores: int, cap_uw: int, gpus: int = 0, gpu_uw: int = 0) -> int:
        """What a job on so many cores at a level adds to the charge of an idle node.

        Packages cannot be held below their floor, so lower levels count as that. ``gpu_uw`` is the
        level of each of its ``gpus``, 0 = the greatest.
        """
        cores_uw = share_uw(self.kind, cores, max(cap_uw, self.cap_uw_min))
        return cores_uw + gpus * (self.gpu_held_uw(gpu_uw) - self.gpu_uw_min)

    def gpu_held_uw(self, gpu_uw: int) -> int:
        """The limit that the GPU of a job really has at a level, 0 = at none."""
        return gpu_cap_uw(_gpu_zone(self), gpu_uw) if self.gpu_uw_max else 0

    def gpu_zone(self, gpu: str) -> Zone:
        """The zone of the GPU of this id, as an agent would tell of it."""
        return replace(_gpu_zone(self), name=gpu_zone(gpu))


@lru_cache(maxsize=256)
def _kind(one: NodeClass) -> NodeKind:
    kind = one.kind_of(one.cores)
    if not one.gpus:
        return kind
    return interned(
        replace(
            kind,
            gpus=one.gpus,
            gpu_floor_uw=one.gpu_uw_min,
            gpu_most_uw=one.gpu_uw_max,
            gpu_model=one.gpu_model,
        )
    )


@lru_cache(maxsize=256)
def _gpu_zone(one: NodeClass) -> Zone:
    return Zone(
        name=gpu_zone("0"),
        kind=ZoneKind.GPU,
        cap_uw_min=one.gpu_uw_min,
        cap_uw_max=one.gpu_uw_max,
        floor_uw=one.gpu_uw_min,
        window_ns=NS_PER_S,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Nodes of a class that are out of use for a time, counted from the first submission.

    They are the first ``count`` of it after ``first``; jobs that are there when it begins are
    requeued.
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
    """Data of a job's least node, which a change of the number of its nodes moves."""
    link_mb_per_s: float = 425.0
    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError("a machine needs at least one class of nodes")
        names = [one.name for one in self.classes]
        if len(set(names)) < len(names):
            raise ValueError(f"classes of nodes need unique names, got {', '.join(names)}")
        counts = {one.name: one.count for one in self.classes}
        for window in self.windows:
            most = counts.get(window.class_name, 0)
            if window.first < 0 or window.count < 1 or window.first + window.count > most:
                raise ValueError(
                    f"a window is on nodes {window.first} to {window.first + window.count - 1} of "
                    f"class {window.class_name!r}, which has {most}"
                )

    @classmethod
    def of_counted(cls, machine: Machine, cores: int = 1) -> NodeMachine:
        """The nodes of a pool that counts them, by number and of so many cores each."""
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
        """Nodes of all classes."""
        return sum(one.count for one in self.classes)

    @property
    def cores(self) -> int:
        """Cores of all classes."""
        return sum(one.count * one.cores for one in self.classes)

    @property
    def grain(self) -> int:
        """A number that the cores of every class divide: shares of a node count in it."""
        return math.lcm(*(one.cores for one in self.classes))

    def site(self, spendable_uw: int) -> Site:
        """As counted nodes; without a kind where they differ. Budgets may rise again."""
        kind = self.classes[0].kind if len(self.classes) == 1 else None
        return Site(count=self.nodes, spendable_uw=spendable_uw, kind=kind, most_uw=UNLIMITED_UW)

    @property
    def floors_uw(self) -> int:
        """Charge of all nodes at their least caps: what the service charges without any job."""
        return sum(one.count * (one.busy_uw(one.cap_uw_min) + one.gpus_uw) for one in self.classes)

    def nodes_fed(self, spare_uw: int) -> int:
        """Nodes that a power above the floors feeds at their greatest caps, the frugal first."""
        fed = 0
        for one in sorted(self.classes, key=lambda one: one.cap_uw_max - one.cap_uw_min):
            each_uw = one.cap_uw_max - one.cap_uw_min
            more = min(one.count, max(spare_uw, 0) // each_uw) if each_uw else one.count
            fed, spare_uw = fed + more, spare_uw - more * each_uw
        return fed

    @property
    def counted(self) -> Machine | None:
        """The same nodes as a pool that counts them, where there is one class."""
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
        """Data of a job: it fills the memory of its least size."""
        return self.memory_mb * size_min

    @property
    def idle_total_uw(self) -> int:
        """Charge of all nodes without any job."""
        return sum(one.count * (one.idle_uw + one.gpus_uw) for one in self.classes)

    @property
    def unused_total_uw(self) -> int:
        """What all nodes draw without any job."""
        return sum(one.count * one.unused_uw for one in self.classes)

    @property
    def full_uw(self) -> int:
        """Charge of all nodes at their greatest caps: a budget that never binds."""
        return sum(
            one.count * (one.busy_uw(one.cap_uw_max) + one.gpus * one.gpu_uw_max)
            for one in self.classes
        )
