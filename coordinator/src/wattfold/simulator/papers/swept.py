"""Execution of the cases of an evaluation, common to all reproduced papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.sweep.case import Case, Measure, code_version
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend, Failure, SweepResult, run_sweep
from wattfold.simulator.sweep.store import ResultStore

S = TypeVar("S", bound=Samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals of the cases of an evaluation."""

    failures: tuple[Failure, ...] = ()
    cases: int = 0
    stored: int = 0
    """Cases with an earlier result."""
    broken: tuple[str, ...] = ()
    """Invalid files whose results were computed again."""
    core_s: float = 0.0
    """CPU time of all cases, including earlier runs."""

    def __add__(self, later: Totals) -> Totals:
        """Add the totals of other cases, run later with the same store."""
        return Totals(
            failures=self.failures + later.failures,
            cases=self.cases + later.cases,
            stored=self.stored + later.stored,
            broken=tuple(dict.fromkeys(self.broken + later.broken)),
            core_s=self.core_s + later.core_s,
        )

    @classmethod
    def of(cls, result: SweepResult) -> Totals:
        """Return the totals of a sweep."""
        return cls(
            failures=result.failures,
            cases=len(result.done) + len(result.failures),
            stored=result.stored,
            broken=result.broken,
            core_s=sum(done.cpu_s for done in result.done.values()),
        )


def swept(
    cases: Sequence[object],
    measure: Measure,
    decides: Sequence[str],
    kind: type[S],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> tuple[S, Totals]:
    """Run the cases without a result, in this order.

    ``decides``: modules that determine the results; ``kind``: type of the samples. Raises OSError
    if a result cannot be stored, and the errors of the backend.
    """
    version = code_version(decides)
    result = run_sweep(
        cast("Sequence[Case]", cases),
        measure,
        version=version,
        store=store,
        backend=backend,
        progress=progress,
    )
    return kind(result.done, version), Totals.of(result)
