"""The simulation of a pool: jobs, a scheduler and a power budget on virtual time.

Who holds what is the matter of its *holdings*: like nodes that are counted and given whole
(`counted`), or every node by its number, of several classes and shared by cores (`by_node`).

One instant of time after the other: first the budget changes, then jobs are submitted, in order,
then jobs end, those that started first first. A scheduler that decides after every event is asked
each time (the published EASY results depend on it), another one at the end of the instant. Only
then do jobs get their nodes, so a start may count on nodes of a job whose end is of this instant.

What is checked in every instant: nothing is held twice and not more than there is, committed power
is within the budget. Caps are scaled down when a lower budget leaves no other way, as the
coordinator core does it; jobs are never ended for power.

Not simulated here: agents, messages, averaging windows, leases (`simulation.cluster` does).
Everything follows from the inputs: two runs give the same record, and a run that was stopped and
resumed (`PoolSimulation` can be pickled between two calls of `run`) the same as one that was not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns, thread_time_ns
from typing import Any

import numpy as np

from wattfold.coordinator.policies.node_parts import AnyScheduler
from wattfold.coordinator.policies.scheduler import DramScheduler
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.counted import CountedHoldings, check_counted
from wattfold.coordinator.simulation.pool.errors import SimulationError
from wattfold.coordinator.simulation.pool.holdings import Holdings, Nodes
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.prices import Prices
from wattfold.coordinator.simulation.pool.progress import JobFacts, Preemption, whole_numbers
from wattfold.coordinator.simulation.pool.record import RunRecord, Series
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel
from wattfold.coordinator.simulation.pool.told_starts import told_column

__all__ = ["PoolSimulation", "SimulationError", "Turn", "simulate"]

NEVER = 1 << 62
SERIES = (
    "time_ns",
    "queued",
    "running",
    "nodes_busy",
    "committed_uw",
    "drawn_uw",
    "budget_uw",
)
INSTANTS_A_TURN = 2048
"""At most so many between two looks at a wish to stop,"""
SOLVED_A_TURN = 8
"""or so many where each may take a solver's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How far a simulation is."""

    now_ns: int
    jobs_ended: int
    jobs: int
    queued: int
    events: int


