"""Results of cases as samples, and judgement of claims; undecided if a case is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from wattfold.simulator.papers.verdicts import Claim, Judgement, Ruling, Verdict
from wattfold.simulator.results.intervals import Interval
from wattfold.simulator.sweep.case import Case, Done, Values, case_key
from wattfold.simulator.workloads.workload import Floats


class MissingError(Exception):
    """A failed case, without which a claim cannot be judged."""


class Samples:
    """Values of all cases with a result."""

    def __init__(self, done: Mapping[str, Done], version: str) -> None:
        self._done = done
        self._version = version

    def joined(self, other: Samples) -> Self:
        """Return these values with others from the same version of the code."""
        return type(self)({**other._done, **self._done}, self._version)

    def values(self, case: Case) -> Values:
        """Return all values of a case. Raises MissingError."""
        done = self._done.get(case_key(case, self._version))
        if done is None:
            raise MissingError(case.label)
        return done.values

    def sample(self, cases: Sequence[Case], measure: str) -> Floats:
        """Return a measure of these cases, in their order. Raises MissingError."""
        return np.array([self.values(case)[measure] for case in cases], dtype=np.float64)


def judged(claim: Claim, judge: Callable[[], tuple[str, Ruling, Interval | None]]) -> Judgement:
    """Return a claim with its measurement; undecided if cases are missing."""
    try:
        measured, ruling, interval = judge()
    except MissingError as error:
        return Judgement(
            claim=claim, measured="-", verdict=Verdict.UNDECIDED, why=f"no result of {error}"
        )
    return Judgement(
        claim=claim, measured=measured, verdict=ruling.verdict, why=ruling.why, interval=interval
    )
