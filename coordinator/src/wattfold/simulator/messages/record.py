"""Record of a cluster run: the record of a pool simulation, and values from messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattfold.contract.ids import JobId
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.simulator.engine.record import JobColumns, RunRecord, Series
from wattfold.simulator.messages.driver import SimulatedCluster
from wattfold.simulator.messages.job_run import JobTotals
from wattfold.simulator.messages.meter import BudgetResponse
from wattfold.simulator.workloads.workload import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterRecord(RunRecord):
    """A run with messages. A job starts with the start of its last process.

    ``over_budget_ns`` is the time in which the true caps allowed more power than the budget,
    without the grace of a lower budget (``responses``). Cores of a node count in ``node_ns`` as a
    fraction of the node. ``resizes`` counts changes of the number of cores. ``stalled_ns`` is the
    time from orders to restart a job at another size until it resumed.
    """

    drawn_over_budget_ns: int
    """Time with drawn power above the budget, including grace."""
    peak_bound_uw: int
    """Highest power that the true caps allowed at any time."""
    responses: tuple[BudgetResponse, ...]
    """One response per lower budget."""
    clashes: int
    """Commands that requested cores of another job; the agent refused them."""
    unfinished: tuple[int, ...]
    """Positions of jobs that had not ended at the end of the run."""


def job_columns(
    cluster: SimulatedCluster, count: int, unit: SizeUnit, cores_per_node: int, offset_ns: int
) -> JobColumns:
    """Return the columns of the jobs "0" to ``count`` - 1; ``offset_ns`` converts to log time."""
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


def series(cluster: SimulatedCluster, offset_ns: int) -> Series:
    """Return the series of a run, in log time."""
    columns = {
        name: np.array(values, dtype=np.int64) for name, values in cluster.meter.series.items()
    }
    columns["time_ns"] = columns["time_ns"] + offset_ns
    return Series(**columns)
