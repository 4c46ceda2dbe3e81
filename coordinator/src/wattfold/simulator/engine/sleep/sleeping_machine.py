"""Simulation by node whose nodes sleep: the engine, with the state of the service beside it.

The scheduler decides with the same state (`sleeping_scheduler`). At the end of each instant, nodes
are ordered to fall asleep and to boot. If nodes that fall asleep still take power of the plan, or
the next boot lacks power, caps are scaled, as the core does.
"""

from __future__ import annotations

from typing import Any

from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.sleep.site_state import SiteState


class SleepingMachine(PoolSimulation):
    """A run with sleeping nodes by node. Its budget is constant."""

    def __init__(self, *arguments: Any, nodes: SiteState, **options: Any) -> None:
        self._nodes = nodes
        super().__init__(*arguments, **options)

    def record(self) -> RunRecord:
        """Return the record of the run so far, with its boots."""
        return super().record().with_sleep(self._nodes.counts)

    def _pass_time(self, now_ns: int) -> None:
        self._nodes.pass_time(now_ns - self._now_ns)
        super()._pass_time(now_ns)

    def _settle(self, now_ns: int) -> None:
        nodes = self._nodes
        while True:
            self._fit(nodes.reserve_uw(), now_ns)
            if not nodes.order(now_ns, self._running.committed_uw):
                break
        least_uw = nodes.charge_uw()
        fits = self._idle_uw + nodes.reserve_uw() + self._running.committed_uw <= self._budget_uw
        self._beside_uw = nodes.reserve_uw() if fits else least_uw
        self._asleep_uw = nodes.drawn_uw()
        super()._settle(now_ns)
        nodes.counts.awake.append(len(nodes.nodes) - nodes.asleep_count)
        self._beside_uw = least_uw
        self._own_ns = nodes.next_ns(now_ns)

    def _fit(self, beside_uw: int, now_ns: int) -> None:
        """Lower caps for the power of nodes beside that of jobs."""
        if self._idle_uw + beside_uw + self._running.committed_uw > self._budget_uw:
            self._holdings.fit(self._budget_uw - self._idle_uw - beside_uw, now_ns)
