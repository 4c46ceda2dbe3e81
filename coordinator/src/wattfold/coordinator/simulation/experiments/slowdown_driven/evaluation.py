"""The experiments by name, and what one run of some of them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattfold.coordinator.simulation.experiments import families
from wattfold.coordinator.simulation.experiments.samples import Samples
from wattfold.coordinator.simulation.experiments.slowdown_driven import curie, limits, models
from wattfold.coordinator.simulation.experiments.slowdown_driven.case import (
    SOURCES,
    STATIC,
    Plan,
    SlowdownCase,
)
from wattfold.coordinator.simulation.experiments.slowdown_driven.measure import measure
from wattfold.coordinator.simulation.experiments.slowdown_driven.shared import SharedSamples
from wattfold.coordinator.simulation.experiments.swept import Totals, swept
from wattfold.coordinator.simulation.experiments.verdicts import Judgement
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore

_POLICIES = "wattfold.coordinator.policies."
_SIMULATION = "wattfold.coordinator.simulation."
_DECIDES = (
    "wattfold.contract",
    "wattfold.coordinator.models.amdahl",
    *(
        _POLICIES + name
        for name in (
            "backfill",
            "easy",
            "reservations",
            "slowdown_driven_choice",
            "slowdown_driven_counted",
            "slowdown_driven_lenders",
            "slowdown_driven_pool",
            "slowdown_driven_queue",
            "slowdown_driven_rules",
        )
    ),
    *(
        _SIMULATION + name
        for name in (
            "pool",
            "workloads",
            "results.categories",
            "results.job_values",
            "results.metrics",
            "experiments.slowdown_driven.jobs",
            "experiments.slowdown_driven.measure",
        )
    ),
)
"""What decides a result by its source. Claims, rules and figures do not: they are read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One of the paper's experiments that are simulated."""

    name: str
    title: str
    cases: Callable[[Plan], list[SlowdownCase]]
    judgements: Callable[[Plan, Samples], list[Judgement]]
    workload: str = ""
    """The one it is about; empty: all."""


EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        Experiment(
            name="a",
            title="MAX_SLOWDOWN on workloads 1 to 4 (section 4.1, Table 1, Figures 1 to 3)",
            cases=limits.cases,
            judgements=limits.judgements,
        ),
        Experiment(
            name="b",
            title="Curie by category and by day (section 4.2, Figures 4 to 7)",
            cases=curie.cases,
            judgements=curie.judgements,
            workload=curie.WORKLOAD,
        ),
        Experiment(
            name="c",
            title="Ideal and worst-case model of run times (section 4.3, Figure 8)",
            cases=models.cases,
            judgements=models.judgements,
        ),
    )
}


Findings = families.Findings[Plan, Experiment]
Evaluation = families.Evaluation[Plan, Experiment]


def evaluate(
    plan: Plan,
    experiments: Sequence[Experiment],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Runs what has no result yet and judges every claim.

    Raises OSError where a result cannot be stored, and what the backend raises.
    """
    cases = [case for experiment in experiments for case in experiment.cases(plan)]
    # The dear ones first, so that no core is left alone with one at the end.
    cases.sort(key=_order)
    samples, totals = _swept_by_limit(cases, store, backend, progress)
    return families.judged_all(plan, experiments, _findings_of, samples, totals)


def _findings_of(plan: Plan, experiment: Experiment, samples: Samples) -> Findings:
    return Findings(
        family=experiment,
        title=experiment.title,
        plan=plan,
        samples=samples,
        judgements=tuple(experiment.judgements(plan, samples)),
    )


def _swept_by_limit(
    cases: Sequence[SlowdownCase],
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> tuple[SharedSamples, Totals]:
    """Fixed limits from the greatest on down, without those that run as a greater one did."""
    samples, totals = SharedSamples({}, ""), Totals()
    left = list(dict.fromkeys(cases))
    for limit in (None, *sorted({case.limit for case in left if case.limit}, reverse=True)):
        chosen = [case for case in left if case.limit == limit and not samples.known(case)]
        found, more = swept(
            chosen,
            measure,
            _DECIDES,
            SharedSamples,
            store=store,
            backend=backend,
            progress=progress,
        )
        samples, totals = found.joined(samples), totals + more
    return samples, totals


_DEAR = tuple(reversed(SOURCES))


def _order(case: SlowdownCase) -> tuple[int, int, bool]:
    """A log of years before a week, cases of the same jobs together, sharing before backfill."""
    return _DEAR.index(case.workload), case.seed, case.policy == STATIC
