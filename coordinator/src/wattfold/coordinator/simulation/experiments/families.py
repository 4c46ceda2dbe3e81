"""Evaluations by families of cases: each is run, and what is claimed of it is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from wattfold.coordinator.simulation.experiments.samples import Samples
from wattfold.coordinator.simulation.experiments.swept import Totals, swept
from wattfold.coordinator.simulation.experiments.verdicts import Judgement
from wattfold.coordinator.simulation.sweep.case import Measure
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore


class Planned(Protocol):
    """What is to be run."""

    def cases(self, family: str) -> Sequence[object]:
        """The cases of a family, in the order in which they are begun."""


P = TypeVar("P", bound=Planned)


# Without slots: Python 3.11 cannot make frozen ones with them by the name of a `Generic[...]`.
@dataclass(frozen=True, kw_only=True)
class Findings(Generic[P]):
    """What one family came to; ``title`` is for people."""

    family: str
    title: str
    plan: P
    samples: Samples
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, kw_only=True)
class Evaluation(Generic[P]):
    """What all came to."""

    plan: P
    findings: tuple[Findings[P], ...]
    totals: Totals


def evaluated(
    plan: P,
    families: Sequence[str],
    measure: Measure,
    decides: Sequence[str],
    findings_of: Callable[[P, str, Samples], Findings[P]],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> Evaluation[P]:
    """Runs what has no result yet and judges every claim. ``decides``: as of `swept`.

    Raises OSError where a result cannot be stored, and what the backend raises.
    """
    cases = [case for family in families for case in plan.cases(family)]
    samples, totals = swept(
        cases, measure, decides, Samples, store=store, backend=backend, progress=progress
    )
    return Evaluation(
        plan=plan,
        findings=tuple(findings_of(plan, family, samples) for family in families),
        totals=totals,
    )