class PoolSimulation:
    """One run. ``on_end`` is told each job as it ends, in order.

    With ``restart_ns`` jobs change size by being started again: each change costs a job so many
    nanoseconds, in place of the links that its data moves over.
    """

    def __init__(
        self,
        table: JobTable,
        machine: Machine | NodeMachine,
        scheduler: AnyScheduler,
        budget: Budget,
        *,
        model: RunTimeModel | None = None,
        placement: str = "any",
        resize_costs: bool = True,
        seed: int = 0,
        preemption: Preemption | None = None,
        restart_ns: int | None = None,
        prices: Prices | None = None,
    ) -> None:
        if model is None:
            model = RunTimeModel.PASS if table.profiles else RunTimeModel.IDEAL
        dram = scheduler if isinstance(scheduler, DramScheduler) else None
        self._holdings: Holdings
        if isinstance(machine, NodeMachine):
            if dram is not None:
                raise ValueError(
                    f"{scheduler.name} chooses DRAM caps, which is not possible with named nodes"
                )
            if restart_ns is not None:
                raise ValueError(
                    "restarts are charged only where whole identical nodes are counted, not "
                    f"under {scheduler.name} here"
                )
            # Counted pools do without all that knows of parts of nodes.
            from wattfold.coordinator.simulation.pool.by_node import NodeHoldings, check_by_node

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
                dram=dram,
                placement=placement,
                resize_costs=resize_costs,
                preemption=preemption,
                restart_ns=restart_ns,
            )
        self._running = self._holdings.running
        self._idle_uw = machine.idle_total_uw
        self._unused_uw = machine.unused_total_uw
        self.table, self.machine, self.scheduler, self.budget = table, machine, scheduler, budget
        self.seed = seed
        self.prices = prices
        self.events = 0
        self.ended = 0
        self.on_end: Callable[[PoolSimulation, int], None] | None = None
        self._submit_ns: list[int] = [*table.submit_ns.tolist(), NEVER]
        self._next = 0
        self._start_ns = self._submit_ns[0] if len(table) else 0
        self._steps = [*steps_of(budget, machine, self._start_ns), (NEVER, 0)]
        self._step = 0
        self._budget_uw = self._steps[0][1]
        self._now_ns = self._start_ns
        self._energy = 0
        self._over_ns = 0
        self._peaks = [0, 0]
        self._rounds = 0
        self._decisions = self._deciding_ns = self._longest_ns = 0
        self._deciding_cpu_ns = self._longest_cpu_ns = 0
        self._timed = table.waits is not None or table.training is not None
        """Whether its measures tell times of decisions: the clocks take as long as EASY does."""
        self._wall_s = 0.0
        self._series = array("q")
        """Entries one after the other: each has a number for every name of `SERIES`."""
        self._empty_uw = array("q") if table.training is not None else None
        known: Any = self._holdings.jobs
        self.scheduler.attach(known)

    @property
    def by_node(self) -> bool:
        """Whether jobs have parts of nodes, so that their cores are counted."""
        return isinstance(self.machine, NodeMachine)

    @property
    def counts_attempts(self) -> bool:
        """Whether jobs may be ended before they are done, and the record tells of it."""
        return self._running.counts_attempts

    @property
    def finished(self) -> bool:
        """Whether every job has ended."""
        return self.ended == len(self.table)

    def nodes_of(self, job: int) -> Nodes:
        """The nodes a running job holds."""
        return self._holdings.nodes_of(job)

    def facts_of(self, job: int) -> JobFacts:
        """What has become of a job, by the names of `JobColumns`."""
        return self._running.facts_of(job)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but who is told of ends: that belongs to the process."""
        return {**self.__dict__, "on_end": None}

    def run(self, on_turn: Callable[[Turn], bool] | None = None) -> bool:
        """Goes on until all jobs have ended, or ``on_turn`` returns False. Whether it is done.

        Raises:
            SimulationError: nothing happens any more though jobs wait, or a check failed.
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
            waits = len(self.table) - self.ended
            raise SimulationError(f"{waits} jobs wait, but no event remains")
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
        """Some instants. Whether there is more to come."""
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
            self._energy += (self._unused_uw + running.drawn_uw) * span_ns
            if idle_uw + running.committed_uw > self._budget_uw:
                self._over_ns += span_ns
            self._now_ns = now_ns

    def _instant(self, now_ns: int, *, revisits: bool) -> None:
        """``revisits``: its scheduler has asked to be asked now, and still may."""
        scheduler, running, submit_ns = self.scheduler, self._running, self._submit_ns
        steps, ends = self._steps, running.ends
        each = scheduler.each_event
        decide, asked = self._decided if self._timed else scheduler.decide, 0
        while steps[self._step][0] <= now_ns:
            self._budget_uw = steps[self._step][1]
            self._step += 1
            self.events += 1
            self._holdings.pass_windows(now_ns)
            scheduler.site(self._holdings.site(self._budget_uw - self._idle_uw))
            if self._holdings.requeued:
                self._tell_requeued(now_ns)
            asked += each
            if each and (decisions := decide(now_ns)):
                self._apply(decisions, now_ns)
        while submit_ns[self._next] == now_ns:
            scheduler.submit(self._next, now_ns)
            self._next += 1
            self.events += 1
            asked += each
            if each and (decisions := decide(now_ns)):
                self._apply(decisions, now_ns)
        # In most instants nobody ends, which the first entry tells, though it may be void.
        while ends and ends[0][0] <= now_ns and (job := running.pop_ended(now_ns)) is not None:
            self._ended(job, now_ns)
            asked += each
            if each and (decisions := decide(now_ns)):
                self._apply(decisions, now_ns)
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
        if self.on_end is not None:
            self.on_end(self, job)

    def _decided(self, now_ns: int) -> Sequence[Any]:
        """What the scheduler decides, and how long that took."""
        began_ns, began_cpu_ns = perf_counter_ns(), thread_time_ns()
        decisions = self.scheduler.decide(now_ns)
        took_ns = perf_counter_ns() - began_ns
        worked_ns = thread_time_ns() - began_cpu_ns
        self._deciding_ns += took_ns
        self._longest_ns = max(self._longest_ns, took_ns)
        self._deciding_cpu_ns += worked_ns
        self._longest_cpu_ns = max(self._longest_cpu_ns, worked_ns)
        return decisions

    def _apply(self, decisions: Sequence[Any], now_ns: int) -> bool:
        """Does as decided. Whether jobs were pre-empted, which changes what there is to decide."""
        if not decisions:
            return False
        self._rounds += 1
        self._holdings.take(decisions, now_ns)
        if not self._holdings.requeued:
            return False
        self._tell_requeued(now_ns)
        return True

    def _tell_requeued(self, now_ns: int) -> None:
        """A job that was ended to wait again has ended for its scheduler, and is new to it."""
        jobs = list(self._holdings.requeued)
        self._holdings.requeued.clear()
        for job in jobs:
            self.events += 1
            self.scheduler.end(job, now_ns)
            self.scheduler.submit(job, now_ns)

    def _settle(self, now_ns: int) -> None:
        """The end of an instant: power within the budget, and an entry of the series."""
        running = self._running
        idle_uw, holdings = self._idle_uw, self._holdings
        if holdings.scaled or idle_uw + running.committed_uw > self._budget_uw:
            holdings.fit(self._budget_uw - idle_uw, now_ns)
        committed_uw = idle_uw + running.committed_uw
        drawn_uw = self._unused_uw + running.drawn_uw
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
        """What the run left behind; for one that was stopped, what it has so far."""
        columns = whole_numbers(self._series).reshape(-1, len(SERIES)).T
        series = {name: column.copy() for name, column in zip(SERIES, columns, strict=True)}
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


def steps_of(
    budget: Budget, machine: Machine | NodeMachine, start_ns: int
) -> list[tuple[int, int]]:
    """Times of the log at which budget or nodes change, and the budget in force then."""
    steps = [(start_ns + s.at_ns, s.budget_uw) for s in budget.steps]
    windows = machine.windows if isinstance(machine, NodeMachine) else ()
    known = {at_ns for at_ns, _ in steps}
    edges = {start_ns + edge for w in windows for edge in (w.start_ns, w.end_ns)} - known
    for at_ns in sorted(edges):
        in_force = max((step for step in steps if step[0] <= at_ns), key=lambda step: step[0])
        steps.append((at_ns, in_force[1]))
    return sorted(steps)


def simulate(
    table: JobTable,
    machine: Machine | NodeMachine,
    scheduler: AnyScheduler,
    budget: Budget,
    *,
    model: RunTimeModel | None = None,
    placement: str = "any",
    resize_costs: bool = True,
    seed: int = 0,
    preemption: Preemption | None = None,
    restart_ns: int | None = None,
    on_turn: Callable[[Turn], bool] | None = None,
) -> RunRecord:
    """Runs a simulation to its end, or until ``on_turn`` returns False."""
    run = PoolSimulation(
        table,
        machine,
        scheduler,
        budget,
        model=model,
        placement=placement,
        resize_costs=resize_costs,
        seed=seed,
        preemption=preemption,
        restart_ns=restart_ns,
    )
    run.run(on_turn)
    return run.record()
