"""Evaluations by families of cases: each is run, and its claims are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.swept import Totals, swept
from wattfold.simulator.papers.verdicts import Judgement
from wattfold.simulator.sweep.case import Measure
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore

P = TypeVar("P")
F = TypeVar("F")
S = TypeVar("S", bound=Samples)


# Without slots: Python 3.11 cannot create frozen slotted classes under the name `Generic[...]`.
@dataclass(frozen=True, kw_only=True)
class FamilyFindings(Generic[P, F]):
    """Results of a family; ``title`` is for people.

    ``family``: its name, or its full description.
    """

    family: F
    title: str
    plan: P
    samples: Samples
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, kw_only=True)
class FamilyEvaluation(Generic[P, F]):
    """Results of all families."""

    plan: P
    findings: tuple[FamilyFindings[P, F], ...]
    totals: Totals


def evaluated(
    plan: P,
    families: Sequence[F],
    cases: Sequence[object],
    measure: Measure,
    decides: Sequence[str],
    findings_of: Callable[[P, F, Samples], FamilyFindings[P, F]],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> FamilyEvaluation[P, F]:
    """Run the cases without a result, in this order, and judge every claim.

    ``decides``: as in `swept`. Raises OSError if a result cannot be stored, and the errors of the
    backend.
    """
    samples, totals = swept(
        cases, measure, decides, Samples, store=store, backend=backend, progress=progress
    )
    return judged_all(plan, families, findings_of, samples, totals)


def judged_all(
    plan: P,
    families: Sequence[F],
    findings_of: Callable[[P, F, S], FamilyFindings[P, F]],
    samples: S,
    totals: Totals,
) -> FamilyEvaluation[P, F]:
    """Judge every claim with the results of the cases."""
    findings = tuple(findings_of(plan, family, samples) for family in families)
    return FamilyEvaluation(plan=plan, findings=findings, totals=totals)
