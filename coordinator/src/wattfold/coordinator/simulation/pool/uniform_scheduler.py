"""EASY on a pool whose nodes all have the one cap that feeds them all: `policies.easy_uniform`.

The level is the greatest at which every node of the pool is fed; where not even the least cap does
that, as many nodes as it feeds are used. When the budget changes, jobs that run follow the level,
and are expected to end as if they had run at it from their start.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattfold.coordinator.policies.easy import EasyScheduler
from wattfold.coordinator.policies.easy_uniform import greatest_level_uw
from wattfold.coordinator.policies.scheduler import Decision, Held, Site
from wattfold.coordinator.simulation.pool.machine import Machine


def uniform_cap_uw(machine: Machine, nodes: int, spendable_uw: int) -> int:
    """The package cap of every one of so many nodes, microwatts; at least the least there is."""
    level_uw = greatest_level_uw([(machine.kind, 1, nodes)], spendable_uw)
    return max(level_uw, machine.cap_uw_min)


class UniformScheduler(EasyScheduler):
    """`EasyScheduler` at a cap that follows what there is to spend. Counted nodes only."""

    name = "easy-uniform"

    def __init__(self, machine: Machine, *, size: str = "max", kills_at_limit: bool = True) -> None:
        super().__init__(size=size, kills_at_limit=kills_at_limit)
        self._machine = machine
        self._moves = False
        """Whether the cap has changed since the last decision."""

    def site(self, site: Site) -> None:
        """Nodes and power from now on, and the cap of all of them."""
        cap_uw = uniform_cap_uw(self._machine, site.count, site.spendable_uw)
        if cap_uw != self.cap_uw:
            self.cap_uw, self._moves = cap_uw, True
            self._queue = None
        super().site(site)

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """The jobs that start, after a change of the cap also those that run at another."""
        moved: list[Decision] = []
        if self._moves:
            self._moves = False
            helds = [(job, self._held(job)) for job in sorted(self._running)]
            moved = [(job, held.size, held.cap_uw) for job, held in helds if held]
        return [*moved, *super().decide(now_ns)]

    def _held(self, job: int) -> Held | None:
        """Running jobs are at the cap, or get it with the decision that is being made."""
        held = super()._held(job)
        if held is None or self.cap_uw is None:
            return held
        return held._replace(cap_uw=self.cap_uw)
