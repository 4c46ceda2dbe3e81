"""Memory, GPUs and features: what units of jobs ask of nodes beside cores.

They go with the units: a node on which a job has cores for two of them gives it the memory and the
GPUs of two, from its first core there to its last, however its cores change. Nothing is looked at
for jobs that ask for none of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.coordinator.policies.node_parts import Request
from wattfold.coordinator.simulation.pool.errors import SimulationError
from wattfold.coordinator.simulation.pool.jobs import JobTable, UnitColumns
from wattfold.coordinator.simulation.pool.node_machine import NodeClass, NodeMachine

WHOLE = Request()
"""A whole node, and nothing else."""


def request_of(units: UnitColumns | None, job: int) -> Request:
    """What each unit of a job asks for."""
    if units is None:
        return WHOLE
    return Request(
        int(units.cores[job]),
        int(units.memory_bytes[job]),
        int(units.gpus[job]),
        units.features[job],
    )


def units_on(one: NodeClass, request: Request) -> int:
    """How many units of such a job an empty node of a class can hold, 0 if it does not suit."""
    if not set(request.features) <= set(one.features):
        return 0
    count = one.cores // request.cores if request.cores else 1
    if request.memory_bytes:
        count = min(count, one.memory_bytes // request.memory_bytes)
    if request.gpus:
        count = min(count, one.gpus // request.gpus)
    return count


class Stocks:
    """Free memory and GPUs of every node, kept if any job of the table asks for them."""

    def __init__(self, table: JobTable, machine: NodeMachine) -> None:
        units = table.units
        self._classes = machine.classes
        self._requests = [request_of(units, job) for job in range(len(table))] if units else []
        asks = any(request.memory_bytes or request.gpus for request in self._requests)
        self._bytes = [
            o.memory_bytes for o in machine.classes for _ in range(o.count if asks else 0)
        ]
        self._gpus = [o.gpus for o in machine.classes for _ in range(o.count if asks else 0)]
        self.kept = asks
        """Whether any job asks for memory or GPUs."""
        self._touched: set[int] = set()

    def request(self, job: int) -> Request:
        """What each unit of a job asks for."""
        return self._requests[job] if self._requests else WHOLE

    def suits(self, job: int, kind: int) -> bool:
        """Whether an empty node of a class can hold a unit of a job."""
        return not self._requests or units_on(self._classes[kind], self._requests[job]) > 0

    def has(self, job: int, node: int) -> bool:
        """Whether memory and GPUs for one unit of a job are free."""
        if not self.kept:
            return True
        request = self._requests[job]
        return self._bytes[node] >= request.memory_bytes and self._gpus[node] >= request.gpus

    def take(self, job: int, units: Iterable[tuple[int, int]]) -> None:
        """Units of a job come to nodes, or leave them (below zero). Only where `kept`."""
        request = self._requests[job]
        if request.memory_bytes or request.gpus:
            for node, count in units:
                self._bytes[node] -= count * request.memory_bytes
                self._gpus[node] -= count * request.gpus
                self._touched.add(node)

    def check(self) -> None:
        """The end of an instant. Raises SimulationError where more is held than there is."""
        for node in self._touched:
            if self._bytes[node] < 0 or self._gpus[node] < 0:
                raise SimulationError(
                    f"jobs on node {node} hold {-self._bytes[node]} bytes or "
                    f"{-self._gpus[node]} GPUs more than it has"
                )
        self._touched.clear()
