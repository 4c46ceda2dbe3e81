"""Which CPUs of a node belong together: sockets, NUMA nodes, and the SMT siblings of one core.

A value type only: reading it is the agent's business, choosing cores by it the coordinator's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlace:
    """Where a CPU is. ``siblings`` are all CPUs of its physical core, itself included."""

    cpu: int
    package: int
    numa_node: int
    siblings: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The CPUs of a node in groups, each kind disjoint and in the order of the lowest CPU.

    Empty where nothing is known of the node; a CPU that is in no group stands alone.
    """

    packages: tuple[CpuSet, ...] = ()
    numa_nodes: tuple[CpuSet, ...] = ()
    cores: tuple[CpuSet, ...] = ()

    @classmethod
    def of(cls, places: Iterable[CpuPlace]) -> Topology:
        """The groups of these CPUs; siblings that are not among the places are left out."""
        known = {place.cpu: place for place in places}
        return cls(
            packages=_groups((p.package, cpu) for cpu, p in known.items()),
            numa_nodes=_groups((p.numa_node, cpu) for cpu, p in known.items()),
            cores=_groups((min((*p.siblings, cpu)), cpu) for cpu, p in known.items()),
        )

    @property
    def flat(self) -> bool:
        """Whether any set of CPUs is as good as any other of the same size."""
        return (
            len(self.packages) <= 1
            and len(self.numa_nodes) <= 1
            and all(len(core) == 1 for core in self.cores)
        )

    @property
    def smt(self) -> int:
        """The most CPUs that share a core; 1 where nothing is known."""
        return max((len(core) for core in self.cores), default=1)


def _groups(keyed: Iterable[tuple[Hashable, int]]) -> tuple[CpuSet, ...]:
    found: dict[Hashable, set[int]] = {}
    for key, cpu in keyed:
        found.setdefault(key, set()).add(cpu)
    return tuple(sorted((CpuSet.of(cpus) for cpus in found.values()), key=lambda g: min(g.cpus)))
