"""EASY on a pool whose nodes all have the highest cap that fits: `policies.easy_uniform`.

The cap is the highest at which the power suffices for every node of the pool. If it does not
suffice even at the minimum cap, only as many nodes as possible are used. When the budget changes,
running jobs get the new cap. Their expected ends assume that they had it from their start.
"""

from __future__ import annotations

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.port import Change, Decision, Held, Site
from wattfold.coordinator.policies.resources.uniform_level import greatest_level_uw
from wattfold.simulator.engine.machines.machine import Machine


def uniform_cap_uw(machine: Machine, nodes: int, spendable_uw: int) -> int:
    """Return the common package cap for ``nodes`` nodes, in microwatts; at least the minimum."""
    level_uw = greatest_level_uw([(machine.kind, 1, nodes)], spendable_uw)
    return max(level_uw, machine.cap_uw_min)


class UniformScheduler(EasyScheduler):
    """`EasyScheduler` with a cap that follows the spendable power. Counted nodes only."""

    name = "easy-uniform"

    def __init__(self, machine: Machine, *, size: str = "max", kills_at_limit: bool = True) -> None:
        super().__init__(size=size, kills_at_limit=kills_at_limit)
        self._machine = machine
        self._moves = False
        """Whether the cap has changed since the last decision."""

    def site(self, site: Site) -> None:
        """Set nodes and power from now on, and the cap of all nodes."""
        cap_uw = uniform_cap_uw(self._machine, site.count, site.spendable_uw)
        if cap_uw != self.cap_uw:
            self.cap_uw, self._moves = cap_uw, True
            self._queue = None
        super().site(site)

    def decide(self, now_ns: int) -> Decision:
        """Return the starts, and after a change of the cap also the new caps of running jobs."""
        if not self._moves:
            return super().decide(now_ns)
        self._moves = False
        helds = [(job, self._held(job)) for job in sorted(self._running)]
        moved = [Change(job, held.size, held.cap_uw) for job, held in helds if held]
        return Decision([*moved, *super().decide(now_ns).changes])

    def _held(self, job: int) -> Held | None:
        """Return a running job's resources with the common cap, which this decision may set."""
        held = super()._held(job)
        if held is None or self.cap_uw is None:
            return held
        return held._replace(cap_uw=self.cap_uw)
