"""The jobs of a case."""

from __future__ import annotations

from wattfold.coordinator.simulation.experiments.slowdown_driven.case import SlowdownCase
from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import (
    RICC_FIRST_ID,
    RICC_JOBS,
)
from wattfold.coordinator.simulation.pool.jobs import JobTable, job_table
from wattfold.coordinator.simulation.workloads import selection
from wattfold.coordinator.simulation.workloads.cirne import JOBS, generate_cirne
from wattfold.coordinator.simulation.workloads.swf_reader import read_swf
from wattfold.coordinator.simulation.workloads.workload import Workload


def jobs_of(case: SlowdownCase) -> JobTable:
    """The jobs in whole nodes. Raises LogError and ValueError."""
    workload = _drawn(case) if case.log is None else _logged(case)
    if case.count:
        workload = selection.window(workload, 0, case.count)
    # One that asks for more than there is would wait for ever.
    return job_table(selection.cut_sizes(workload, case.source.nodes))


def _drawn(case: SlowdownCase) -> Workload:
    workload = generate_cirne(JOBS, case.seed)
    return selection.exact_estimates(workload) if case.workload == "cirne-exact" else workload


def _logged(case: SlowdownCase) -> Workload:
    assert case.log is not None
    workload = read_swf(case.log.path).workload
    if case.workload == "ricc":
        workload = selection.window(selection.from_id(workload, RICC_FIRST_ID), 0, RICC_JOBS)
    return selection.in_nodes(workload, case.source.cores)
