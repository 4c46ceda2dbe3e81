"""Simulation of a pool under a ramp limit: a job starts at once, and its caps rise step by step.

The limit and the division of a permitted rise are those of the core (`core.power.ramp`). A job
starts at the floor of its nodes, which costs no power above that of idle nodes. Between two steps
nothing is decided: schedulers know the caps that they chose.
"""

from __future__ import annotations

from typing import Any

from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.core.power.ramp import Division, Ramp
from wattfold.coordinator.policies.port import Decision
from wattfold.simulator.engine.counted import CountedHoldings
from wattfold.simulator.engine.engine import NEVER, PoolSimulation
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.running import RunningJobs


class RampedPool(PoolSimulation):
    """A run whose committed power rises within limits. Nodes are counted, the budget is constant.

    Raises ValueError for a pool that cannot keep the limits.
    """

    def __init__(self, *arguments: Any, ramp: RampLimits, **options: Any) -> None:
        super().__init__(*arguments, **options)
        holdings, machine = self._holdings, self.machine
        if not self.budget.is_constant:
            raise ValueError("--rise-limit needs a constant budget; give --budget with one value")
        assert isinstance(holdings, CountedHoldings), "counted nodes"
        assert isinstance(machine, Machine), "counted nodes"
        assert isinstance(self._running, RunningJobs), "counted nodes"
        if machine.idle_total_uw < machine.nodes * machine.busy_uw(machine.cap_uw_min):
            raise ValueError(
                "a ramp limit needs idle nodes that are charged with their floors, as the service "
                "does, because a job starts at the floors; leave out --idle"
            )
        self._counted: RunningJobs = self._running
        self._floor_uw = machine.cap_uw_min
        self._rising: dict[int, int] = {}
        """Decided caps of the jobs whose caps still rise."""
        holdings.jobs.unscaled_uw = self._rising
        self._ramp = Ramp()
        self._ramp.limit(ramp, self._idle_uw, self._now_ns)

    def _instant(self, now_ns: int, *, revisits: bool) -> None:
        self._ramp.pass_time(now_ns)
        if self._own_ns == now_ns and not revisits and not self._anything_else(now_ns):
            self._settle(now_ns)
        else:
            super()._instant(now_ns, revisits=revisits)

    def _anything_else(self, now_ns: int) -> bool:
        end_ns = self._counted.next_end_ns()
        times = (self._submit_ns[self._next], self._steps[self._step][0])
        return min(times) <= now_ns or (end_ns is not None and end_ns <= now_ns)

    def _apply(self, decision: Decision, now_ns: int) -> bool:
        running = self._counted
        before_uw = {job: self._job_uw(job) for job in decision.jobs if job in running.jobs}
        again = super()._apply(decision, now_ns)
        for job in decision.jobs:
            self._rising.pop(job, None)
            if job not in running.jobs:
                continue
            size, cap_uw, beside_uw = running.size[job], running.cap_uw[job], running.beside_uw[job]
            had_uw = before_uw.get(job, 0) // size - beside_uw
            begin_uw = max(min(had_uw, cap_uw), min(self._floor_uw, cap_uw))
            if begin_uw < cap_uw:
                self._rising[job] = cap_uw
                running.change(job, size, begin_uw, now_ns)
        return again

    def _job_uw(self, job: int) -> int:
        running = self._counted
        return running.size[job] * (running.beside_uw[job] + running.cap_uw[job])

    def _ended(self, job: int, now_ns: int) -> None:
        self._rising.pop(job, None)
        super()._ended(job, now_ns)

    def _settle(self, now_ns: int) -> None:
        self._own_ns = NEVER
        if self._rising:
            self._raise(now_ns)
        super()._settle(now_ns)
        self._ramp.note(self._idle_uw + self._counted.committed_uw)

    def _raise(self, now_ns: int) -> None:
        """Raise caps as the limit permits, and note when it permits more."""
        running, rise = self._counted, self._ramp.rise
        needs_uw = {
            job: running.size[job] * (cap_uw - running.cap_uw[job])
            for job, cap_uw in self._rising.items()
        }
        needed_uw = sum(needs_uw.values())
        part_uw = rise.part_uw(self._idle_uw + running.committed_uw, needed_uw)
        division = Division(needed_uw=needed_uw, granted_uw=part_uw)
        for job, need_uw in needs_uw.items() if part_uw else ():
            size, whole_uw = running.size[job], self._rising[job]
            cap_uw = running.cap_uw[job] + division.share_uw(need_uw) // size
            division.take(need_uw, size * (cap_uw - running.cap_uw[job]))
            running.change(job, size, cap_uw, now_ns)
            if cap_uw == whole_uw:
                del self._rising[job]
        left_uw = needed_uw - part_uw + division.granted_uw
        power_uw = self._idle_uw + running.committed_uw
        if self._rising:
            self._own_ns = rise.next_ns(power_uw, left_uw)
