"""First planned start that a policy reports to each waiting job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from wattfold.coordinator.core.model.plan import Plan
from wattfold.simulator.workloads.workload import Ints

UNTOLD = -1


@runtime_checkable
class TellsStarts(Protocol):
    """A scheduler that remembers the first start reported to each job, in ns."""

    @property
    def first_told(self) -> Mapping[int, int]:
        """First reported starts by the numbers of jobs; jobs without a report are missing."""


def note_starts(promised: dict[int, int], plan: Plan) -> None:
    """Remember the first start that plans report for each waiting job."""
    for one in plan.waiting:
        if one.start_ns:
            promised.setdefault(int(one.job_id), one.start_ns)


def told_column(scheduler: object, jobs: int) -> Ints | None:
    """Return the first start reported to each job, or `UNTOLD`; None if there are no reports."""
    if not isinstance(scheduler, TellsStarts) or not scheduler.first_told:
        return None
    told = np.full(jobs, UNTOLD, dtype=np.int64)
    told[list(scheduler.first_told)] = list(scheduler.first_told.values())
    return told
