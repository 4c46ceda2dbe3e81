"""Nodes of a machine by their numbers: free cores, jobs, and empty nodes.

The cost of a call depends only on the nodes that it touches. Cores are counted, not named. Within
an instant, a node may be overfull while a job that ends later in the instant still holds its part.
`check` examines the touched nodes at the end of the instant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from itertools import repeat

from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.machines.node_machine import NodeMachine

Held = dict[int, int]
"""Cores by node."""
NOBODY = -1
"""Holder of all cores of a node that is out of use."""


class FreeNodeCores:
    """Free cores of every node, and the empty nodes of each class in order of their numbers."""

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
        """Heaps of empty nodes; an entry of a node in use is dropped when it is popped."""
        for node, place in enumerate(self.kind_of):
            self._empty[place].append(node)
        self._listed = bytearray(b"\1") * len(self.free)
        self._touched: set[int] = set()
        self.out: set[int] = set()
        """Nodes out of use. `NOBODY` holds all of their cores."""

    def __len__(self) -> int:
        return len(self.free)

    @property
    def busy(self) -> int:
        """Number of nodes with a job."""
        return len(self.free) - sum(self.empty_of_kind) - len(self.out)

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """Return the first ``count`` empty nodes, of one class or all; fewer if there are fewer."""
        if kind is not None:
            return self._first(count, kind)
        found: list[int] = []
        for place in range(len(self._empty)):
            if len(found) < count:
                found += self._first(count - len(found), place)
        return found

    def occupy(self, job: int, held: Mapping[int, int]) -> None:
        """Give a job cores of nodes on which it has none yet."""
        free, on, empty, kind_of = self.free, self.on, self.empty_of_kind, self.kind_of
        for node, cores in held.items():
            here = on[node]
            if not here:
                empty[kind_of[node]] -= 1
            here[job] = cores
            free[node] -= cores
        self._touched.update(held)

    def vacate(self, job: int, held: Mapping[int, int]) -> None:
        """Free all cores of a job on these nodes."""
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
        """Change the cores of a job on a node to another number above zero."""
        here = self.on[node]
        self.free[node] -= cores - here[job]
        here[job] = cores
        self._touched.add(node)

    def take_out(self, nodes: Iterable[int]) -> None:
        """Take nodes out of use; all their jobs have left or leave in this instant."""
        new = [node for node in nodes if node not in self.out]
        self.occupy(NOBODY, {node: self.cores_of_kind[self.kind_of[node]] for node in new})
        self.out.update(new)

    def bring_back(self, nodes: Iterable[int]) -> None:
        """Return nodes to use."""
        back = [node for node in nodes if node in self.out]
        self.vacate(NOBODY, {node: self.on[node][NOBODY] for node in back})
        self.out.difference_update(back)

    def check(self) -> None:
        """Check the touched nodes at the end of an instant.

        Raises SimulationError for an overfull node.
        """
        free = self.free
        for node in self._touched:
            if free[node] < 0:
                what = "is out of use and" if node in self.out else "has"
                cores = self.cores_of_kind[self.kind_of[node]]
                held = sum(count for job, count in self.on[node].items() if job != NOBODY)
                raise SimulationError(f"node {node} {what} {cores} cores, of which {held} are held")
        self._touched.clear()

    def known(self, nodes: Iterable[int]) -> bool:
        """Whether all of these are numbers of existing nodes."""
        return min(nodes, default=0) >= 0 and max(nodes, default=0) < len(self.free)

    def draw(self, count: int, kind: int) -> list[int]:
        """Return the first ``count`` empty nodes of a class, which the caller must occupy."""
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
