"""The record of a run of the cluster: that of the pool simulation, and what only messages have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattfold.contract.ids import JobId
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.simulation.cluster.driver import Cluster
from wattfold.coordinator.simulation.cluster.job_run import JobTotals
from wattfold.coordinator.simulation.cluster.meter import BudgetResponse
from wattfold.coordinator.simulation.pool.record import JobColumns, RunRecord, Series
from wattfold.coordinator.simulation.workloads.workload import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterRecord(RunRecord):
    """A run by messages. Its jobs start when their last process does, as it really was.

    ``over_budget_ns`` counts the time in which the nodes may have drawn more than the budget by the
    caps they really held, but for the grace of a lowered budget (``responses``). Cores of
    a node count in ``node_ns`` as their part of it. ``resizes`` are changes of the number of cores,
    ``stalled_ns`` the time from orders to restart a job at another size until it went on.
    """

    drawn_over_budget_ns: int
    """Time in which they did draw more, grace included."""
    peak_bound_uw: int
    """The most the nodes may have drawn at any time by the caps they really held."""
    responses: tuple[BudgetResponse, ...]
    """One for every lowered budget."""
    clashes: int
    """Commands that asked an agent for cores another job was on; it refused."""
    unfinished: tuple[int, ...]
    """Positions of jobs that had not ended when the run did."""


def job_columns(
    cluster: Cluster, count: int, unit: SizeUnit, cores_per_node: int, offset_ns: int
) -> JobColumns:
    """The columns of the jobs "0" to ``count`` - 1, in log time by way of ``offset_ns``."""
    nothing = JobTotals()
    totals = [
        cluster.truth.runs[job_id].totals if job_id in cluster.truth.runs else nothing
        for job_id in (JobId(str(index)) for index in range(count))
    ]
    per_unit = cores_per_node if unit is SizeUnit.NODES else 1

    def times(values: Sequence[int]) -> Ints:
        return np.array([v + offset_ns if v >= 0 else -1 for v in values], dtype=np.int64)

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    return JobColumns(
        start_ns=times([t.start_ns for t in totals]),
        end_ns=times([t.end_ns if t.start_ns >= 0 else -1 for t in totals]),
        first_size=ints([t.first_size // per_unit for t in totals]),
        last_size=ints([t.last_size // per_unit for t in totals]),
        resizes=ints([t.resizes for t in totals]),
        stalled_ns=ints([t.stalled_ns for t in totals]),
        node_ns=ints([t.core_ns // cores_per_node for t in totals]),
        energy_uj=ints([t.drawn_uw_ns // 1_000_000_000 for t in totals]),
        first_cap_uw=ints([cluster.first_caps_uw.get(JobId(str(i)), 0) for i in range(count)]),
        mean_cap_uw=np.array([t.level_uw_ns / max(t.ran_ns, 1) for t in totals], dtype=np.float64),
    )


def series(cluster: Cluster, offset_ns: int) -> Series:
    """The series of a run, in log time."""
    columns = {
        name: np.array(values, dtype=np.int64) for name, values in cluster.meter.series.items()
    }
    columns["time_ns"] = columns["time_ns"] + offset_ns
    return Series(**columns)
