"""Evaluations by families of cases: each is run, and what is claimed of it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from wattfold.coordinator.simulation.experiments.samples import Samples
from wattfold.coordinator.simulation.experiments.swept import Totals, swept
from wattfold.coordinator.simulation.experiments.verdicts import Judgement
from wattfold.coordinator.simulation.sweep.case import Measure
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore

P = TypeVar("P")
F = TypeVar("F")
S = TypeVar("S", bound=Samples)


# Without slots: Python 3.11 cannot make frozen ones with them by the name of a `Generic[...]`.
@dataclass(frozen=True, kw_only=True)
class Findings(Generic[P, F]):
    """What one family came to; ``title`` is for people. ``family``: its name, or all that it is."""

    family: F
    title: str
    plan: P
    samples: Samples
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, kw_only=True)
class Evaluation(Generic[P, F]):
    """What all came to."""

    plan: P
    findings: tuple[Findings[P, F], ...]
    totals: Totals


def evaluated(
    plan: P,
    families: Sequence[F],
    cases: Sequence[object],
    measure: Measure,
    decides: Sequence[str],
    findings_of: Callable[[P, F, Samples], Findings[P, F]],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> Evaluation[P, F]:
    """Runs what has no result yet, in this order, and judges every claim. ``decides``: as `swept`.

    Raises OSError where a result cannot be stored, and what the backend raises.
    """
    samples, totals = swept(
        cases, measure, decides, Samples, store=store, backend=backend, progress=progress
    )
    return judged_all(plan, families, findings_of, samples, totals)


def judged_all(
    plan: P,
    families: Sequence[F],
    findings_of: Callable[[P, F, S], Findings[P, F]],
    samples: S,
    totals: Totals,
) -> Evaluation[P, F]:
    """Judges every claim by what the cases gave."""
    findings = tuple(findings_of(plan, family, samples) for family in families)
    return Evaluation(plan=plan, findings=findings, totals=totals)
