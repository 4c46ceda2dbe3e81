"""EASY on a pool whose nodes all have the one cap that feeds them all: `policies.easy_uniform`.

The level is the greatest at which every node of the pool is fed; where not even the least cap does
that, as many nodes as it feeds are used. When the budget changes, jobs that run follow the level;
estimates stay those of the level at the start.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.easy_uniform import greatest_level_uw
from wattfold.coordinator.simulation.pool.backfill_scheduler import BackfillScheduler
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.scheduler import Decision


def uniform_cap_uw(machine: Machine, nodes: int, spendable_uw: int) -> int:
    """The package cap of every one of so many nodes, microwatts; at least the least there is."""
    level_uw = greatest_level_uw([(machine.kind, 1, nodes)], spendable_uw)
    return max(level_uw, machine.cap_uw_min)


class UniformScheduler(BackfillScheduler):
    """`BackfillScheduler` with EASY at a cap that follows what there is to spend."""

    def __init__(
        self,
        table: JobTable,
        machine: Machine,
        *,
        spendable_uw: int,
        size: str = "max",
        kills_at_limit: bool = True,
    ) -> None:
        super().__init__(
            table,
            machine,
            method="easy",
            cap_uw=uniform_cap_uw(machine, machine.nodes, spendable_uw),
            size=size,
            kills_at_limit=kills_at_limit,
        )
        self._machine = machine
        self._runs: dict[int, int] = {}
        """Cap of every running job."""

    @property
    def name(self) -> str:
        """``easy-uniform``."""
        return "easy-uniform"

    def resources(self, nodes: int, spendable_uw: int) -> None:
        """Nodes that can be fed, and the cap of all of them."""
        self.cap_uw = uniform_cap_uw(self._machine, nodes, spendable_uw)
        self._dynamic_uw = self._machine.dynamic_uw(self.cap_uw)
        super().resources(nodes, spendable_uw)

    def end(self, job: int, now_ns: int) -> None:
        """A job has ended."""
        super().end(job, now_ns)
        self._runs.pop(job, None)

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """The jobs that start, and those that run at another cap than the present one."""
        cap_uw = self.cap_uw
        moved = [(job, self._size[job], cap_uw) for job, has in self._runs.items() if has != cap_uw]
        started = super().decide(now_ns)
        for job, _, _ in (*moved, *started):
            self._runs[job] = cap_uw
        return [*moved, *started]
