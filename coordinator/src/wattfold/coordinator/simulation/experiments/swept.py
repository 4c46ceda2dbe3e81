"""The cases of an evaluation, run: what all papers that are run again have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from wattfold.coordinator.simulation.experiments.samples import Samples
from wattfold.coordinator.simulation.sweep.case import Case, Measure, code_version
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend, Failure, SweepResult, run_sweep
from wattfold.coordinator.simulation.sweep.store import ResultStore

S = TypeVar("S", bound=Samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How the cases of an evaluation went."""

    failures: tuple[Failure, ...] = ()
    cases: int = 0
    stored: int = 0
    """Cases that had a result before."""
    broken: tuple[str, ...] = ()
    """Files that were no results and have been made again."""
    core_s: float = 0.0
    """Processor time of all cases, also of those from before."""

    def __add__(self, later: Totals) -> Totals:
        """With those of other cases, run later with the same store."""
        return Totals(
            failures=self.failures + later.failures,
            cases=self.cases + later.cases,
            stored=self.stored + later.stored,
            broken=tuple(dict.fromkeys(self.broken + later.broken)),
            core_s=self.core_s + later.core_s,
        )

    @classmethod
    def of(cls, result: SweepResult) -> Totals:
        """Of a sweep."""
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
    """Runs the cases that have no result yet, in this order. ``decides``: modules that results
    depend on; ``kind``: what the samples are to be.

    Raises OSError where a result cannot be stored, and what the backend raises.
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
