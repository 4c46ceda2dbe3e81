"""Groups of CPUs of a node: sockets, NUMA nodes, and the SMT siblings of one core.

This is only a value type. The agent reads it, and the coordinator chooses cores with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Location of a CPU. ``siblings`` are all CPUs of its physical core, including itself."""

    cpu: int
    package: int
    numa_node: int
    siblings: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """CPUs of a node in groups, each kind disjoint and in the order of the lowest CPU.

    All groups are empty if the node is unknown. A CPU without a group counts as a group of its own.
    """

    packages: tuple[CpuSet, ...] = ()
    numa_nodes: tuple[CpuSet, ...] = ()
    cores: tuple[CpuSet, ...] = ()

    @classmethod
    def of(cls, places: Iterable[CpuPlace]) -> Topology:
        """Return the groups of these CPUs; siblings that are not among the places are left out."""
        known = {place.cpu: place for place in places}
        return cls(
            packages=_groups((p.package, cpu) for cpu, p in known.items()),
            numa_nodes=_groups((p.numa_node, cpu) for cpu, p in known.items()),
            cores=_groups((min((*p.siblings, cpu)), cpu) for cpu, p in known.items()),
        )

    @property
    def flat(self) -> bool:
        """Whether all sets of CPUs of the same size are equivalent."""
        return (
            len(self.packages) <= 1
            and len(self.numa_nodes) <= 1
            and all(len(core) == 1 for core in self.cores)
        )

    @property
    def smt(self) -> int:
        """Maximum number of CPUs that share a core; 1 if unknown."""
        return max((len(core) for core in self.cores), default=1)


def _groups(keyed: Iterable[tuple[Hashable, int]]) -> tuple[CpuSet, ...]:
    found: dict[Hashable, set[int]] = {}
    for key, cpu in keyed:
        found.setdefault(key, set()).add(cpu)
    return tuple(sorted((CpuSet.of(cpus) for cpus in found.values()), key=lambda g: min(g.cpus)))
