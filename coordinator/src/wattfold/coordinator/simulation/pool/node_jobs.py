"""The jobs and nodes of a simulation as a scheduler asks for them that decides by nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.policies.node_parts import NodeJobs, Request
from wattfold.coordinator.simulation.pool.ground import Ground, Held
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.part_running import PartRunning
from wattfold.coordinator.simulation.pool.stocks import Stocks
from wattfold.coordinator.simulation.pool.table_jobs import TableJobs


class NodeTableJobs(TableJobs, NodeJobs):
    """Jobs by their position in the table, nodes by their numbers."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        running: PartRunning,
        ground: Ground,
        stocks: Stocks,
        held: Mapping[int, Held],
    ) -> None:
        super().__init__(table, running)
        self._kinds = tuple(one.kind for one in machine.classes)
        self._ground, self._stocks, self._parts = ground, stocks, held

    @property
    def kinds(self) -> Sequence[NodeKind]:
        """The classes of nodes."""
        return self._kinds

    def kind_of(self, node: int) -> int:
        """The class of a node, by its place in `kinds`."""
        return self._ground.kind_of[node]

    def request(self, job: int) -> Request:
        """What each of its units asks for."""
        return self._stocks.request(job)

    def suits(self, job: int, kind: int) -> bool:
        """Whether an empty node of a class has all that one of its units asks for."""
        return self._stocks.suits(job, kind)

    def parts(self, job: int) -> Mapping[int, int]:
        """Cores of a running job by node; of a job placed in this instant by count none yet."""
        return self._parts[job]

    def free_cores(self, node: int) -> int:
        """Cores of a node that nobody has."""
        return self._ground.free[node]

    def out_of_use(self) -> frozenset[int]:
        """Nodes that are in a window now."""
        return frozenset(self._ground.out)

    def has_room(self, job: int, node: int, cores: int) -> bool:
        """Whether so many cores of a node are free, and what a unit of the job asks beside them."""
        ground, stocks = self._ground, self._stocks
        if ground.free[node] < cores or not stocks.suits(job, ground.kind_of[node]):
            return False
        return stocks.has(job, node)

    def empty_count(self, kind: int | None = None) -> int:
        """Nodes, of one class or all, without a job."""
        counts = self._ground.empty_of_kind
        return sum(counts) if kind is None else counts[kind]

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """The first so many nodes without a job, or as many as there are; nothing is taken."""
        return self._ground.empty(count, kind)
