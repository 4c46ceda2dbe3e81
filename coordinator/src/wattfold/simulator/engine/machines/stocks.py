"""Memory, GPUs and features that units of jobs request in addition to cores.

These resources belong to the units. If a job has cores for two units on a node, it holds the memory
and the GPUs of two units there from its first to its last core, however its cores change. Jobs
without such requests cost no time.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.coordinator.policies.backfill.node_parts import UnitRequest
from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable, UnitColumns

WHOLE = UnitRequest()
"""A whole node without other requests."""


def request_of(units: UnitColumns | None, job: int) -> UnitRequest:
    """Return the request of each unit of a job."""
    if units is None:
        return WHOLE
    return UnitRequest(
        int(units.cores[job]),
        int(units.memory_bytes[job]),
        int(units.gpus[job]),
        units.features[job],
    )


def units_on(node_class: NodeClass, request: UnitRequest) -> int:
    """Return the number of such units that an empty node of a class holds, 0 if unsuitable."""
    if not set(request.features) <= set(node_class.features):
        return 0
    count = node_class.cores // request.cores if request.cores else 1
    if request.memory_bytes:
        count = min(count, node_class.memory_bytes // request.memory_bytes)
    if request.gpus:
        count = min(count, node_class.gpus // request.gpus)
    return count


class Stocks:
    """Free memory and GPUs of every node, tracked only if a job of the table requests them."""

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
        """Whether any job requests memory or GPUs."""
        self._touched: set[int] = set()

    def request(self, job: int) -> UnitRequest:
        """Return the request of each unit of a job."""
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
        """Add units of a job to nodes, or remove them (negative counts). Only if `kept`."""
        request = self._requests[job]
        if request.memory_bytes or request.gpus:
            for node, count in units:
                self._bytes[node] -= count * request.memory_bytes
                self._gpus[node] -= count * request.gpus
                self._touched.add(node)

    def check(self) -> None:
        """Check the touched nodes at the end of an instant. Raises SimulationError for overuse."""
        for node in self._touched:
            if self._bytes[node] < 0 or self._gpus[node] < 0:
                raise SimulationError(
                    f"jobs on node {node} hold {-self._bytes[node]} bytes or "
                    f"{-self._gpus[node]} GPUs more than it has"
                )
        self._touched.clear()
