"""Times and ratios of every job of a record, in seconds, for metrics, files and plots.

The names are those of the scheduling literature: wait = start - submit, response = end - submit.
PARM (SC14) calls these "response time" and "completion time"; here *response* always includes the
run, and *completion* means the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.simulator.workloads.workload import Floats, Ints, Mask

BOUND_S = 10.0
"""Threshold of the bounded slowdown: shorter jobs count as this long."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobValues:
    """One entry per job, NaN if a job has not got that far."""

    started: Mask
    ended: Mask
    wait_s: Floats
    run_s: Floats
    """From start to end, resizes included."""
    response_s: Floats
    slowdown: Floats
    """Response over static run time (that of the job table); NaN for a static run time of 0."""
    bounded_slowdown: Floats
    """Response over static run time, which counts as at least `BOUND_S`; at least 1."""
    run_ratio: Floats
    """Run time over static run time; NaN for a static run time of 0."""


def job_values(submit_ns: Ints, start_ns: Ints, end_ns: Ints, static_run_ns: Ints) -> JobValues:
    """Return the values of jobs with these times; a negative start or end has not happened."""
    started, ended = start_ns >= 0, end_ns >= 0
    wait_s = _seconds(start_ns - submit_ns, started)
    run_s = _seconds(end_ns - start_ns, ended)
    response_s = _seconds(end_ns - submit_ns, ended)
    static_s = static_run_ns / NS_PER_S
    whole_s = np.where(static_s > 0, static_s, np.nan)
    return JobValues(
        started=started,
        ended=ended,
        wait_s=wait_s,
        run_s=run_s,
        response_s=response_s,
        slowdown=response_s / whole_s,
        bounded_slowdown=np.maximum(response_s / np.maximum(static_s, BOUND_S), 1.0),
        run_ratio=run_s / whole_s,
    )


def _seconds(duration_ns: Ints, known: Mask) -> Floats:
    seconds: Floats = np.where(known, duration_ns / NS_PER_S, np.nan)
    return seconds
