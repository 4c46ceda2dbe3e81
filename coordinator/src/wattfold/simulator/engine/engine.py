"""Simulation of a pool: jobs, a scheduler and a power budget on virtual time.

Its *holdings* record the nodes of each job: identical nodes that are counted and given whole
(`counted`), or numbered nodes of several classes, shared by cores (`by_node`).

The simulation processes one instant after the other. First the budget changes, then jobs are
submitted in order, then jobs end in the order of their starts. A scheduler with ``each_event``
decides after every event (the published EASY results depend on it); other schedulers decide at the
end of the instant. Only then do jobs get their nodes, so a start may use nodes of a job that ends
in the same instant.

Every instant is checked: no core is held twice, no more cores are held than exist, and committed
power is within the budget. If a lower budget leaves no other way, caps are scaled down, as in the
coordinator core. Jobs are never ended for power.

Agents, messages, averaging windows and leases are not simulated here (see `simulator.messages`).
All results follow from the inputs: two runs give the same record. A run that was stopped and
resumed gives the same record too (`PoolSimulation` can be pickled between two calls of `run`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns, thread_time_ns
from typing import Any

import numpy as np

from wattfold.coordinator.policies.port import NOTHING, Decision, Scheduler
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.budget_steps import steps_of
from wattfold.simulator.engine.counted import CountedHoldings, check_counted
from wattfold.simulator.engine.errors import SimulationError, jobs_left
from wattfold.simulator.engine.job_limits import JobLimits
from wattfold.simulator.engine.machines.holdings import Holdings, Nodes
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.record import RunRecord, Series
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.progress import (
    JobFacts,
    PreemptionRule,
    whole_numbers,
)
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.engine.schedulers.promised_starts import told_column
from wattfold.simulator.workloads.workload import Ints

__all__ = ["PoolSimulation", "SimulationError", "Turn", "simulate"]

NEVER = 1 << 62
SERIES = ("time_ns", "queued", "running", "nodes_busy", "committed_uw", "drawn_uw", "budget_uw")
INSTANTS_A_TURN = 2048
"""Maximum number of instants between two checks for a stop."""
SOLVED_A_TURN = 8
"""The same if each instant may call a solver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Progress of a simulation."""

    now_ns: int
    jobs_ended: int
    jobs: int
    queued: int
    events: int


class PoolSimulation:
    """A run of the simulation. It calls ``on_end`` for each ended job, in order.

    With ``restart_ns``, jobs change size by restarts. Each change then costs a job this many
    nanoseconds instead of the transfer of its data over links. The scheduler sees a job from its
    ``begin_ns`` on; without, from its submission on. With ``limits``, it sees admitted jobs only.
    """

    def __init__(
        self,
        table: JobTable,
        machine: Machine | NodeMachine,
        scheduler: Scheduler,
        budget: BudgetSchedule,
        *,
        model: RunTimeModel | None = None,
        placement: str = "any",
        resize_costs: bool = True,
        seed: int = 0,
        preemption: PreemptionRule | None = None,
        restart_ns: int | None = None,
        prices: Prices | None = None,
        begin_ns: Ints | None = None,
        limits: JobLimits | None = None,
    ) -> None:
        if model is None:
            model = RunTimeModel.PASS if table.profiles else RunTimeModel.IDEAL
        self._holdings: Holdings
        if isinstance(machine, NodeMachine):
            if scheduler.dram_model is not None:
                raise ValueError(f"{scheduler.name} chooses DRAM caps, not possible by node")
            if restart_ns is not None:
                where = f"not under {scheduler.name} here"
                raise ValueError(f"restarts are charged only for counted whole nodes, {where}")
            # Counted pools do not need the modules for parts of nodes.
            from wattfold.simulator.engine.by_node import NodeHoldings, check_by_node

            check_by_node(table, machine, budget)
            self._holdings = NodeHoldings(
                table,
                machine,
                model=model,
                resize_costs=resize_costs,
                start_ns=int(table.submit_ns[0]) if len(table) else 0,
                preemption=preemption,
            )
        else:
            check_counted(table, machine, budget)
            self._holdings = CountedHoldings(
                table,
                machine,
                model=model,
                dram=scheduler.dram_model,
                placement=placement,
                resize_costs=resize_costs,
                preemption=preemption,
                restart_ns=restart_ns,
            )
        self._running = self._holdings.running
        self._idle_uw = machine.idle_total_uw
        self._unused_uw = machine.unused_total_uw
        self.table, self.machine, self.scheduler, self.budget = table, machine, scheduler, budget
        self.seed, self.prices, self._limits = seed, prices, limits
        self.events = self.ended = 0
        self.on_end: Callable[[PoolSimulation, int], None] | None = None
        seen_ns = table.submit_ns if begin_ns is None else begin_ns
        order = np.argsort(seen_ns, kind="stable")
        self._order: list[int] = order.tolist()
        """The jobs in the order in which the scheduler sees them, at the times that follow."""
        self._submit_ns: list[int] = [*seen_ns[order].tolist(), NEVER]
        self._next = 0
        self._start_ns = int(table.submit_ns[0]) if len(table) else 0
        self._steps = [*steps_of(budget, machine, self._start_ns), (NEVER, 0)]
        self._step = 0
        self._own_ns = NEVER
        """For `SleepingPool`, as the next two: next time at which a node changes by itself."""
        self._beside_uw = self._asleep_uw = 0
        """Charge and power of nodes beside those of running jobs and nodes without a job."""
        self._budget_uw = self._steps[0][1]
        self._now_ns = self._start_ns
        self._energy = self._over_ns = 0
        self._peaks = [0, 0]
        self._rounds = self._decisions = self._deciding_ns = self._longest_ns = 0
        self._deciding_cpu_ns = self._longest_cpu_ns = 0
        self._timed = table.waits is not None or table.training is not None
        """Whether the measures need decision times. The clocks take as long as an EASY decision."""
        self._wall_s = 0.0
        self._series = array("q")
        """Consecutive entries, each with one number per name of `SERIES`."""
        self._empty_uw = array("q") if table.training is not None else None
        known: Any = self._holdings.jobs
        for job, at_ns in enumerate(() if begin_ns is None else begin_ns.tolist()):
            known.arrive(job, at_ns)
        self.scheduler.attach(known)

    @property
    def by_node(self) -> bool:
        """Whether jobs hold parts of nodes, so that their cores are counted."""
        return isinstance(self.machine, NodeMachine)

    @property
    def counts_attempts(self) -> bool:
        """Whether jobs may end before they are done, so that the record has their attempts."""
        return self._running.counts_attempts

    @property
    def finished(self) -> bool:
        """Whether every job has ended."""
        return self.ended == len(self.table)

    def nodes_of(self, job: int) -> Nodes:
        """Return the nodes of a running job."""
        return self._holdings.nodes_of(job)

    def facts_of(self, job: int) -> JobFacts:
        """Return the results of a job, with the names of `JobColumns`."""
        return self._running.facts_of(job)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out ``on_end``, which belongs to the process."""
        return {**self.__dict__, "on_end": None}

    def run(self, on_turn: Callable[[Turn], bool] | None = None) -> bool:
        """Run until all jobs have ended, or ``on_turn`` returns False; return whether all ended.

        Raises:
            SimulationError: no event is left although jobs wait, or a check failed.
        """
        began_s = perf_counter()
        try:
            while self._turn():
                if on_turn is not None and not on_turn(self._progress()):
                    return False
        finally:
            self._wall_s += perf_counter() - began_s
        if on_turn is not None:
            on_turn(self._progress())
        if not self.finished:
            ended = (self.facts_of(job)["end_ns"] >= 0 for job in range(len(self.table)))
            raise jobs_left(self.table, [*ended])
        return True

    def _progress(self) -> Turn:
        return Turn(
            now_ns=self._now_ns,
            jobs_ended=self.ended,
            jobs=len(self.table),
            queued=self._next - self.ended - len(self._running.jobs),
            events=self.events,
        )

    def _turn(self) -> bool:
        """Process some instants; return whether more are left."""
        running, submit_ns, scheduler = self._running, self._submit_ns, self.scheduler
        jobs, steps = len(self.table), self._steps
        for _ in range(INSTANTS_A_TURN if scheduler.each_event else SOLVED_A_TURN):
            now_ns = submit_ns[self._next]
            end_ns = running.next_end_ns()
            if end_ns is not None and end_ns < now_ns:
                now_ns = end_ns
            if steps[self._step][0] < now_ns:
                now_ns = steps[self._step][0]
            revisit_ns = scheduler.revisit_ns
            if self._now_ns < revisit_ns < now_ns:
                now_ns = revisit_ns
            if self._own_ns < now_ns:
                now_ns = self._own_ns
            if now_ns == NEVER or self.ended == jobs:
                return False
            self._pass_time(now_ns)
            self._instant(now_ns, revisits=revisit_ns == now_ns)
        return True

    def _pass_time(self, now_ns: int) -> None:
        span_ns = now_ns - self._now_ns
        if span_ns:
            running = self._running
            idle_uw = self._idle_uw
            self._energy += (self._unused_uw + running.drawn_uw + self._asleep_uw) * span_ns
            if idle_uw + running.committed_uw + self._beside_uw > self._budget_uw:
                self._over_ns += span_ns
            self._now_ns = now_ns

    def _instant(self, now_ns: int, *, revisits: bool) -> None:
        """Process an instant.

        ``revisits``: the scheduler requested this time and may still decide.
        """
        scheduler, running, submit_ns = self.scheduler, self._running, self._submit_ns
        steps, ends = self._steps, running.ends
        each = scheduler.each_event
        decide, asked = self._decided if self._timed else scheduler.decide, 0
        while steps[self._step][0] <= now_ns:
            self._budget_uw = steps[self._step][1]
            self._step += 1
            self.events += 1
            self._holdings.pass_windows(now_ns)
            scheduler.site(self._holdings.site(self._spendable_uw()))
            if self._holdings.requeued:
                self._tell_requeued(now_ns)
            asked += each
            if each and (decision := decide(now_ns)) is not NOTHING:
                self._apply(decision, now_ns)
        while submit_ns[self._next] == now_ns:
            if self._limits is None:
                scheduler.submit(self._order[self._next], now_ns)
            else:
                self._admitted(self._limits.submitted(self._order[self._next]), now_ns)
            self._next += 1
            self.events += 1
            asked += each
            if each and (decision := decide(now_ns)) is not NOTHING:
                self._apply(decision, now_ns)
        # In most instants no job ends. The first entry shows this, although it may be void.
        while ends and ends[0][0] <= now_ns and (job := running.pop_ended(now_ns)) is not None:
            self._ended(job, now_ns)
            asked += each
            if each and (decision := decide(now_ns)) is not NOTHING:
                self._apply(decision, now_ns)
        if not each or (revisits and scheduler.revisit_ns == now_ns):
            asked += 1
            while self._apply(decide(now_ns), now_ns) and not each:
                asked += 1
        self._decisions += asked
        self._holdings.settle()
        self._settle(now_ns)

    def _ended(self, job: int, now_ns: int) -> None:
        self.events += 1
        self.ended += 1
        self._holdings.end(job)
        self.scheduler.end(job, now_ns)
        if self._limits is not None:
            self._admitted(self._limits.ended(job), now_ns)
        if self.on_end is not None:
            self.on_end(self, job)

    def _admitted(self, jobs: Sequence[int], now_ns: int) -> None:
        for job in jobs:
            self._holdings.jobs.arrive(job, now_ns)
            self.scheduler.submit(job, now_ns)

    def _spendable_uw(self) -> int:
        """Return the power that plans may use above the charge of nodes without a job."""
        return self._budget_uw - self._idle_uw

    def _decided(self, now_ns: int) -> Decision:
        """Return the decision of the scheduler, and measure its time."""
        began_ns, began_cpu_ns = perf_counter_ns(), thread_time_ns()
        decision = self.scheduler.decide(now_ns)
        took_ns = perf_counter_ns() - began_ns
        worked_ns = thread_time_ns() - began_cpu_ns
        self._deciding_ns += took_ns
        self._longest_ns = max(self._longest_ns, took_ns)
        self._deciding_cpu_ns += worked_ns
        self._longest_cpu_ns = max(self._longest_cpu_ns, worked_ns)
        return decision

    def _apply(self, decision: Decision, now_ns: int) -> bool:
        """Apply a decision; return whether the scheduler must decide again after preemptions."""
        if not (decision.changes or decision.preemptions):
            return False
        self._rounds += 1
        self._holdings.take(decision, now_ns)
        if not self._holdings.requeued:
            return False
        self._tell_requeued(now_ns)
        return True

    def _tell_requeued(self, now_ns: int) -> None:
        """Report requeued jobs to the scheduler, each as ended and as submitted again."""
        jobs = list(self._holdings.requeued)
        self._holdings.requeued.clear()
        for job in jobs:
            self.events += 1
            self.scheduler.end(job, now_ns)
            self.scheduler.submit(job, now_ns)

    def _settle(self, now_ns: int) -> None:
        """Close an instant: fit power into the budget, and append an entry to the series."""
        running = self._running
        idle_uw, holdings = self._idle_uw + self._beside_uw, self._holdings
        if holdings.scaled or idle_uw + running.committed_uw > self._budget_uw:
            holdings.fit(self._budget_uw - idle_uw, now_ns)
        committed_uw = idle_uw + running.committed_uw
        drawn_uw = self._unused_uw + running.drawn_uw + self._asleep_uw
        if committed_uw > self._budget_uw:
            raise SimulationError(
                f"committed {committed_uw} uW above the budget of {self._budget_uw} uW at "
                f"{now_ns} ns under {self.scheduler.name}"
            )
        peaks = self._peaks
        if committed_uw > peaks[0]:
            peaks[0] = committed_uw
        if drawn_uw > peaks[1]:
            peaks[1] = drawn_uw
        active = len(running.jobs)
        queued = self._next - self.ended - active
        entry = (now_ns, queued, active, running.nodes, committed_uw, drawn_uw, self._budget_uw)
        self._series.extend(entry)
        if self._empty_uw is not None:
            self._empty_uw.append(holdings.unused_uw)

    def record(self) -> RunRecord:
        """Return the record of the run so far."""
        columns = whole_numbers(self._series).reshape(-1, len(SERIES)).T
        series = {name: one.copy() for name, one in zip(SERIES, columns, strict=True)}
        return RunRecord(
            policy=self.scheduler.name,
            seed=self.seed,
            machine=self.machine,
            jobs=self.table,
            columns=self._running.columns(),
            series=Series(
                **series,
                unused_uw=whole_numbers(self._empty_uw) if self._empty_uw is not None else None,
            ),
            energy_uj=self._energy // 1_000_000_000,
            peak_committed_uw=self._peaks[0],
            peak_drawn_uw=self._peaks[1],
            over_budget_ns=self._over_ns,
            rounds=self._rounds,
            solver_ns=np.asarray(self.scheduler.solver_ns, dtype=np.int64),
            wall_s=self._wall_s,
            events=self.events,
            told_ns=told_column(self.scheduler, len(self.table)),
            decisions=self._decisions,
            deciding_ns=self._deciding_ns,
            longest_decision_ns=self._longest_ns,
            deciding_cpu_ns=self._deciding_cpu_ns,
            longest_decision_cpu_ns=self._longest_cpu_ns,
            prices=self.prices,
        )


def simulate(
    table: JobTable,
    machine: Machine | NodeMachine,
    scheduler: Scheduler,
    budget: BudgetSchedule,
    *,
    on_turn: Callable[[Turn], bool] | None = None,
    **options: Any,
) -> RunRecord:
    """Run a simulation to its end, or until ``on_turn`` returns False.

    ``options`` are those of `PoolSimulation`.
    """
    run = PoolSimulation(table, machine, scheduler, budget, **options)
    run.run(on_turn)
    return run.record()
