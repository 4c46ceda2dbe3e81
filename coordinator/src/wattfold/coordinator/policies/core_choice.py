"""Which cores of a node its jobs get: by socket, NUMA node and whole physical core.

Rules, in this order:

1. As few cores move as possible: a job that shrinks keeps cores it has, one that grows keeps all.
2. SMT siblings of one core go to different jobs only where there is no other room.
3. Cores somebody was measured to run on (residual work of the last owner) come after clean ones.
4. A job stays in the socket it is in; a new one goes to a socket that it fits in, one without
   other jobs before others, then the one that it fills best. The same within a socket for NUMA
   nodes, and for cores. A job too large for any socket takes the largest parts, in whole tasks.
5. Ties go to the lowest CPU.

This is the node manager of the slowdown-driven policy (D'Amico, Jokanovic, Corbalan, ICPP 2019,
Listing 3: jobs in separate sockets, cores balanced over tasks), for any policy that shares nodes.
Nothing here knows of power or of more than one node.
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
    """What a job is to have on a node. ``held`` are its cores now; none for a new job."""

    job: JobId
    size: int
    held: CpuSet = _NONE
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCores:
    """The cores of a node as seen by who chooses among them.

    ``avoid`` are cores that are free but on which residual work was measured.
    """

    topology: Topology
    avoid: CpuSet = _NONE


def distribute(wants: Sequence[Want], usable: CpuSet, node: NodeCores) -> dict[JobId, CpuSet]:
    """Disjoint cores for all jobs of a node; first those that shrink, then by growth.

    ``usable`` holds what the jobs have and what is free. A job for which there is not enough left
    gets what there is.
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
    """The cores a job keeps when it shrinks; ``free`` are those that no job has."""
    return _chosen(count, held, _NONE, _taken(node, free | held), node, tasks)


def choose(count: int, free: CpuSet, mine: CpuSet, node: NodeCores, tasks: int = 1) -> CpuSet:
    """Cores out of ``free`` for a job that has ``mine``. Raises ValueError if there are too few."""
    if not 0 <= count <= len(free):
        raise ValueError(f"cannot take {count} of {len(free)} CPUs")
    return _chosen(count, free, mine, _taken(node, free | mine), node, tasks)


def _taken(node: NodeCores, not_taken: CpuSet) -> CpuSet:
    """Cores that other jobs have, or that nobody may have."""
    return _union(node.topology.cores) - not_taken


def _order(want: Want) -> int:
    growth = want.size - len(want.held)
    # New jobs: the largest first, it is the hardest to place well.
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
        """``count`` of ``free``, by the groups of the first level; ``tasks`` add up to it."""
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
                # A task has to be split: what follows is one heap of cores.
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
    """Cores of each task; they differ by one at most."""
    small, larger = divmod(count, max(1, tasks))
    sizes = (small + (task < larger) for task in range(max(1, tasks)))
    return tuple(size for size in sizes if size)


def _fitting(tasks: tuple[int, ...], room: int) -> tuple[int, ...]:
    """The first tasks, as many as fit."""
    end = 0
    while end < len(tasks) and sum(tasks[: end + 1]) <= room:
        end += 1
    return tasks[:end]


def _union(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(frozenset().union(*(s.cpus for s in sets)))
