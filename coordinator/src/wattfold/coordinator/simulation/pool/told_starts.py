"""What jobs that wait are told of their start by policies that tell it: the first time counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from wattfold.coordinator.core.plan import Plan
from wattfold.coordinator.simulation.workloads.workload import Ints

UNTOLD = -1


@runtime_checkable
class TellsStarts(Protocol):
    """A scheduler that remembers the first start each job was told, ns."""

    @property
    def first_told(self) -> Mapping[int, int]:
        """By the numbers of jobs; who was never told is not there."""


def note_starts(told: dict[int, int], plan: Plan) -> None:
    """Remembers what a plan tells who was not told before."""
    for one in plan.waiting:
        if one.start_ns:
            told.setdefault(int(one.job_id), one.start_ns)


def told_column(scheduler: object, jobs: int) -> Ints | None:
    """The first start that each job was told, or `UNTOLD`; None where nobody was."""
    if not isinstance(scheduler, TellsStarts) or not scheduler.first_told:
        return None
    told = np.full(jobs, UNTOLD, dtype=np.int64)
    told[list(scheduler.first_told)] = list(scheduler.first_told.values())
    return told
