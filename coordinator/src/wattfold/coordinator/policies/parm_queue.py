"""The jobs that wait, in order of submission, and what a decision needs of them in columns.

The columns are kept by runs of jobs that follow each other. A decision gathers those of a run anew
only where a job has come, gone or changed since the last one, and then joins the runs: with ten
thousand jobs, some forty arrays a column.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from wattfold.coordinator.policies.parm_choice import Ages, Offers
from wattfold.coordinator.policies.parm_entry import Entry

RUN_MAX = 512
"""Jobs of a run, which is halved beyond that."""


class _Run:
    """Jobs that follow each other, at least one between two calls of the queue."""

    def __init__(self, entries: list[Entry], places: list[tuple[int, int]]) -> None:
        self.entries, self.places = entries, places
        self.columns: tuple[Offers, Ages] | None = None


class Queue:
    """Jobs that wait, each at the place it had when it came."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._places: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job: int) -> bool:
        return job in self._places

    def __iter__(self) -> Iterator[Entry]:
        return (one for run in self._runs for one in run.entries)

    def add(self, one: Entry) -> None:
        """One that is not there."""
        place = self._places[one.job] = one.place
        if not self._runs:
            self._runs.append(_Run([one], [place]))
            return
        run = self._run(place)
        at = bisect_left(run.places, place)
        run.entries.insert(at, one)
        run.places.insert(at, place)
        run.columns = None
        if len(run.places) > RUN_MAX:
            half = len(run.places) // 2
            self._runs.insert(
                self._runs.index(run) + 1, _Run(run.entries[half:], run.places[half:])
            )
            del run.entries[half:], run.places[half:]

    def pop(self, job: int) -> None:
        """Takes one out, if it is there."""
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
        """One that may be there is other than it was."""
        place = self._places.get(job)
        if place is not None:
            self._run(place).columns = None

    def columns(self) -> tuple[Sequence[Offers], Sequence[Ages]]:
        """Of all jobs, run by run: the options that may be in a best plan, and their ages."""
        for run in self._runs:
            if run.columns is None:
                offers = Offers.of([one.table.efficient for one in run.entries])
                run.columns = offers, ages_of(run.entries, [one.done for one in run.entries])
        found = [run.columns for run in self._runs if run.columns is not None]
        return [offers for offers, _ in found], [ages for _, ages in found]

    def _run(self, place: tuple[int, int]) -> _Run:
        """Where such a place is, or would be."""
        after = bisect_right(self._runs, place, key=lambda run: run.places[0])
        return self._runs[max(after - 1, 0)]


def ages_of(entries: Sequence[Entry], done: Sequence[float]) -> Ages:
    """The ages of jobs of which so much is done."""
    asks = [one.ask for one in entries]
    return Ages(
        slowest_s=np.asarray([one.table.slowest_s for one in entries], dtype=np.float64),
        done=np.asarray(done, dtype=np.float64),
        submitted_ns=np.asarray([ask.submitted_ns for ask in asks], dtype=np.int64),
        priority=np.asarray([ask.priority for ask in asks], dtype=np.float64),
    )
