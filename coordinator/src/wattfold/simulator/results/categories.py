"""Jobs by category, nodes by run time, as in the analysis of D'Amico et al. (ICPP 2019).

The category of a job depends on its maximum size and its static run time, so it is the same under
every policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.results.job_values import job_values
from wattfold.simulator.workloads.workload import Floats, Ints

RUN_EDGES_S = (60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0)
"""Bounds of the categories of run time; a job on a bound belongs to the longer category."""
_RUN_LABELS = ("<1m", "1-5m", "5-15m", "15-60m", "1-4h", "4-12h", "12-24h", ">24h")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Categories:
    """Means of each category, rows by nodes and columns by run time; NaN without a job."""

    size_labels: tuple[str, ...]
    run_labels: tuple[str, ...]
    jobs: Ints
    """Jobs that ended."""
    slowdown: Floats
    wait_s: Floats
    run_ratio: Floats
    """Run time over static run time."""


def categories(record: RunRecord) -> Categories:
    """Return the categories of the ended jobs of a record.

    Sizes double from row to row (1, 2, 3-4, 5-8, ...) up to the maximum in the job table, so that
    runs of the same workload have the same categories.
    """
    jobs = record.jobs
    values = job_values(jobs.submit_ns, record.columns.start_ns, record.columns.end_ns, jobs.run_ns)
    edges = _edges(int(jobs.size_max.max()) if len(jobs) else 1)
    rows = np.searchsorted(edges, jobs.size_max, side="left")
    places = np.searchsorted(np.array(RUN_EDGES_S), jobs.run_ns / NS_PER_S, side="right")
    shape = (len(edges), len(_RUN_LABELS))
    cells = rows * shape[1] + places

    def mean(numbers: Floats) -> Floats:
        known = ~np.isnan(numbers)
        sums = np.bincount(cells[known], numbers[known], shape[0] * shape[1])
        counts = np.bincount(cells[known], minlength=shape[0] * shape[1])
        means: Floats = np.divide(
            sums, counts, out=np.full(len(sums), np.nan), where=counts > 0
        ).reshape(shape)
        return means

    ended = values.ended
    return Categories(
        size_labels=_size_labels(edges),
        run_labels=_RUN_LABELS,
        jobs=np.bincount(cells[ended], minlength=shape[0] * shape[1]).reshape(shape),
        slowdown=mean(values.slowdown),
        wait_s=mean(np.where(ended, values.wait_s, np.nan)),
        run_ratio=mean(values.run_ratio),
    )


def empty_categories(most: int) -> Categories:
    """Return the categories of jobs of up to ``most`` nodes, without jobs."""
    edges = _edges(most)
    shape = (len(edges), len(_RUN_LABELS))
    return Categories(
        size_labels=_size_labels(edges),
        run_labels=_RUN_LABELS,
        jobs=np.zeros(shape, dtype=np.int64),
        slowdown=np.full(shape, np.nan),
        wait_s=np.full(shape, np.nan),
        run_ratio=np.full(shape, np.nan),
    )


def _edges(most: int) -> Ints:
    edges: Ints = 2 ** np.arange(max(0, most - 1).bit_length() + 1)
    return edges


def _size_labels(edges: Ints) -> tuple[str, ...]:
    labels = ["1"]
    for last in edges[1:].tolist():
        first = last // 2 + 1
        labels.append(str(last) if first == last else f"{first}-{last}")
    return tuple(labels)
