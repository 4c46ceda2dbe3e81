"""Measurement of a case: it runs the policy and reduces the record to the paper's measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.core.model.queue import Waits
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.machines.nodes_file import node_classes
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.engine.running_jobs.jobs import JobTable, UnitColumns, job_table
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.papers.constraint.case import (
    BUDGET,
    NODES,
    POWERS,
    QUEUES,
    InstanceCase,
)
from wattfold.simulator.papers.constraint.jobs import jobs_of
from wattfold.simulator.papers.constraint.settings import (
    LOOK,
    NAMES,
    OURS,
    PREDICTED,
    WEIGHTED,
)
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.runs.schedulers import ready_of
from wattfold.simulator.sweep.case import Case, Values
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.text_files import whole_text
from wattfold.simulator.workloads.trace_tables import read_predicted_powers, read_waits

SETTINGS: dict[str, dict[str, Value]] = {
    LOOK: {"reading": "look"},
    **{
        name: {"lateness_weight": lateness, "late_weight": late}
        for name, (lateness, late) in WEIGHTED.items()
    },
}
ONE_CAP: dict[str, Value] = {"caps": 1}
"""The effect of caps on the jobs of the traces is unknown, so there is only one cap."""


def measure(case: Case) -> Values:
    """Run a case. Raises SimulationError, LogError."""
    if not isinstance(case, InstanceCase):
        raise TypeError(f"not a case of this evaluation: {case.label}")
    table, read_as = table_of(case)
    machine = machine_of(case)
    name = NAMES.get(case.policy, case.policy)
    entry = registry.find(name)
    assert entry is not None, f"no policy {name}"
    held: dict[str, Value] = {"patience": 0.0} if entry.family.setting("patience") else {}
    policy = entry.service(held | settings_of(case))
    budget = budget_of(case, machine)
    ready = ready_of(name)
    if ready is not None:
        ready()  # Compilation is not part of the first decision.
    record = simulate(
        table,
        machine,
        NamedPolicyScheduler(table, machine, policy, name, budget, ready=ready),
        budget,
    )
    found = metrics_of(record)
    core_ns = record.columns.core_ns
    assert core_ns is not None, "nodes must be named"
    return {
        "wqt": found.weighted_wait,
        "nl": float(found.jobs_late),
        "tr_s": found.lateness_s_total,
        "ao_s": found.decision_s_mean,
        "ao_max_s": found.decision_s_max,
        "ao_cpu_s": found.decision_cpu_s_mean,
        "ao_cpu_max_s": found.decision_cpu_s_max,
        "start_error_s": found.start_error_s_median,
        "start_kept": found.start_kept_share,
        "wqt_mean": found.weighted_wait / len(table),
        "cores_used": float(core_ns.sum()) / NS_PER_S / found.makespan_s,
        "makespan_s": found.makespan_s,
        "drawn_w_mean": found.drawn_w_mean,
        "predicted_w_peak": predicted_peak_w(case, record, read_as),
        "jobs": float(len(table)),
    }


def settings_of(case: InstanceCase) -> dict[str, Value]:
    """Return the settings of the policy that differ from its defaults."""
    capped = case.family == BUDGET and case.policy in (OURS, PREDICTED)
    return ONE_CAP if capped else SETTINGS.get(case.policy, {})


def table_of(case: InstanceCase) -> tuple[JobTable, list[int]]:
    """Return the jobs with requests of their units and waits of their queues, and original IDs.

    Raises LogError.
    """
    jobs, read = jobs_of(case)
    waits = read_waits(case.folder.path / QUEUES)
    read_as = np.where(jobs.preceding_jobs >= 0, jobs.preceding_jobs, jobs.job_ids).tolist()
    asked = [read.requests[job_id] for job_id in read_as]
    units = UnitColumns(
        cores=np.array([one.cores for one in asked], dtype=np.int64),
        memory_bytes=np.array([one.memory_bytes for one in asked], dtype=np.int64),
        gpus=np.array([one.gpus for one in asked], dtype=np.int64),
        features=tuple(one.features for one in asked),
    )
    said: dict[int, Waits] = {}
    for number in sorted(set(jobs.queues.tolist())):
        queue = read.queue_names[number]
        if queue not in waits:
            raise LogError(case.folder.path / QUEUES, 0, f"says nothing of queue {queue!r}")
        said[number] = Waits(waits[queue] * NS_PER_S, waits[queue] * NS_PER_S)
    table = job_table(jobs, units=units, queue_waits=said)
    order = np.lexsort((jobs.job_ids, jobs.submit_ns)).tolist()
    read_as = [read_as[place] for place in order]
    if case.policy == PREDICTED:
        powers = predicted_w(case)
        watts = [uw_from_w(powers.get(job_id, 0.0)) for job_id in read_as]
        table = replace(table, predicted_uw=np.array(watts, dtype=np.int64))
    return table, read_as


def predicted_w(case: InstanceCase) -> dict[int, float]:
    """Return the predicted powers of the jobs of the traces, in W; empty if there are none.

    Raises LogError.
    """
    path = case.folder.path / POWERS
    return read_predicted_powers(path) if path.is_file() else {}


def predicted_peak_w(case: InstanceCase, record: RunRecord, read_as: Sequence[int]) -> float:
    """Return the maximum predicted power of concurrent jobs; without a prediction it counts as 0 W.

    Raises LogError.
    """
    powers = predicted_w(case)
    watts = np.array([powers.get(job_id, 0.0) for job_id in read_as])
    columns = record.columns
    times = np.concatenate([columns.end_ns, columns.start_ns])
    changes = np.concatenate([-watts, watts])
    # At equal times, ends come before starts: the nodes are then free for the next job.
    order = np.argsort(times, kind="stable")
    return float(np.cumsum(changes[order]).max(initial=0.0))


def machine_of(case: InstanceCase) -> NodeMachine:
    """Return the nodes listed with the traces, with the powers of the settings."""
    settings = case.settings
    classes = node_classes(
        whole_text(case.folder.path / NODES),
        base_w=settings.base_w,
        dram_w=0.0,
        cap_w_min=settings.cap_min_w,
        cap_w_max=settings.cap_max_w,
    )
    return NodeMachine(classes=classes)


def budget_of(case: InstanceCase, machine: NodeMachine) -> BudgetSchedule:
    """Return a budget that never binds, except in the runs on power budgets."""
    if case.family != BUDGET:
        return BudgetSchedule.constant(machine.full_uw)
    idle_uw, share = machine.idle_total_uw, case.settings.budget_share
    return BudgetSchedule.constant(idle_uw + round((machine.full_uw - idle_uw) * share))
