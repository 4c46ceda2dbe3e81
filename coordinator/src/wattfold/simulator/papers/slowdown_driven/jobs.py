"""Jobs of a case."""

from __future__ import annotations

from functools import lru_cache

from wattfold.simulator.engine.running_jobs.jobs import JobTable, job_table
from wattfold.simulator.papers.slowdown_driven.case import (
    SOURCES,
    SlowdownCase,
    SlowdownLog,
)
from wattfold.simulator.papers.slowdown_driven.settings import (
    RICC_FIRST_ID,
    RICC_JOBS,
)
from wattfold.simulator.workloads import selection
from wattfold.simulator.workloads.cirne import JOBS, generate_cirne
from wattfold.simulator.workloads.swf_reader import read_swf
from wattfold.simulator.workloads.workload import Workload


def jobs_of(case: SlowdownCase) -> JobTable:
    """Return the jobs in whole nodes. Raises LogError and ValueError."""
    return _jobs(case.workload, case.seed, case.count, case.log)


# Cases of one workload follow each other. Reading a log takes longer than static backfill of RICC.
@lru_cache(maxsize=1)
def _jobs(name: str, seed: int, count: int, log: SlowdownLog | None) -> JobTable:
    workload = _drawn(name, seed) if log is None else _logged(name, log)
    if count:
        workload = selection.window(workload, 0, count)
    # A job that requests more nodes than exist would wait forever.
    return job_table(selection.cut_sizes(workload, SOURCES[name].nodes))


def _drawn(name: str, seed: int) -> Workload:
    workload = generate_cirne(JOBS, seed)
    return selection.exact_estimates(workload) if name == "cirne-exact" else workload


def _logged(name: str, log: SlowdownLog) -> Workload:
    workload = read_swf(log.path).workload
    if name == "ricc":
        workload = selection.window(selection.from_id(workload, RICC_FIRST_ID), 0, RICC_JOBS)
    source = SOURCES[name]
    return workload if source.logs_nodes else selection.in_nodes(workload, source.cores)
