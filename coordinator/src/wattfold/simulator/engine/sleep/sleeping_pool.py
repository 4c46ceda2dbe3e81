"""Simulation of a pool whose nodes sleep: the engine, with the state of the nodes beside it.

Schedulers are told the power that boots and nodes falling asleep leave to them, and the new starts
of jobs that wait for boots. At the end of each instant the decision of `driver.sleep_plan` follows
theirs. If nodes that fall asleep still take power of the plan, caps are scaled until they sleep, as
the core raises caps only into free power.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.policies.port import Decision
from wattfold.simulator.engine.counted import CountedHoldings
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.running import RunningJobs
from wattfold.simulator.engine.sleep.sleeping import SleepingNodes


class SleepingPool(PoolSimulation):
    """A run with sleeping nodes, which must be counted. Its budget is constant."""

    def __init__(self, *arguments: Any, sleep: SleepingNodes, **options: Any) -> None:
        self._sleep = sleep
        self._told_uw = -1
        self._seen = 0
        """Number of submitted jobs that the learnt arrivals contain."""
        super().__init__(*arguments, **options)
        holdings = self._holdings
        assert isinstance(holdings, CountedHoldings), "only counted nodes sleep"
        assert isinstance(self._running, RunningJobs), "only counted nodes sleep"
        self._counted: RunningJobs = self._running
        holdings.unscaled = sleep.waiting
        holdings.jobs.unscaled_uw = holdings.scaled
        self._renew()

    def record(self) -> RunRecord:
        """Return the record of the run so far, with its boots."""
        return super().record().with_sleep(self._sleep.counts)

    def _renew(self) -> None:
        """Note the state of the nodes, which stays until the next instant."""
        sleep, running = self._sleep, self._counted
        self._beside_uw, self._asleep_uw = sleep.charge_uw(running), sleep.drawn_uw(running)
        self._own_ns = sleep.next_ns(self._now_ns)

    def _pass_time(self, now_ns: int) -> None:
        self._sleep.pass_time(now_ns - self._now_ns)
        super()._pass_time(now_ns)

    def _instant(self, now_ns: int, *, revisits: bool) -> None:
        changed = self._sleep.advance(now_ns, self._counted)
        self._inform(now_ns)
        if changed and self.scheduler.each_event:
            # A boot that has ended leaves power.
            self._apply(self.scheduler.decide(now_ns), now_ns)
        super()._instant(now_ns, revisits=revisits)

    def _ended(self, job: int, now_ns: int) -> None:
        self._sleep.see(job, 0, now_ns, self._counted)
        super()._ended(job, now_ns)
        self._inform(now_ns)

    def _apply(self, decision: Decision, now_ns: int) -> bool:
        again = super()._apply(decision, now_ns)
        running, known = self._counted, self._sleep.size
        sizes = {job: running.size[job] if job in running.jobs else 0 for job in decision.jobs}
        # Nodes are given back before others take them, in the order of the plan.
        for job in sorted(sizes, key=lambda one: sizes[one] >= known.get(one, 0)):
            self._sleep.see(job, sizes[job], now_ns, running)
        return again

    def _settle(self, now_ns: int) -> None:
        sleep = self._sleep
        while self._seen < self._next:
            sleep.arrivals.add(now_ns, int(self.table.size_min[self._order[self._seen]]))
            self._seen += 1
        sleep.queued = self._next - self.ended - len(self._counted.jobs)
        sleep.decide(self._budget_uw - self._idle_uw, now_ns, self._counted)
        self._inform(now_ns)
        self._renew()
        super()._settle(now_ns)
        sleep.counts.awake.append(sleep.nodes - sleep.asleep_count)

    def _spendable_uw(self) -> int:
        return max(super()._spendable_uw() - self._sleep.needed_uw(self._counted), 0)

    def _inform(self, now_ns: int) -> None:
        """Report new starts of waiting jobs, and the power that booting nodes leave."""
        for job in self._sleep.take_moved():
            if job in self._counted.jobs:
                self.scheduler.change(job, now_ns)
        spendable_uw = self._spendable_uw()
        if spendable_uw != self._told_uw:
            self._told_uw = spendable_uw
            self.scheduler.site(self._holdings.site(spendable_uw))
