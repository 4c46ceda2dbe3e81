"""Measurement of a case: it reduces the record to the numbers that the evaluation compares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmSettings, ParmVersion
from wattfold.coordinator.policies.port import Scheduler
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.pool_parm import pool_parm, resize_price
from wattfold.simulator.papers.parm.case import BASELINE_MIN, PRICED, ParmCase
from wattfold.simulator.papers.parm.jobs import jobs_of
from wattfold.simulator.papers.parm.settings import (
    BASE_W,
    DRAM_W,
    FULL_CAP_W,
    RESIZE_INTERVAL_S,
    SIZES,
)
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.sweep.case import Case, Values

MEASURES = {
    "completion_s": "mean completion time, s",
    "completion_s_max": "maximum completion time, s",
    "response_s": "mean response time, s",
    "makespan_s": "makespan, s",
    "nodes": "mean nodes in use",
    "cap_w": "mean package cap of a node in use, W",
    "resizes": "resizes",
    "overhead_share": "mean time a job lost to resizes, of the makespan",
    "overhead_of_execution": "time lost to resizes, of the time jobs ran",
    "solver_s_max": "longest optimisation, s",
    "solver_s_mean": "mean optimisation, s",
    "queued_max": "most jobs waiting",
    "rounds": "decisions",
    "over_budget_s": "time over budget, s",
    "wall_s": "simulation time, s",
}
"""Results of `measure` for every case. *Response* is the paper's: arrival to start."""
PUBLISHED = ParmSettings(patience=0.0, sizes=SIZES, resize_interval_s=RESIZE_INTERVAL_S)


def measure(case: Case) -> Values:
    """Run a case.

    Raises:
        LogError: its log cannot be read.
        SimulationError: jobs that never start, or power above the budget.
        ValueError: jobs that did not end.
    """
    if not isinstance(case, ParmCase):
        raise TypeError(f"not a case of PARM's evaluation: {case.label}")
    table = jobs_of(case)
    machine = machine_of(case)
    record = simulate(
        table,
        machine,
        scheduler_of(case, table, machine),
        BudgetSchedule.constant(uw_from_w(case.budget_w)),
        seed=case.seed,
    )
    return values_of(record)


def machine_of(case: ParmCase) -> Machine:
    """Return the machine of a case. Nodes without a job are charged nothing, as in Eq. 5."""
    return Machine.of_watts(
        case.nodes,
        base_w=BASE_W,
        dram_w=DRAM_W,
        cap_w_max=FULL_CAP_W,
        idle_w=0.0,
        memory_mb=case.settings.memory_mb,
        link_mb_per_s=case.settings.link_mb_per_s,
    )


def scheduler_of(case: ParmCase, table: JobTable, machine: Machine) -> Scheduler:
    """Return the policy of a case."""
    caps_uw = tuple(uw_from_w(cap) for cap in case.caps_w)
    if case.is_baseline:
        size = "min" if case.policy == BASELINE_MIN else "max"
        return EasyScheduler(cap_uw=caps_uw[0], size=size)
    priced = case.policy == PRICED
    rules = ParmRules(
        settings=replace(PUBLISHED, alpha=case.alpha),
        version=ParmVersion.WSE if priced else ParmVersion(case.policy.lower()),
        resize_price=resize_price(machine) if priced else None,
        revisits=priced,
        caps_uw=caps_uw,
    )
    return pool_parm(table, machine, rules)


def values_of(record: RunRecord) -> Values:
    """Return the measures of a run by name. Raises ValueError if a job has not ended."""
    metrics = metrics_of(record)
    if metrics.jobs_unfinished:
        raise ValueError(f"{metrics.jobs_unfinished} of {metrics.jobs} jobs did not end")
    solved = len(record.solver_ns) > 0
    lost_s = float(record.columns.stalled_ns.mean()) / NS_PER_S
    return {
        "completion_s": metrics.completion_s_mean,
        "completion_s_max": metrics.completion_s_max,
        "response_s": metrics.wait_s_mean,
        "makespan_s": metrics.makespan_s,
        "nodes": metrics.nodes_busy_mean,
        "cap_w": _mean_cap_w(record),
        "resizes": float(metrics.resizes),
        "overhead_share": lost_s / metrics.makespan_s,
        "overhead_of_execution": metrics.stalled_share,
        "solver_s_max": metrics.solver_s_max if solved else 0.0,
        "solver_s_mean": metrics.solver_s_mean if solved else 0.0,
        "queued_max": float(np.max(record.series.queued, initial=0)),
        "rounds": float(metrics.rounds),
        "over_budget_s": metrics.over_budget_s,
        "wall_s": metrics.wall_s,
    }


def _mean_cap_w(record: RunRecord) -> float:
    """Return the mean cap over all node seconds; the last cap of a job counts for its whole run."""
    columns = record.columns
    held = columns.node_ns.astype(np.float64)
    return float((columns.mean_cap_uw * held).sum() / held.sum()) / 1e6
