"""Sweep that runs the cases without a stored result, and stores each result as it arrives.

A sweep stopped by Ctrl-C or a power cut continues where it stopped when it is started again. A
failed case does not stop the others; it is listed, not stored, and tried again the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, cast

from wattfold.simulator.sweep.case import (
    Case,
    Done,
    FailedCase,
    Measure,
    Outcome,
    case_key,
)
from wattfold.simulator.sweep.progress import Silent, SweepProgress
from wattfold.simulator.sweep.store import ResultStore


class Backend(Protocol):
    """Place where cases run."""

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        """Yield position and outcome of every case, as they end; closing it stops the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed case, for people."""

    label: str
    key: str
    reason: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Values of every case by its key; failed cases are only in ``failures``."""

    done: Mapping[str, Done]
    failures: tuple[Failure, ...]
    stored: int
    """Cases with an earlier result."""
    broken: tuple[str, ...]
    """Invalid files whose results were computed again."""


def run_sweep(
    cases: Sequence[Case],
    measure: Measure,
    *,
    version: str,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> SweepResult:
    """Run all cases that have no result yet; equal cases are run once.

    Raises OSError if a result cannot be stored, and the errors of the backend.
    """
    progress = progress or Silent()
    keyed = {case_key(case, version): case for case in cases}
    done: dict[str, Done] = {}
    for key in keyed:
        known = store.get(key)
        if known is not None:
            done[key] = known
    stored = len(done)
    missing = [key for key in keyed if key not in done]
    progress.start(len(keyed), stored)
    failures: list[Failure] = []
    if missing:
        outcomes = backend.outcomes(measure, [keyed[key] for key in missing])
        # Closed here, also on Ctrl-C, which ends the processes of the backend.
        with closing(cast(Closable, outcomes)):
            for position, outcome in outcomes:
                key = missing[position]
                case = keyed[key]
                outcome = _kept(store, key, case, outcome)
                if isinstance(outcome, Done):
                    done[key] = outcome
                else:
                    failures.append(
                        Failure(
                            label=case.label, key=key, reason=outcome.reason, trace=outcome.trace
                        )
                    )
                progress.ended(case.label, isinstance(outcome, FailedCase))
    return SweepResult(
        done=done, failures=tuple(failures), stored=stored, broken=tuple(store.broken)
    )


class Closable(Protocol):
    """An iterator that ends its processes when it is closed."""

    def close(self) -> None:
        """End what still runs."""


def _kept(store: ResultStore, key: str, case: Case, outcome: Outcome) -> Outcome:
    """Store and return the outcome; a result with a number that is not finite is a failure."""
    if isinstance(outcome, FailedCase):
        return outcome
    try:
        store.put(key, case, outcome)
    except ValueError as error:
        return FailedCase(reason=str(error))
    return outcome
