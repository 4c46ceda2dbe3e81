"""Waiting jobs in order of submission, with the data for a decision in columns.

Columns are cached for runs of consecutive jobs. A decision rebuilds the columns of a run only if a
job was added, removed or changed since the last decision, and then concatenates the runs. For ten
thousand jobs these are about forty arrays per column.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from wattfold.coordinator.policies.parm.choice import Ages, OptionTable
from wattfold.coordinator.policies.parm.entry import ParmJob

RUN_MAX = 512
"""Maximum number of jobs of a run; a longer run is halved."""


class _JobBlock:
    """Consecutive jobs; at least one between two calls of the queue."""

    def __init__(self, entries: list[ParmJob], places: list[tuple[int, int]]) -> None:
        self.entries, self.places = entries, places
        self.columns: tuple[OptionTable, Ages] | None = None


class ParmQueue:
    """Waiting jobs, each at its original place."""

    def __init__(self) -> None:
        self._runs: list[_JobBlock] = []
        self._places: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job: int) -> bool:
        return job in self._places

    def __iter__(self) -> Iterator[ParmJob]:
        return (one for run in self._runs for one in run.entries)

    def add(self, entry: ParmJob) -> None:
        """Add a job that is not in the queue."""
        place = self._places[entry.job] = entry.place
        if not self._runs:
            self._runs.append(_JobBlock([entry], [place]))
            return
        run = self._run(place)
        at = bisect_left(run.places, place)
        run.entries.insert(at, entry)
        run.places.insert(at, place)
        run.columns = None
        if len(run.places) > RUN_MAX:
            half = len(run.places) // 2
            self._runs.insert(
                self._runs.index(run) + 1, _JobBlock(run.entries[half:], run.places[half:])
            )
            del run.entries[half:], run.places[half:]

    def pop(self, job: int) -> None:
        """Remove a job if it is in the queue."""
        place = self._places.pop(job, None)
        if place is None:
            return
        run = self._run(place)
        at = bisect_left(run.places, place)
        del run.entries[at], run.places[at]
        run.columns = None
        if not run.places:
            self._runs.remove(run)

    def touch(self, job: int) -> None:
        """Mark a job as changed if it is in the queue."""
        place = self._places.get(job)
        if place is not None:
            self._run(place).columns = None

    def columns(self) -> tuple[Sequence[OptionTable], Sequence[Ages]]:
        """Return the efficient options and the ages of all jobs, by run."""
        for run in self._runs:
            if run.columns is None:
                offers = OptionTable.of([one.table.efficient for one in run.entries])
                run.columns = offers, ages_of(run.entries, [one.done for one in run.entries])
        found = [run.columns for run in self._runs if run.columns is not None]
        return [offers for offers, _ in found], [ages for _, ages in found]

    def _run(self, place: tuple[int, int]) -> _JobBlock:
        """Return the run that contains a place, or would contain it."""
        if place >= self._runs[-1].places[0]:
            return self._runs[-1]  # Most jobs come last.
        after = bisect_right(self._runs, place, key=lambda run: run.places[0])
        return self._runs[max(after - 1, 0)]


def ages_of(entries: Sequence[ParmJob], done: Sequence[float]) -> Ages:
    """Return the ages of jobs with these completed shares."""
    asks = [one.ask for one in entries]
    return Ages(
        slowest_s=np.asarray([one.table.slowest_s for one in entries], dtype=np.float64),
        done=np.asarray(done, dtype=np.float64),
        submitted_ns=np.asarray([ask.submitted_ns for ask in asks], dtype=np.int64),
        priority=np.asarray([ask.priority for ask in asks], dtype=np.float64),
    )
