"""Summary of a workload: numbers, durations, sizes and load of its jobs.

Load is the processor time of all jobs divided by the capacity of the machine from the first
submission to the last. Above one the queue can only grow. Quantiles are of known values only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wattfold.simulator.workloads.workload import Floats, Workload

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SECONDS_EDGES = (0.0, 10.0, 60.0, 600.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 24 * 3600.0, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionSummary:
    """Statistics of a distribution; all NaN if no value is known."""

    known: int
    mean: float
    least: float
    greatest: float
    quantiles: tuple[float, ...]
    """Values at `QUANTILES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts between edges; the lower edge is included."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary for `wattfold workload describe`."""

    jobs: int
    users: int
    span_s: float
    machine_procs: int
    """Processors of the machine, for the load."""
    load: float
    """NaN if span or machine are unknown."""
    serial_share: float
    power_of_two_share: float
    """Fraction of the jobs with more than one processor."""
    accuracy: float
    """Mean of run time over requested time, if both are known."""
    size: DistributionSummary
    run_s: DistributionSummary
    requested_s: DistributionSummary
    interarrival_s: DistributionSummary
    size_histogram: Histogram
    run_histogram: Histogram


def summarise(workload: Workload, machine_procs: int | None = None) -> Summary:
    """Return the summary of a workload.

    The machine size is the argument, or else the header's (``MaxProcs``, ``MaxNodes``), or else the
    size of the largest job.
    """
    sizes = workload.sizes.astype(np.float64)
    sizes, runs = sizes[sizes > 0], workload.run_s[workload.run_s >= 0]
    header = workload.header
    machine = machine_procs or header.max_procs or header.max_nodes or 0
    machine = machine if machine > 0 else int(sizes.max(initial=0))
    both = (workload.requested_s > 0) & (workload.run_s >= 0)
    parallel = sizes[sizes > 1]
    offered = machine * workload.span_s
    work = float(np.sum(workload.sizes.clip(0) * workload.run_s.clip(0)))
    return Summary(
        jobs=len(workload),
        users=len(np.unique(workload.users[workload.users >= 0])),
        span_s=workload.span_s,
        machine_procs=machine,
        load=work / offered if offered > 0 else math.nan,
        serial_share=_share(sizes == 1),
        power_of_two_share=_share(np.log2(parallel) % 1 == 0),
        accuracy=_mean(workload.run_s[both] / workload.requested_s[both]),
        size=_spread(sizes),
        run_s=_spread(runs),
        requested_s=_spread(workload.requested_s[workload.requested_s > 0]),
        interarrival_s=_spread(np.diff(np.sort(workload.submit_s))),
        size_histogram=_sizes_by_two(sizes),
        run_histogram=_histogram(runs, _SECONDS_EDGES),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else math.nan


def _share(which: np.ndarray) -> float:
    return float(which.mean()) if which.size else math.nan


def _spread(values: Floats) -> DistributionSummary:
    if not values.size:
        nothing = (math.nan,) * len(QUANTILES)
        return DistributionSummary(
            known=0, mean=math.nan, least=math.nan, greatest=math.nan, quantiles=nothing
        )
    return DistributionSummary(
        known=int(values.size),
        mean=float(values.mean()),
        least=float(values.min()),
        greatest=float(values.max()),
        quantiles=tuple(float(value) for value in np.quantile(values, QUANTILES)),
    )


def _sizes_by_two(sizes: Floats) -> Histogram:
    """Count sizes in classes 1, 2-3, 4-7, ..., up to the largest job."""
    top = max(1, int(sizes.max(initial=1)).bit_length())
    return _histogram(sizes, (*(2.0**power for power in range(top)), math.inf))


def _histogram(values: Floats, edges: tuple[float, ...]) -> Histogram:
    slots = np.searchsorted(edges, values, side="right") - 1
    counts = np.bincount(np.clip(slots, 0, len(edges) - 2), minlength=len(edges) - 1)
    return Histogram(edges=edges, counts=tuple(int(count) for count in counts))
