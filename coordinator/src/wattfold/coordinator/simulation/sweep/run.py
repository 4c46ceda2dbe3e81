"""A sweep: the cases without a stored result are run, each result is stored when it comes.

A sweep that is stopped, by Ctrl-C or a power cut, goes on where it was when it is started again. A
case that fails does not stop the others; it is listed, not stored, and tried again the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, cast

from wattfold.coordinator.simulation.sweep.case import (
    Case,
    Done,
    Failed,
    Measure,
    Outcome,
    case_key,
)
from wattfold.coordinator.simulation.sweep.progress import Silent, SweepProgress
from wattfold.coordinator.simulation.sweep.store import ResultStore


class Backend(Protocol):
    """Where cases run."""

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        """Position and outcome of every case, as they come; stops the rest when closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that failed, for people."""

    label: str
    key: str
    reason: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Values of every case by its key; cases that failed are in ``failures`` only."""

    done: Mapping[str, Done]
    failures: tuple[Failure, ...]
    stored: int
    """Cases that had a result before."""
    broken: tuple[str, ...]
    """Files that were no results and have been made again."""


def run_sweep(
    cases: Sequence[Case],
    measure: Measure,
    *,
    version: str,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> SweepResult:
    """Runs all cases that have no result yet; equal cases are run once.

    Raises OSError where a result cannot be stored, and what the backend raises.
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
        # Closed here, also on Ctrl-C: the processes of the backend end with it.
        with closing(cast("_Closable", outcomes)):
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
                progress.ended(case.label, isinstance(outcome, Failed))
    return SweepResult(
        done=done, failures=tuple(failures), stored=stored, broken=tuple(store.broken)
    )


class _Closable(Protocol):
    def close(self) -> None: ...


def _kept(store: ResultStore, key: str, case: Case, outcome: Outcome) -> Outcome:
    """The outcome, stored; a result of no finite numbers is a failure of its case."""
    if isinstance(outcome, Failed):
        return outcome
    try:
        store.put(key, case, outcome)
    except ValueError as error:
        return Failed(reason=str(error))
    return outcome
