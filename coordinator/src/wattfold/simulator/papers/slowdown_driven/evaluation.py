"""The experiments by name, and the evaluation of some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wattfold.simulator.papers import families
from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.slowdown_driven import curie, gain, limits, models
from wattfold.simulator.papers.slowdown_driven.case import (
    AFTER,
    BEFORE,
    READINGS,
    SOURCES,
    STATIC,
    SlowdownCase,
    SlowdownPlan,
)
from wattfold.simulator.papers.slowdown_driven.measure import measure
from wattfold.simulator.papers.slowdown_driven.shared import SharedSamples
from wattfold.simulator.papers.swept import Totals, swept
from wattfold.simulator.papers.verdicts import Judgement
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore

_DECIDES = (
    "wattfold.contract",
    "wattfold.coordinator.models.amdahl",
    *(
        f"wattfold.coordinator.policies.{name}"
        for name in ("backfill", "resources", "slowdown_driven")
    ),
    *(
        f"wattfold.simulator.{name}"
        for name in (
            "engine",
            "workloads",
            "results.categories",
            "results.job_values",
            "results.metrics",
            "papers.slowdown_driven.jobs",
            "papers.slowdown_driven.measure",
        )
    ),
)
"""Modules whose source determines the results. Claims, rules and plots are computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownExperiment:
    """One of the paper's simulated experiments."""

    name: str
    title: str
    cases: Callable[[SlowdownPlan], list[SlowdownCase]]
    judgements: Callable[[SlowdownPlan, Samples], list[Judgement]]
    workload: str = ""
    """The workload of the experiment; empty: all."""
    readings: tuple[str, ...] = READINGS
    """Readings in which it is run."""

    def plans(self, plan: SlowdownPlan) -> tuple[SlowdownPlan, ...]:
        """Return a plan for every reading."""
        return tuple(replace(plan, mate_end=reading) for reading in self.readings)


EXPERIMENTS: dict[str, SlowdownExperiment] = {
    item.name: item
    for item in (
        SlowdownExperiment(
            name="a",
            title="MAX_SLOWDOWN on workloads 1 to 4 (section 4.1, Table 1, Figures 1 to 3)",
            cases=limits.cases,
            judgements=limits.judgements,
        ),
        SlowdownExperiment(
            name="b",
            title="Curie by category and by day (section 4.2, Figures 4 to 7)",
            cases=curie.cases,
            judgements=curie.judgements,
            workload=curie.WORKLOAD,
        ),
        SlowdownExperiment(
            name="c",
            title="Ideal and worst-case model of run times (section 4.3, Figure 8)",
            cases=models.cases,
            judgements=models.judgements,
        ),
        SlowdownExperiment(
            name="gain",
            title="Worth it (ours): its gain, chosen on other logs than those of Table 1",
            cases=gain.cases,
            judgements=gain.judgements,
            readings=(BEFORE,),
        ),
    )
}


Findings = families.FamilyFindings[SlowdownPlan, SlowdownExperiment]
Evaluation = families.FamilyEvaluation[SlowdownPlan, SlowdownExperiment]


def evaluate(
    plan: SlowdownPlan,
    experiments: Sequence[SlowdownExperiment],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Run all cases without a result and judge every claim.

    Raises OSError if a result cannot be stored, and the errors of the backend.
    """
    cases = [
        case
        for experiment in experiments
        for reading in experiment.plans(plan)
        for case in experiment.cases(reading)
    ]
    # Expensive cases come first, so that no long case remains on a single core at the end.
    cases.sort(key=_order)
    samples, totals = _swept_by_limit(cases, store, backend, progress)
    findings = tuple(
        _findings_of(reading, experiment, samples)
        for experiment in experiments
        for reading in experiment.plans(plan)
    )
    return Evaluation(plan=plan, findings=findings, totals=totals)


READING_TITLES = {
    BEFORE: "guests end before their mates would without them",
    AFTER: "guests end before their mates, which they delay",
}


def _findings_of(plan: SlowdownPlan, experiment: SlowdownExperiment, samples: Samples) -> Findings:
    """Return the findings in the reading of a plan. The keys of its claims end with the reading."""
    reading = plan.mate_end
    return Findings(
        family=experiment,
        title=f"{experiment.title}: {READING_TITLES[reading]}",
        plan=plan,
        samples=samples,
        judgements=tuple(
            replace(one, claim=replace(one.claim, key=f"{one.claim.key}.{reading}"))
            for one in experiment.judgements(plan, samples)
        ),
    )


def _swept_by_limit(
    cases: Sequence[SlowdownCase],
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None,
) -> tuple[SharedSamples, Totals]:
    """Run fixed limits in descending order, without cases that equal a run under a higher limit."""
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
    """Order cases: a log of years before a week, cases of the same jobs together, sharing first."""
    return _DEAR.index(case.workload), case.seed, case.policy == STATIC
