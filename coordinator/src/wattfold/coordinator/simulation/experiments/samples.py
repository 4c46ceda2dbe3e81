"""Results of cases as samples, and claims judged by them; undecided where a case is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from wattfold.coordinator.simulation.experiments.verdicts import Claim, Judgement, Ruling, Verdict
from wattfold.coordinator.simulation.results.intervals import Interval
from wattfold.coordinator.simulation.sweep.case import Case, Done, Values, case_key
from wattfold.coordinator.simulation.workloads.workload import Floats


class MissingError(Exception):
    """A case that failed; what needs it cannot be said."""


class Samples:
    """The values of all cases that gave some."""

    def __init__(self, done: Mapping[str, Done], version: str) -> None:
        self._done = done
        self._version = version

    def joined(self, other: Samples) -> Self:
        """With the values of others, which the same version of the code gave."""
        return type(self)({**other._done, **self._done}, self._version)

    def values(self, case: Case) -> Values:
        """Everything a case gave. Raises MissingError."""
        done = self._done.get(case_key(case, self._version))
        if done is None:
            raise MissingError(case.label)
        return done.values

    def sample(self, cases: Sequence[Case], measure: str) -> Floats:
        """A measure of these cases, in their order. Raises MissingError."""
        return np.array([self.values(case)[measure] for case in cases], dtype=np.float64)


def judged(claim: Claim, judge: Callable[[], tuple[str, Ruling, Interval | None]]) -> Judgement:
    """A claim beside what was measured; undecided where cases are missing."""
    try:
        measured, ruling, interval = judge()
    except MissingError as error:
        return Judgement(
            claim=claim, measured="-", verdict=Verdict.UNDECIDED, why=f"no result of {error}"
        )
    return Judgement(
        claim=claim, measured=measured, verdict=ruling.verdict, why=ruling.why, interval=interval
    )
