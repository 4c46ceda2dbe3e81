"""The jobs of a case."""

from __future__ import annotations

from functools import lru_cache

from wattfold.coordinator.simulation.experiments.slowdown_driven.case import (
    SOURCES,
    Log,
    SlowdownCase,
)
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
    return _jobs(case.workload, case.seed, case.count, case.log)


# Cases of one workload follow each other; reading a log takes longer than static backfill of RICC.
@lru_cache(maxsize=1)
def _jobs(name: str, seed: int, count: int, log: Log | None) -> JobTable:
    workload = _drawn(name, seed) if log is None else _logged(name, log)
    if count:
        workload = selection.window(workload, 0, count)
    # One that asks for more than there is would wait for ever.
    return job_table(selection.cut_sizes(workload, SOURCES[name].nodes))


def _drawn(name: str, seed: int) -> Workload:
    workload = generate_cirne(JOBS, seed)
    return selection.exact_estimates(workload) if name == "cirne-exact" else workload


def _logged(name: str, log: Log) -> Workload:
    workload = read_swf(log.path).workload
    if name == "ricc":
        workload = selection.window(selection.from_id(workload, RICC_FIRST_ID), 0, RICC_JOBS)
    return selection.in_nodes(workload, SOURCES[name].cores)
