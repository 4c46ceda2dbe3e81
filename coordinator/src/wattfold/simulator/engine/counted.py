"""Holdings of a pool of identical whole nodes: counted, and numbered for the network."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.models.torus import bisection_links
from wattfold.coordinator.policies.placement.selector import NodeSelector, Strategy, joined
from wattfold.coordinator.policies.placement.strategies import node_selector
from wattfold.coordinator.policies.port import Decision, Site
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.machines.holdings import Nodes
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel, RunTimes
from wattfold.simulator.engine.running_jobs.running import RunningJobs
from wattfold.simulator.engine.running_jobs.table_jobs import TableJobs


class CountedHoldings:
    """Number of nodes of every job. The end of an instant chooses the nodes."""

    def __init__(
        self,
        table: JobTable,
        machine: Machine,
        *,
        model: RunTimeModel,
        dram: DramModel | None,
        placement: str,
        resize_costs: bool,
        preemption: PreemptionRule | None = None,
        restart_ns: int | None = None,
    ) -> None:
        self.running = RunningJobs(
            table,
            machine,
            RunTimes(table, model, dram),
            preemption,
        )
        self.requeued: list[int] = []
        self.jobs = TableJobs(table, self.running, restart_s=(restart_ns or 0) / NS_PER_S)
        self._table, self._machine = table, machine
        self._resize_costs, self._restart_ns = resize_costs, restart_ns
        self._selector: NodeSelector[Nodes] = node_selector(
            Strategy(placement), machine.nodes, machine.torus
        )
        self._nodes: dict[int, Nodes] = {}
        self._unplaced: dict[int, None] = {}
        self.scaled: dict[int, int] = {}
        """Decided caps of the jobs whose caps are lower for lack of power."""
        self.unscaled: Collection[int] = ()
        """Jobs that wait for boots, which their power pays for: their caps are not lowered."""

    def site(self, spendable_uw: int) -> Site:
        """Return the site for schedulers: whole nodes of one kind."""
        return self._machine.site(spendable_uw)

    @property
    def unused_uw(self) -> int:
        """Power of all nodes without a job."""
        return (self._machine.nodes - self.running.nodes) * self._machine.idle_uw

    def pass_windows(self, now_ns: int) -> None:
        """Do nothing: counted nodes are never out of use."""

    def nodes_of(self, job: int) -> Nodes:
        """Return the nodes of a running job."""
        return self._nodes[job]

    def end(self, job: int) -> None:
        """Free the nodes of a job."""
        nodes = self._nodes.pop(job, None)
        if nodes is not None:
            self._selector.give_back(nodes)
        if self._unplaced:
            self._unplaced.pop(job, None)
        if self.scaled:
            self.scaled.pop(job, None)

    def take(self, decision: Decision, now_ns: int) -> None:
        """Apply starts and changes of counted nodes, and preemptions."""
        running = self.running
        resized: list[tuple[int, int, int]] = []
        changes: Sequence[Any] = decision.changes
        for change in changes:
            job, size, cap_uw, dram_uw = change[:4]
            if job not in running.jobs:
                running.start(job, size, cap_uw, now_ns, dram_uw)
                self._unplaced[job] = None
                continue
            before = running.size[job]
            self.scaled.pop(job, None)
            running.change(job, size, cap_uw, now_ns, dram_uw)
            if before != size:
                resized.append((job, before, size))
        if resized:
            self._resize(resized, now_ns)
        for job, _ in decision.preemptions:
            running.preempt(job, now_ns)
            self.end(job)
            self.requeued.append(job)

    def _resize(self, resized: list[tuple[int, int, int]], now_ns: int) -> None:
        """Free nodes that jobs give up now; the end of the instant assigns new nodes."""
        running = self.running
        for job, before, size in resized:
            if job not in self._nodes:
                continue  # It started in this very instant.
            if size < before:
                kept, _ = self._selector.shrink(self._nodes[job], before - size)
                self._nodes[job] = kept
            else:
                self._unplaced[job] = None
        charge_ns = self._charge_ns(resized)
        for job, _, _ in resized:
            running.resizes[job] += 1
            running.stall(job, charge_ns, now_ns)

    def _charge_ns(self, resized: list[tuple[int, int, int]]) -> int:
        """Return the pause of each resized job: the time of a restart, or of moving its data."""
        if self._restart_ns is not None:
            return self._restart_ns
        return round(self._charge_s(resized) * NS_PER_S) if self._resize_costs else 0

    def _charge_s(self, resized: list[tuple[int, int, int]]) -> float:
        """Return 2 max(t_se) of PARM, with the links of the nodes that jobs hold on a torus."""
        machine, least = self._machine, self._table.size_min
        return charge_s(
            Resize(
                data_mb=machine.data_mb(int(least[job])),
                nodes_from=before,
                nodes_to=size,
                link_mb_per_s=machine.link_mb_per_s,
                bisection_links=self._links(job),
            )
            for job, before, size in resized
        )

    def _links(self, job: int) -> float | None:
        if not self._machine.torus or job not in self._nodes:
            return None
        return float(bisection_links(self._machine.torus, self._nodes[job]))

    def settle(self) -> None:
        """Assign nodes to the jobs that started or grew in this instant."""
        if not self._unplaced:
            return
        running, selector = self.running, self._selector
        if running.nodes > self._machine.nodes:
            raise SimulationError(f"{running.nodes} of {self._machine.nodes} nodes are assigned")
        for job in self._unplaced:
            held = self._nodes.get(job)
            if held is None:
                self._nodes[job] = selector.take(running.size[job])
            elif running.size[job] > len(held):
                added = selector.grow(held, running.size[job] - len(held))
                self._nodes[job] = joined(held, added)
        self._unplaced.clear()

    def fit(self, power_uw: int, now_ns: int) -> None:
        """Set the decided caps if they fit, else scale their part above the floor equally."""
        running, floor_uw = self.running, self._machine.cap_uw_min
        wanted = {job: self.scaled.get(job, running.cap_uw[job]) for job in running.jobs}
        above_uw = fixed_uw = 0
        for job, cap_uw in wanted.items():
            least_uw = cap_uw if job in self.unscaled else min(floor_uw, cap_uw)
            fixed_uw += running.size[job] * (running.beside_uw[job] + least_uw)
            above_uw += running.size[job] * (cap_uw - least_uw)
        room_uw = max(power_uw - fixed_uw, 0)
        self.scaled.clear()
        for job, cap_uw in wanted.items():
            scaled_uw = cap_uw
            if above_uw > room_uw and job not in self.unscaled:
                least_uw = min(floor_uw, cap_uw)
                scaled_uw = least_uw + (cap_uw - least_uw) * room_uw // above_uw
                self.scaled[job] = cap_uw
            if scaled_uw != running.cap_uw[job]:
                running.change(job, running.size[job], scaled_uw, now_ns)


def check_counted(table: JobTable, machine: Machine, budget: BudgetSchedule) -> None:
    """Raise ValueError for jobs and budgets that a counted machine cannot serve."""
    large = np.flatnonzero(table.size_min > machine.nodes)
    if len(large):
        job = int(large[0])
        raise ValueError(
            f"{len(large)} jobs request more than the {machine.nodes} nodes of the machine; "
            f"the first is job {table.job_ids[job]} with {table.size_min[job]}"
        )
    least_uw = machine.idle_total_uw + machine.dynamic_uw(machine.cap_uw_min)
    if not budget.is_constant:
        least_uw = machine.nodes * max(machine.busy_uw(machine.cap_uw_min), machine.idle_uw)
    if budget.least_uw < least_uw:
        raise ValueError(
            f"the budget of {budget.least_uw / 1e6:.0f} W is below the {least_uw / 1e6:.0f} W that "
            f"{machine.nodes} nodes need"
            + ("" if budget.is_constant else " when all of them run at their minimum cap")
        )
