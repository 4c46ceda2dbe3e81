"""The five experiments by name, and the evaluation of some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattfold.simulator.papers.parm import cluster, fairness, large, levels, naive
from wattfold.simulator.papers.parm.case import ParmCase
from wattfold.simulator.papers.parm.measure import measure
from wattfold.simulator.papers.parm.outcomes import Outcomes, ParmPlan, Point
from wattfold.simulator.papers.swept import Totals, swept
from wattfold.simulator.papers.verdicts import Judgement
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore

_DECIDES = (
    "wattfold.contract",
    "wattfold.coordinator.models",
    "wattfold.coordinator.policies",
    "wattfold.coordinator.solvers",
    "wattfold.simulator.engine",
    "wattfold.simulator.workloads",
    "wattfold.simulator.results.job_values",
    "wattfold.simulator.results.metrics",
    "wattfold.simulator.papers.parm.jobs",
    "wattfold.simulator.papers.parm.measure",
    "wattfold.simulator.papers.parm.settings",
)
"""Modules whose source determines the results. Claims, rules and plots are computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmExperiment:
    """One of the five experiments."""

    name: str
    title: str
    needs_log: bool
    cases: Callable[[ParmPlan], list[ParmCase]]
    points: Callable[[ParmPlan, Outcomes], list[Point]]
    judgements: Callable[[ParmPlan, Outcomes], list[Judgement]]


EXPERIMENTS: dict[str, ParmExperiment] = {
    item.name: item
    for item in (
        ParmExperiment(
            name=cluster.NAME,
            title="Cluster of 38 nodes under 3300 W (section VI, Figure 4)",
            needs_log=False,
            cases=cluster.cases,
            points=cluster.points,
            judgements=cluster.judgements,
        ),
        ParmExperiment(
            name=large.NAME,
            title="Large machine under 4.75 MW (section VII-C, Figure 5, Table V)",
            needs_log=True,
            cases=large.cases,
            points=large.points,
            judgements=large.judgements,
        ),
        ParmExperiment(
            name=naive.NAME,
            title="Naive overprovisioning (section VII-D, Table VI)",
            needs_log=True,
            cases=naive.cases,
            points=naive.points,
            judgements=naive.judgements,
        ),
        ParmExperiment(
            name=fairness.NAME,
            title="Fairness and throughput (section VII-E, Figure 6)",
            needs_log=True,
            cases=fairness.cases,
            points=fairness.points,
            judgements=fairness.judgements,
        ),
        ParmExperiment(
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
class ExperimentFindings:
    """Findings of one experiment."""

    experiment: ParmExperiment
    plan: ParmPlan
    points: tuple[Point, ...]
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmEvaluation:
    """Findings of several experiments."""

    findings: tuple[ExperimentFindings, ...]
    totals: Totals


def evaluate(
    plans: Sequence[tuple[ParmExperiment, ParmPlan]],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> ParmEvaluation:
    """Run all cases without a result and judge every claim.

    Raises ValueError for an experiment without the log that it needs, OSError if a result cannot be
    stored, and the errors of the backend.
    """
    cases = [case for experiment, plan in plans for case in experiment.cases(plan)]
    # Expensive cases come first, so that no long case remains on a single core at the end.
    cases.sort(key=_cost, reverse=True)
    outcomes, totals = swept(
        cases, measure, _DECIDES, Outcomes, store=store, backend=backend, progress=progress
    )
    return ParmEvaluation(
        findings=tuple(
            ExperimentFindings(
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
    """Return a rough cost: a planning round costs more with more waiting jobs and more options."""
    if case.is_baseline:
        return 0.0
    return len(case.caps_w) / case.gamma * (100.0 if case.log else 1.0)
