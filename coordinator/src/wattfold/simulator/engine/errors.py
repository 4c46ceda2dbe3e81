"""Errors of the simulation of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wattfold.simulator.engine.running_jobs.jobs import JobTable


class SimulationError(Exception):
    """The simulation contradicts itself: a defect of a scheduler or of the engine."""


def jobs_left(table: JobTable, ended: Sequence[bool]) -> SimulationError:
    """Return the error of a run in which jobs wait although nothing happens any more."""
    first = ended.index(False)
    low, high = int(table.size_min[first]), int(table.size_max[first])
    return SimulationError(
        f"{ended.count(False)} jobs wait, but no event remains; the first is job "
        f"{table.job_ids[first]} of size {low if low == high else f'{low} to {high}'}: raise the "
        "budget, or cut the sizes of jobs (--cut-sizes)"
    )
