"""Jobs and nodes of a simulation for schedulers that decide by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.policies.backfill.node_parts import NodeJobInformation, UnitRequest
from wattfold.simulator.engine.machines.node_cores import FreeNodeCores, Held
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.machines.stocks import Stocks
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.part_running import PartRunning
from wattfold.simulator.engine.running_jobs.table_jobs import TableJobs


class NodeTableJobs(TableJobs, NodeJobInformation):
    """Jobs by their position in the table, nodes by their numbers."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        running: PartRunning,
        node_cores: FreeNodeCores,
        stocks: Stocks,
        held: Mapping[int, Held],
    ) -> None:
        super().__init__(table, running)
        self._kinds = tuple(one.kind for one in machine.classes)
        self._node_cores, self._stocks, self._parts = node_cores, stocks, held

    @property
    def kinds(self) -> Sequence[NodeKind]:
        """Classes of nodes."""
        return self._kinds

    def kind_of(self, node: int) -> int:
        """Return the class of a node, as an index of `kinds`."""
        return self._node_cores.kind_of[node]

    def request(self, job: int) -> UnitRequest:
        """Return the request of each unit of a job."""
        return self._stocks.request(job)

    def suits(self, job: int, kind: int) -> bool:
        """Whether an empty node of a class can hold a unit of a job."""
        return self._stocks.suits(job, kind)

    def parts(self, job: int) -> Mapping[int, int]:
        """Return the cores of a running job by node; empty if this instant placed it by count."""
        return self._parts[job]

    def free_cores(self, node: int) -> int:
        """Return the number of free cores of a node."""
        return self._node_cores.free[node]

    def out_of_use(self) -> frozenset[int]:
        """Nodes in a current window."""
        return frozenset(self._node_cores.out)

    def has_room(self, job: int, node: int, cores: int) -> bool:
        """Whether a node has these free cores and the other resources for a unit of the job."""
        ground, stocks = self._node_cores, self._stocks
        if ground.free[node] < cores or not stocks.suits(job, ground.kind_of[node]):
            return False
        return stocks.has(job, node)

    def empty_count(self, kind: int | None = None) -> int:
        """Return the number of nodes without a job, of one class or all."""
        counts = self._node_cores.empty_of_kind
        return sum(counts) if kind is None else counts[kind]

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """Return the first ``count`` nodes without a job, or all of them; it reserves nothing."""
        return self._node_cores.empty(count, kind)
