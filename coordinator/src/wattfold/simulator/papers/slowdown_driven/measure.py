"""Measurement of a case: it reduces the record to the numbers that the evaluation compares.

In addition to the measures, a case has the means of every category of jobs (``cell`` with its row
and column) and of every day of the log (``day`` with its number), flattened by name.
"""

from __future__ import annotations

import math

import numpy as np

from wattfold.contract.units import NS_PER_S, ns_from_s
from wattfold.coordinator.policies.backfill.counts import AT_ONCE, Passes
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.port import Scheduler
from wattfold.coordinator.policies.slowdown_driven.choice import INFINITE, MateEnd
from wattfold.coordinator.policies.slowdown_driven.pool import SlowdownScheduler
from wattfold.coordinator.policies.slowdown_driven.rules import NodeSharing, SharingSettings
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeClass, NodeMachine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.papers.slowdown_driven.case import (
    DYNAMIC,
    IDEAL,
    STATIC,
    WORTH,
    SlowdownCase,
)
from wattfold.simulator.papers.slowdown_driven.jobs import jobs_of
from wattfold.simulator.results.categories import categories
from wattfold.simulator.results.job_values import job_values
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.sweep.case import Case, Values
from wattfold.simulator.workloads.workload import Mask

MEASURES = {
    "makespan_s": "first submission to last end, s",
    "response_s": "mean response, submission to end, s",
    "wait_s": "mean wait, s",
    "slowdown": "mean of response over static run time",
    "bounded_slowdown": "the same with run times below 10 s taken as 10 s",
    "utilisation": "nodes held, of all nodes over the makespan",
    "jobs": "jobs",
    "guests": "jobs that started with mates",
    "mates": "jobs that lent cores",
    "penalty": "maximum penalty of a mate (Eq. 4)",
    "wall_s": "simulation time, s",
}
"""Results of `measure` for every case, without categories and days."""
CELL_MEASURES = ("jobs", "slowdown", "wait_s", "run_ratio")
DAY_S = 86_400


def measure(case: Case) -> Values:
    """Run a case.

    Raises:
        LogError: its log cannot be read.
        SimulationError: jobs that never start.
        ValueError: jobs that did not end.
    """
    if not isinstance(case, SlowdownCase):
        raise TypeError(f"not a case of this evaluation: {case.label}")
    table = jobs_of(case)
    machine = machine_of(case)
    scheduler = scheduler_of(case, len(table))
    record = simulate(
        table,
        machine,
        scheduler,
        BudgetSchedule.constant(machine.full_uw),
        model=RunTimeModel(case.model),
        seed=case.seed,
    )
    values = values_of(record)
    if isinstance(scheduler, SlowdownScheduler):
        values["mates"] = float(len(scheduler.mates))
        values["penalty"] = scheduler.penalty
    return values


def machine_of(case: SlowdownCase) -> Machine | NodeMachine:
    """Return the machine of a case; power does not matter here."""
    source = case.source
    if case.policy == STATIC:
        return Machine.of_watts(source.nodes)
    return NodeMachine(classes=(NodeClass.of_watts("node", source.nodes, source.cores),))


def scheduler_of(case: SlowdownCase, jobs: int) -> Scheduler:
    """Return the policy of a case, with all jobs malleable."""
    told = case.settings
    limited = Passes(looked=told.looked, every=ns_from_s(told.every_s))
    passes = AT_ONCE if case.passes == IDEAL else limited
    if case.policy == STATIC:
        return EasyScheduler(passes=passes)
    worth = case.policy == WORTH
    most = INFINITE if case.limit is None else case.limit
    return SlowdownScheduler(
        rules=SharingSettings(
            max_slowdown=most,
            mate_end=MateEnd(case.mate_end),
            cutoff="dynamic" if case.policy == DYNAMIC else "fixed",
            sharing_factor=told.sharing_factor,
            least_gain=told.least_gain if worth else 0.0,
            tested=told.tested if case.passes == IDEAL else told.looked,
        ),
        sharing=(NodeSharing(lends=True, borrows=True),),
        kind_of=bytes(jobs),
        passes=passes,
    )


def values_of(record: RunRecord) -> dict[str, float]:
    """Return the measures of a run by name. Raises ValueError if a job has not ended."""
    metrics = metrics_of(record)
    if metrics.jobs_unfinished:
        raise ValueError(f"{metrics.jobs_unfinished} of {metrics.jobs} jobs did not end")
    guests = guests_of(record)
    values = {
        "makespan_s": metrics.makespan_s,
        "response_s": metrics.response_s_mean,
        "wait_s": metrics.wait_s_mean,
        "slowdown": metrics.slowdown_mean,
        "bounded_slowdown": metrics.bounded_slowdown_mean,
        "utilisation": metrics.utilisation,
        "jobs": float(metrics.jobs),
        "guests": float(guests.sum()),
        "mates": 0.0,
        "penalty": 0.0,
        "wall_s": metrics.wall_s,
    }
    return values | _cells(record) | _days(record, guests)


def guests_of(record: RunRecord) -> Mask:
    """Return the jobs that started on fewer cores than they requested."""
    columns, machine = record.columns, record.machine
    if columns.first_cores is None or not isinstance(machine, NodeMachine):
        return np.zeros(len(record.jobs), dtype=np.bool_)
    guests: Mask = columns.first_cores < record.jobs.size_max * machine.classes[0].cores
    return guests


def _cells(record: RunRecord) -> dict[str, float]:
    held = categories(record)
    found: dict[str, float] = {}
    for name in CELL_MEASURES:
        for (row, column), value in np.ndenumerate(getattr(held, name)):
            if not math.isnan(value):
                found[f"cell.{row}.{column}.{name}"] = float(value)
    return found


def _days(record: RunRecord, guests: Mask) -> dict[str, float]:
    """Return for each day the mean slowdown of the submitted jobs, and how many were guests."""
    jobs, columns = record.jobs, record.columns
    values = job_values(jobs.submit_ns, columns.start_ns, columns.end_ns, jobs.run_ns)
    days = (jobs.submit_ns - jobs.submit_ns.min()) // (DAY_S * NS_PER_S)
    counts = np.bincount(days)
    slowdown = np.bincount(days, np.nan_to_num(values.slowdown))
    beside = np.bincount(days, guests)
    found: dict[str, float] = {}
    for day in np.flatnonzero(counts).tolist():
        found[f"day.{day}.jobs"] = float(counts[day])
        found[f"day.{day}.slowdown"] = float(slowdown[day] / counts[day])
        found[f"day.{day}.guests"] = float(beside[day])
    return found
