"""A machine whose nodes are told apart: several classes of them, each with what one of them has.

Nodes are numbered from 0, class after class. Powers are microwatts and mean what they do in
`Machine`; which part of a node's is whose job's is told by `core.charge`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

from wattfold.coordinator.core.charge import share_uw
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.policies.scheduler import Site
from wattfold.coordinator.simulation.pool.machine import (
    UNLIMITED_UW,
    Machine,
    NodePowers,
    Watts,
    uw_of,
)


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

    def __post_init__(self) -> None:
        where = f"class {self.name!r}"
        if self.count < 1 or self.cores < 1:
            raise ValueError(
                f"{where} needs at least one node of one core, got {self.count} of {self.cores}"
            )
        self.check_powers(f"{where}: ")
        if self.memory_bytes < 0 or self.gpus < 0:
            raise ValueError(f"{where}: memory and GPUs are not below zero")

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
        **watts: Unpack[Watts],
    ) -> NodeClass:
        """A class in watts; an idle node is charged like one at its floor unless said."""
        powers_uw = uw_of(**watts)
        return cls(
            name=name,
            count=count,
            cores=cores,
            memory_bytes=memory_bytes,
            gpus=gpus,
            features=features,
            **powers_uw,
        )

    @property
    def kind(self) -> NodeKind:
        """One of its nodes."""
        return self.kind_of(self.cores)

    def above_idle_uw(self, cap_uw: int) -> int:
        """What a node with jobs on all cores draws at a cap beyond what an idle one is charged."""
        return self.base_uw + self.dram_uw + min(cap_uw, self.cap_uw_max) - self.idle_uw

    def part_uw(self, cores: int, cap_uw: int) -> int:
        """What a job on so many cores at a level adds to the charge of an idle node.

        Packages cannot be held below their floor, so lower levels count as that.
        """
        return share_uw(self.kind, cores, max(cap_uw, self.cap_uw_min))


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
            raise ValueError(f"classes of nodes need names of their own, got {', '.join(names)}")
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
        return sum(one.count * one.busy_uw(one.cap_uw_min) for one in self.classes)

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
        if len(self.classes) > 1 or self.windows:
            return None
        only = self.classes[0]
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
        return sum(one.count * one.idle_uw for one in self.classes)

    @property
    def full_uw(self) -> int:
        """Charge of all nodes at their greatest caps: a budget that never binds."""
        return sum(one.count * one.busy_uw(one.cap_uw_max) for one in self.classes)
