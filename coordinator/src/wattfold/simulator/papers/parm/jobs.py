"""Jobs of a case: drawn for the cluster, read from a log for the large machine.

A set is the same for all policies of one seed, so that they can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from wattfold.simulator.engine.running_jobs.jobs import JobTable, job_table
from wattfold.simulator.papers.parm.case import LARGE_SETS, ParmCase
from wattfold.simulator.papers.parm.settings import (
    CLUSTER_JOBS,
    CLUSTER_MEAN_RUN_S,
    CLUSTER_SPAN_S,
    LARGE_BASELINE_NODES,
    LARGE_JOBS,
    ParmAssumptions,
)
from wattfold.simulator.workloads.annotations import (
    SET_H,
    SET_L,
    AnnotationRanges,
    Annotations,
    annotate,
    with_apps,
)
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.odd_rows import FaultKind, OddRowPolicy, Treatment
from wattfold.simulator.workloads.selection import (
    cut_sizes,
    exact_estimates,
    from_zero,
    scaled_arrivals,
    window,
)
from wattfold.simulator.workloads.swf_reader import read_swf
from wattfold.simulator.workloads.workload import Workload

_MIXES = {"SetL": SET_L, "SetH": SET_H}
_SHORTEST_S = 60.0
_READING = OddRowPolicy(exceptions={FaultKind.RUN_OVER_REQUESTED: Treatment.KEEP})
"""A run slightly over its limit keeps its logged time."""


def jobs_of(case: ParmCase) -> JobTable:
    """Return the jobs of a case with their profiles. Raises LogError."""
    ranges = AnnotationRanges(parallelism_factor=case.settings.parallelism_factor)
    if case.log is None:
        workload, mix = cluster_workload(case.seed, case.settings), _MIXES[case.jobs]
        annotations = with_apps(annotate(workload, case.seed, ranges), _each_once(mix, case.seed))
    else:
        # Annotated first and cut afterwards, so that the same job stays the same in a shorter set.
        workload = _large_workload(case.log.path, case.jobs, case.settings.estimates)
        annotations = _large_annotations(
            case.log.path, case.jobs, case.seed, case.settings.parallelism_factor
        )
        if case.count < len(workload):
            workload = window(workload, 0, case.count)
            annotations = annotations.taken(case.count)
        workload = scaled_arrivals(workload, case.gamma)
    return job_table(workload, annotations)


def cluster_workload(seed: int, settings: ParmAssumptions) -> Workload:
    """Draw ten jobs of a set; both sets of a seed differ only in their applications."""
    runs, arrivals, sizes = (
        np.random.default_rng(child) for child in np.random.SeedSequence((seed, 14)).spawn(3)
    )
    # Scaled to the stated mean: the mean of ten exponential draws varies by a factor of about 2.
    drawn = np.maximum(runs.exponential(CLUSTER_MEAN_RUN_S, CLUSTER_JOBS), _SHORTEST_S)
    run_s = drawn * CLUSTER_MEAN_RUN_S / drawn.mean()
    size = sizes.integers(
        settings.cluster_size_least, settings.cluster_size_most, CLUSTER_JOBS, endpoint=True
    )
    return Workload.of_columns(
        submit_s=np.sort(arrivals.uniform(0.0, CLUSTER_SPAN_S, CLUSTER_JOBS)),
        run_s=run_s,
        procs=size,
        requested_procs=size,
        requested_s=run_s,
    )


def _each_once(mix: Mapping[str, float], seed: int) -> tuple[str, ...]:
    """Return exactly the jobs of a mix, in an order from the seed."""
    names = [name for name, count in mix.items() for _ in range(round(count))]
    order = np.random.default_rng(np.random.SeedSequence((seed, 15))).permutation(len(names))
    return tuple(names[place] for place in order.tolist())


@lru_cache(maxsize=8)
def _large_workload(path: Path, name: str, estimates: str) -> Workload:
    log = read_swf(path, _READING).workload
    first = LARGE_SETS[name]
    chosen = window(log, first, LARGE_JOBS)
    if len(chosen) < LARGE_JOBS:
        raise LogError(
            path, 0, f"{name} is jobs {first} to {first + LARGE_JOBS - 1}, the log has {len(log)}"
        )
    jobs = from_zero(cut_sizes(chosen, LARGE_BASELINE_NODES))
    return exact_estimates(jobs) if estimates == "exact" else jobs


@lru_cache(maxsize=8)
def _large_annotations(path: Path, name: str, seed: int, parallelism_factor: float) -> Annotations:
    ranges = AnnotationRanges(parallelism_factor=parallelism_factor)
    return annotate(_large_workload(path, name, "exact"), seed, ranges)
