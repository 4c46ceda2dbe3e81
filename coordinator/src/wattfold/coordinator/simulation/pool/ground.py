"""The nodes of a machine by their numbers: what of each is free, who is there, which are empty.

Costs go with the nodes that are touched. Cores are counted, not named. In the middle of an instant
more may be given away than there is, as a job that ends later in it still holds its part; `check`
looks at what was touched once it is over.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import repeat

from wattfold.coordinator.simulation.pool.errors import SimulationError
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine

Held = dict[int, int]
"""Cores by node."""
NOBODY = -1
"""Who holds all cores of a node that is out of use."""


class Ground:
    """Free cores of every node, and the empty ones of each class in order of their numbers."""

    def __init__(self, machine: NodeMachine) -> None:
        classes = machine.classes
        self.kind_of: list[int] = []
        self.free: list[int] = []
        for place, one in enumerate(classes):
            self.kind_of += repeat(place, one.count)
            self.free += repeat(one.cores, one.count)
        self.cores_of_kind = [one.cores for one in classes]
        self.on: list[dict[int, int]] = [{} for _ in self.free]
        """Cores by job of each node."""
        self.empty_of_kind = [one.count for one in classes]
        self._empty: list[list[int]] = [[] for _ in classes]
        """Heaps; a node in use that is still there is dropped when it comes up."""
        for node, place in enumerate(self.kind_of):
            self._empty[place].append(node)
        self._listed = bytearray(b"\1") * len(self.free)
        self._touched: set[int] = set()
        self.out: set[int] = set()
        """Nodes out of use: nobody is there but `NOBODY`, with all cores."""

    def __len__(self) -> int:
        return len(self.free)

    @property
    def busy(self) -> int:
        """Nodes with a job."""
        return len(self.free) - sum(self.empty_of_kind) - len(self.out)

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """The first so many empty nodes, of one class or all; fewer if there are not as many."""
        if kind is not None:
            return self._first(count, kind)
        found: list[int] = []
        for place in range(len(self._empty)):
            if len(found) < count:
                found += self._first(count - len(found), place)
        return found

    def occupy(self, job: int, held: Mapping[int, int]) -> None:
        """A job that has nothing on these nodes gets so many cores of each."""
        free, on, empty, kind_of = self.free, self.on, self.empty_of_kind, self.kind_of
        for node, cores in held.items():
            here = on[node]
            if not here:
                empty[kind_of[node]] -= 1
            here[job] = cores
            free[node] -= cores
        self._touched.update(held)

    def vacate(self, job: int, held: Mapping[int, int]) -> None:
        """A job gives back all that it has of these nodes."""
        free, on, listed, kind_of = self.free, self.on, self._listed, self.kind_of
        empty, heaps, push = self.empty_of_kind, self._empty, heapq.heappush
        for node, cores in held.items():
            free[node] += cores
            here = on[node]
            del here[job]
            if not here:
                kind = kind_of[node]
                empty[kind] += 1
                if not listed[node]:
                    listed[node] = 1
                    push(heaps[kind], node)

    def alter(self, job: int, node: int, cores: int) -> None:
        """A job on a node has another number of cores there, above zero."""
        here = self.on[node]
        self.free[node] -= cores - here[job]
        here[job] = cores
        self._touched.add(node)

    def take_out(self, nodes: Iterable[int]) -> None:
        """These nodes, from which all jobs are gone or go in this instant, are out of use."""
        new = [node for node in nodes if node not in self.out]
        self.occupy(NOBODY, {node: self.cores_of_kind[self.kind_of[node]] for node in new})
        self.out.update(new)

    def bring_back(self, nodes: Iterable[int]) -> None:
        """These nodes are in use again."""
        back = [node for node in nodes if node in self.out]
        self.vacate(NOBODY, {node: self.on[node][NOBODY] for node in back})
        self.out.difference_update(back)

    def check(self) -> None:
        """The end of an instant. Raises SimulationError where a node is overfull."""
        free = self.free
        for node in self._touched:
            if free[node] < 0:
                what = "is out of use and" if node in self.out else "has"
                cores = self.cores_of_kind[self.kind_of[node]]
                held = sum(count for job, count in self.on[node].items() if job != NOBODY)
                raise SimulationError(f"node {node} {what} {cores} cores, of which {held} are held")
        self._touched.clear()

    def known(self, nodes: Iterable[int]) -> bool:
        """Whether all of these are numbers of nodes."""
        return min(nodes, default=0) >= 0 and max(nodes, default=0) < len(self.free)

    def draw(self, count: int, kind: int) -> list[int]:
        """The first so many empty nodes of a class, which are to be occupied at once."""
        heap, on, listed = self._empty[kind], self.on, self._listed
        found: list[int] = []
        while heap and len(found) < count:
            node = heapq.heappop(heap)
            listed[node] = 0
            if not on[node]:
                found.append(node)
        return found

    def _first(self, count: int, kind: int) -> list[int]:
        found = self.draw(count, kind)
        for node in found:
            self._listed[node] = 1
            heapq.heappush(self._empty[kind], node)
        return found
