"""Jobs of an instance: a trace, a window of the union, or a week drawn from it."""

from __future__ import annotations

import math

import numpy as np

from wattfold.simulator.papers.constraint.case import (
    RAW,
    TRACES,
    WEEK,
    InstanceCase,
)
from wattfold.simulator.papers.constraint.settings import (
    BLOCK_S,
    WEEK_S,
    WINDOW_JOBS,
    WINDOWS,
)
from wattfold.simulator.workloads import selection
from wattfold.simulator.workloads.swf_reader import ReadLog
from wattfold.simulator.workloads.unit_traces import read_unit_trace, read_unit_traces
from wattfold.simulator.workloads.workload import Workload

YEAR = 2014
"""Year of the traces; with a week's number it is the seed of its draws."""


def jobs_of(case: InstanceCase) -> tuple[Workload, ReadLog]:
    """Return the jobs of a case, and the read log, whose requests use the original job IDs.

    Jobs of weeks are drawn several times; they have new IDs, and their original IDs are in
    ``preceding_jobs``. Raises LogError, and ValueError for a window beyond the traces.
    """
    traces = case.folder.path / TRACES
    if case.family == RAW:
        read = read_unit_trace(traces / case.instance)
        return read.workload, read
    read = read_unit_traces([traces / name for name in case.folder.traces])
    if case.family == WEEK:
        return week(read.workload, int(case.instance), case.settings.week_factor), read
    one = next(known for known in WINDOWS if known.name == case.instance)
    jobs = selection.window(read.workload, one.first, WINDOW_JOBS)
    if not len(jobs):
        raise ValueError(
            f"the traces have {len(read.workload)} jobs; the window {one.name} is beyond them"
        )
    return selection.from_zero(selection.scaled_arrivals(jobs, one.factor)), read


def week(union: Workload, number: int, factor: float) -> Workload:
    """Draw a week of random blocks, with times multiplied by a factor."""
    chance = np.random.default_rng(np.random.SeedSequence([YEAR, number]))
    span_s, block_s = union.span_s, BLOCK_S * factor
    parts, submits = [], []
    for block in range(math.ceil(WEEK_S / block_s)):
        first_s = chance.uniform(0.0, max(span_s - BLOCK_S, 0.0))
        inside = (union.submit_s >= first_s) & (union.submit_s < first_s + BLOCK_S)
        inside &= block * block_s + (union.submit_s - first_s) * factor < WEEK_S
        found = np.flatnonzero(inside)
        parts.append(found)
        submits.append(block * block_s + (union.submit_s[found] - first_s) * factor)
    which = np.concatenate(parts)
    jobs = union.taken(which)
    return jobs.changed(
        submit_s=np.concatenate(submits),
        job_ids=np.arange(1, len(which) + 1, dtype=np.int64),
        preceding_jobs=jobs.job_ids,
    )
