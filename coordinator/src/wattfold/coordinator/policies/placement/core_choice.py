"""Choice of cores on a node by socket, NUMA node and whole physical core.

Rules, in this order:

1. As few cores move as possible: a shrinking job keeps some of its cores, a growing job keeps all.
2. SMT siblings of a core go to different jobs only if there is no other space.
3. Cores with measured residual work of the last owner come after clean cores.
4. A job stays in its socket. A new job goes to a socket in which it fits, preferably without other
   jobs, then to the socket with the best fit. The same rule applies within a socket to NUMA nodes,
   and to cores. A job that is too large for any socket takes the largest parts, in whole tasks.
5. Ties go to the lowest CPU.

This is the node manager of the slowdown-driven policy (D'Amico, Jokanovic, Corbalan, ICPP 2019,
Listing 3: jobs in separate sockets, cores balanced over tasks), for any policy that shares nodes.
This module knows neither power nor other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import Topology

_NONE = CpuSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Requested size of a job on a node. ``held`` are its current cores; empty for a new job."""

    job: JobId
    size: int
    held: CpuSet = _NONE
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCores:
    """The cores of a node as input for the choice.

    ``avoid`` are free cores with measured residual work.
    """

    topology: Topology
    avoid: CpuSet = _NONE


def distribute(wants: Sequence[Want], usable: CpuSet, node: NodeCores) -> dict[JobId, CpuSet]:
    """Return disjoint cores for all jobs of a node; shrinking jobs first, then by growth.

    ``usable`` holds the cores of the jobs and the free cores. If too few are left for a job, it
    gets the remaining cores.
    """
    ordered = sorted(wants, key=lambda w: (not w.held, _order(w)))
    free = usable
    for want in wants:
        free = free - want.held
    given: dict[JobId, CpuSet] = {}
    for want in ordered:
        if want.size <= len(want.held):
            given[want.job] = keep(want.size, want.held, free, node, want.tasks)
            free = free | (want.held - given[want.job])
        else:
            more = min(want.size - len(want.held), len(free))
            given[want.job] = want.held | choose(more, free, want.held, node, want.tasks)
            free = free - given[want.job]
    return given


def keep(count: int, held: CpuSet, free: CpuSet, node: NodeCores, tasks: int = 1) -> CpuSet:
    """Return the cores that a shrinking job keeps; ``free`` are the cores without a job."""
    return _chosen(count, held, _NONE, _taken(node, free | held), node, tasks)


def choose(count: int, free: CpuSet, mine: CpuSet, node: NodeCores, tasks: int = 1) -> CpuSet:
    """Return cores of ``free`` for a job that has ``mine``. Raises ValueError for too few."""
    if not 0 <= count <= len(free):
        raise ValueError(f"cannot take {count} of {len(free)} CPUs")
    return _chosen(count, free, mine, _taken(node, free | mine), node, tasks)


def _taken(node: NodeCores, not_taken: CpuSet) -> CpuSet:
    """Return the cores of other jobs and the unusable cores."""
    return _union(node.topology.cores) - not_taken


def _order(want: Want) -> int:
    growth = want.size - len(want.held)
    # New jobs: the largest goes first because it is the hardest to place well.
    return growth if want.held else -growth


def _chosen(
    count: int, free: CpuSet, mine: CpuSet, others: CpuSet, node: NodeCores, tasks: int
) -> CpuSet:
    if count == len(free):
        return free
    if node.topology.flat and free.isdisjoint(node.avoid):
        return free.take(count)
    shared = CpuSet.of(c for g in node.topology.cores if not g.isdisjoint(others) for c in g)
    alone = free - shared
    chosen = _NONE
    for tier in (alone - node.avoid, alone & node.avoid, free & shared):
        part = min(count - len(chosen), len(tier))
        fill = _Fill(topology=node.topology, mine=mine | chosen, others=others)
        chosen = chosen | fill.take(part, tier, _task_sizes(part, tasks))
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    topology: Topology
    mine: CpuSet
    others: CpuSet

    def take(self, count: int, free: CpuSet, tasks: tuple[int, ...]) -> CpuSet:
        levels = (self.topology.packages, self.topology.numa_nodes, self.topology.cores)
        return self._level(count, free, levels, tasks)

    def _level(
        self,
        count: int,
        free: CpuSet,
        levels: tuple[tuple[CpuSet, ...], ...],
        tasks: tuple[int, ...],
    ) -> CpuSet:
        """Return ``count`` of ``free``, by the groups of the first level; ``tasks`` sum to it."""
        if not levels or count in (0, len(free)):
            return free.take(count)
        rest = free - _union(levels[0])
        groups = [g for g in (*levels[0], rest) if not g.isdisjoint(free)]
        chosen = _NONE
        while len(chosen) < count:
            left = count - len(chosen)
            best = min(groups, key=lambda g: self._rank(g, free, left))
            groups.remove(best)
            room = best & free
            inside = _fitting(tasks, len(room))
            if not inside or left - sum(inside) > sum(len(g & free) for g in groups):
                # A task must be split, so the remaining tasks are treated as one group of cores.
                part = min(left, len(room))
                inside, tasks = (part,), (left - part,)
            else:
                tasks = tasks[len(inside) :]
            chosen = chosen | self._level(sum(inside), room, levels[1:], inside)
        return chosen

    def _rank(self, group: CpuSet, free: CpuSet, count: int) -> tuple[int, bool, bool, int, int]:
        room = len(group & free)
        fits = room >= count
        return (
            -len(group & self.mine),
            not fits,
            not group.isdisjoint(self.others),
            room if fits else -room,
            min(group.cpus),
        )


def _task_sizes(count: int, tasks: int) -> tuple[int, ...]:
    """Return the number of cores of each task; the numbers differ by at most one."""
    small, larger = divmod(count, max(1, tasks))
    sizes = (small + (task < larger) for task in range(max(1, tasks)))
    return tuple(size for size in sizes if size)


def _fitting(tasks: tuple[int, ...], room: int) -> tuple[int, ...]:
    """Return the first tasks, as many as fit."""
    end = 0
    while end < len(tasks) and sum(tasks[: end + 1]) <= room:
        end += 1
    return tasks[:end]


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(frozenset().union(*(s.cpus for s in sets)))
