"""Random machines, jobs and decisions: a scheduler that starts, resizes and shares at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from unit.pool.pools import S, W, table

from wattfold.coordinator.policies.backfill.node_parts import NodeJobInformation
from wattfold.coordinator.policies.port import FOR_NOBODY, NOTHING, Decision, Parts, Scheduler, Site
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine, OutageWindow
from wattfold.simulator.engine.running_jobs.jobs import JobTable, UnitColumns

MEMORY = 64


def random_machine(rng: random.Random) -> NodeMachine:
    """A machine with one to three classes of a few nodes."""
    classes = []
    for place in range(rng.randint(1, 3)):
        low = rng.randint(10, 40)
        base, dram = rng.randint(0, 30), rng.randint(0, 20)
        classes.append(
            NodeClass.of_watts(
                f"class{place}",
                rng.randint(1, 4),
                rng.choice([1, 2, 4, 6, 8]),
                base_w=base,
                dram_w=dram,
                cap_w_min=low,
                cap_w_max=low + rng.randint(0, 60),
                idle_w=rng.choice([None, 0, rng.uniform(0, base + dram + low)]),
                memory_bytes=rng.choice([0, MEMORY]),
                gpus=rng.choice([0, 2]),
                features=rng.choice([(), ("fast",)]),
            )
        )
    return NodeMachine(classes=tuple(classes), windows=random_windows(rng, classes))


def random_windows(rng: random.Random, classes: Sequence[NodeClass]) -> tuple[OutageWindow, ...]:
    """Up to two windows, which may overlap."""
    windows = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        one = rng.choice(classes)
        first, start = rng.randrange(one.count), rng.randint(0, 60)
        windows.append(
            OutageWindow(
                class_name=one.name,
                start_ns=start * S,
                end_ns=(start + rng.randint(1, 60)) * S,
                first=first,
                count=rng.randint(1, one.count - first),
            )
        )
    return tuple(windows)


def random_jobs(rng: random.Random, machine: NodeMachine, count: int = 25) -> JobTable:
    """Jobs of one to three units; every job fits on some node of the machine."""
    rows = [(rng.randint(0, 60), 1, rng.randint(0, 40)) for _ in range(count)]
    jobs = table(*sorted(rows))
    like = [rng.choice(machine.classes) for _ in range(count)]
    cores = np.array([rng.randint(0, one.cores) for one in like])
    units = UnitColumns(
        cores=cores,
        memory_bytes=np.array([rng.choice([0, one.memory_bytes // 2]) for one in like]),
        gpus=np.array([rng.choice([0, one.gpus // 2]) for one in like]),
        features=tuple(rng.choice([(), one.features]) for one in like),
    )
    limits = np.array([rng.randint(20, 90) * S for _ in range(count)])
    return replace(jobs, units=units, limit_ns=rng.choice([None, limits]))


def random_budget(rng: random.Random, machine: NodeMachine) -> BudgetSchedule:
    """A constant budget, or a budget with one lower step that feeds all nodes at their minimum."""
    if rng.random() < 0.4:
        return BudgetSchedule.constant(machine.full_uw)
    least = sum(o.count * max(o.busy_uw(o.cap_uw_min), o.idle_uw) for o in machine.classes)
    lower = rng.randint(least, machine.full_uw)
    steps = (
        BudgetStep(at_ns=0, budget_uw=machine.full_uw),
        BudgetStep(at_ns=30 * S, budget_uw=lower),
    )
    return BudgetSchedule(steps=steps)


class AtWill(Scheduler):
    """Starts jobs that fit, gives running jobs other cores, and preempts some.

    Except for power, it never decides beyond the free resources: it knows them after each decision.
    """

    name = "at-will"
    each_event = True
    solver_ns: Sequence[int] = ()
    revisit_ns = 0

    def __init__(self, seed: int, machine: NodeMachine, *, each_event: bool = True) -> None:
        self.each_event = each_event
        self._rng = random.Random(seed)
        self._machine = machine
        self._waits: list[int] = []
        self._runs: list[int] = []
        self._spendable_uw = 0

    def attach(self, jobs: NodeJobInformation) -> None:
        self.jobs = jobs

    def site(self, site: Site) -> None:
        self._spendable_uw = site.spendable_uw

    def submit(self, job: int, now_ns: int) -> None:
        self._waits.append(job)

    def end(self, job: int, now_ns: int) -> None:
        (self._runs if job in self._runs else self._waits).remove(job)

    def decide(self, now_ns: int) -> Decision:
        """Decide at most one change of a running job and one start, each with current free
        resources.
        """
        rng = self._rng
        if len(self._runs) > 1 and self._waits and rng.random() < 0.1:
            return Decision(preemptions=[(rng.choice(self._runs), FOR_NOBODY)])
        changed = self._changed(rng.choice(self._runs)) if self._runs and rng.random() < 0.5 else ()
        if changed:
            return Decision(changed)
        for job in list(self._waits):
            started = self._started(job)
            if started and self._affords(started[0]):
                self._waits.remove(job)
                self._runs.append(job)
                return Decision(started)
        return NOTHING

    def _started(self, job: int) -> Sequence[Parts]:
        jobs = self.jobs
        wanted = jobs.request(job).cores
        every = range(self._machine.nodes)
        for node in self._rng.sample(every, len(every)):
            cores = wanted or self._machine.classes[jobs.kind_of(node)].cores
            least = self._rng.randint(1, cores)
            if jobs.has_room(job, node, cores):
                return [Parts(job, [node], cores, self._cap_uw())]
            if jobs.has_room(job, node, least):
                return [Parts(job, [node], [least], self._cap_uw())]
        return ()

    def _changed(self, job: int) -> Sequence[Parts]:
        jobs = self.jobs
        held = jobs.held(job)
        (node, cores), *_ = jobs.parts(job).items()
        asked = jobs.request(job).cores or self._machine.classes[jobs.kind_of(node)].cores
        most = min(asked, cores + max(jobs.free_cores(node), 0))
        other = self._rng.randint(1, max(most, 1))
        assert held is not None
        parts = Parts(job, [node], [other], held.cap_uw)
        return [parts] if other <= cores or self._affords(parts) else ()

    def _cap_uw(self) -> int:
        """A random cap, or the minimum if no job runs, so that some job fits."""
        return (self._rng.randint(5, 120) if self._runs else 1) * W

    def _affords(self, parts: Parts) -> bool:
        """Whether the job fits in addition to all running jobs, summed over all nodes."""
        jobs, kinds = self.jobs, self._machine.classes
        taken = 0
        for job in self._runs:
            held = jobs.held(job)
            if held is None:
                continue
            for node, cores in jobs.parts(job).items():
                taken += kinds[jobs.kind_of(node)].part_uw(cores, held.cap_uw)
        cores = parts.cores if isinstance(parts.cores, int) else parts.cores[0]
        added = kinds[jobs.kind_of(parts.nodes[0])].part_uw(cores, parts.cap_uw)
        return taken + added <= self._spendable_uw
