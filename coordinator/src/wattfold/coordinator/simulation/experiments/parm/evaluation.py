"""The five experiments by name, and what one run of some of them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattfold.coordinator.simulation.experiments.parm import (
    cluster,
    fairness,
    large,
    levels,
    naive,
)
from wattfold.coordinator.simulation.experiments.parm.case import ParmCase
from wattfold.coordinator.simulation.experiments.parm.measure import measure
from wattfold.coordinator.simulation.experiments.parm.outcomes import Outcomes, Plan, Point
from wattfold.coordinator.simulation.experiments.swept import Totals, swept
from wattfold.coordinator.simulation.experiments.verdicts import Judgement
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore

_DECIDES = (
    "wattfold.contract",
    "wattfold.coordinator.models",
    "wattfold.coordinator.policies",
    "wattfold.coordinator.solvers",
    "wattfold.coordinator.simulation.pool",
    "wattfold.coordinator.simulation.workloads",
    "wattfold.coordinator.simulation.results.job_values",
    "wattfold.coordinator.simulation.results.metrics",
    "wattfold.coordinator.simulation.experiments.parm.jobs",
    "wattfold.coordinator.simulation.experiments.parm.measure",
    "wattfold.coordinator.simulation.experiments.parm.settings",
)
"""What decides a result by its source. Claims, rules and figures do not: they are read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One of the five."""

    name: str
    title: str
    needs_log: bool
    cases: Callable[[Plan], list[ParmCase]]
    points: Callable[[Plan, Outcomes], list[Point]]
    judgements: Callable[[Plan, Outcomes], list[Judgement]]


EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        Experiment(
            name=cluster.NAME,
            title="Cluster of 38 nodes under 3300 W (section VI, Figure 4)",
            needs_log=False,
            cases=cluster.cases,
            points=cluster.points,
            judgements=cluster.judgements,
        ),
        Experiment(
            name=large.NAME,
            title="Large machine under 4.75 MW (section VII-C, Figure 5, Table V)",
            needs_log=True,
            cases=large.cases,
            points=large.points,
            judgements=large.judgements,
        ),
        Experiment(
            name=naive.NAME,
            title="Naive overprovisioning (section VII-D, Table VI)",
            needs_log=True,
            cases=naive.cases,
            points=naive.points,
            judgements=naive.judgements,
        ),
        Experiment(
            name=fairness.NAME,
            title="Fairness and throughput (section VII-E, Figure 6)",
            needs_log=True,
            cases=fairness.cases,
            points=fairness.points,
            judgements=fairness.judgements,
        ),
        Experiment(
            name=levels.NAME,
            title="Number of power levels (section VII-F, Figure 7)",
            needs_log=True,
            cases=levels.cases,
            points=levels.points,
            judgements=levels.judgements,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one experiment came to."""

    experiment: Experiment
    plan: Plan
    points: tuple[Point, ...]
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What several experiments came to."""

    findings: tuple[Findings, ...]
    totals: Totals


def evaluate(
    plans: Sequence[tuple[Experiment, Plan]],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Runs what has no result yet and judges every claim.

    Raises ValueError for an experiment without the log it needs, OSError where a result cannot be
    stored, and what the backend raises.
    """
    cases = [case for experiment, plan in plans for case in experiment.cases(plan)]
    # The dear ones first, so that no core is left alone with one at the end.
    cases.sort(key=_cost, reverse=True)
    outcomes, totals = swept(
        cases, measure, _DECIDES, Outcomes, store=store, backend=backend, progress=progress
    )
    return Evaluation(
        findings=tuple(
            Findings(
                experiment=experiment,
                plan=plan,
                points=tuple(experiment.points(plan, outcomes)),
                judgements=tuple(experiment.judgements(plan, outcomes)),
            )
            for experiment, plan in plans
        ),
        totals=totals,
    )


def _cost(case: ParmCase) -> float:
    """A rough order: a planning round costs more the more jobs wait and the more options."""
    if case.is_baseline:
        return 0.0
    return len(case.caps_w) / case.gamma * (100.0 if case.log else 1.0)
