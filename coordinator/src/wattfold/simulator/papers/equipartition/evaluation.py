"""The two experiments of the evaluation, their claims, and the results of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.simulator.papers import families
from wattfold.simulator.papers.equipartition.case import (
    ADAPTIVE,
    STALLED,
    TRADITIONAL,
    EquipartitionPlan,
)
from wattfold.simulator.papers.equipartition.measure import measure
from wattfold.simulator.papers.equipartition.settings import LOADS
from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    interval_text,
    worst,
)
from wattfold.simulator.results.intervals import (
    Interval,
    mean_interval,
    ratio_of_means,
)
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore

_DECIDES = (
    "wattfold.contract",
    "wattfold.coordinator.policies.equipartition",
    "wattfold.coordinator.policies.resources.uniform_level",
    *(f"wattfold.simulator.{name}" for name in ("engine", "results.metrics")),
    *(f"wattfold.simulator.papers.equipartition.{name}" for name in ("case", "measure")),
)
"""Modules whose source determines the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipartitionExperiment:
    """Runs of one length at all loads."""

    name: str
    title: str
    jobs: int
    figures: str
    """Figures of the paper."""


def experiments(plan: EquipartitionPlan) -> tuple[EquipartitionExperiment, ...]:
    """Return the experiments: as on the paper's cluster, and as in its simulation."""
    short, long = plan.lengths
    return (
        EquipartitionExperiment(
            name="cluster",
            title=f"{short} jobs (section 5, Figures 7 and 8; there on a cluster, here simulated)",
            jobs=short,
            figures="Figures 7, 8",
        ),
        EquipartitionExperiment(
            name="simulation",
            title=f"{long:,} jobs (section 5, Figures 9 and 10)",
            jobs=long,
            figures="Figures 9, 10",
        ),
    )


Findings = families.FamilyFindings[EquipartitionPlan, EquipartitionExperiment]
Evaluation = families.FamilyEvaluation[EquipartitionPlan, EquipartitionExperiment]


def evaluate(
    plan: EquipartitionPlan,
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Run all cases without a result and judge every claim. Raises as `evaluated` does."""
    chosen = experiments(plan)
    return families.evaluated(
        plan,
        chosen,
        [case for one in reversed(chosen) for case in plan.all_cases(one.jobs)],
        measure,
        _DECIDES,
        _findings_of,
        store=store,
        backend=backend,
        progress=progress,
    )


def _findings_of(
    plan: EquipartitionPlan, experiment: EquipartitionExperiment, samples: Samples
) -> Findings:
    return Findings(
        family=experiment,
        title=experiment.title,
        plan=plan,
        samples=samples,
        judgements=tuple(_judgements(plan, experiment, samples)),
    )


def curve(findings: Findings, scheduler: str, name: str) -> list[Interval]:
    """Return a measure at every load. Raises MissingError."""
    plan, jobs = findings.plan, findings.family.jobs
    return [
        mean_interval(findings.samples.sample(plan.cases(jobs, scheduler, load), name))
        for load in LOADS
    ]


def _judgements(
    plan: EquipartitionPlan, experiment: EquipartitionExperiment, samples: Samples
) -> list[Judgement]:
    def ratios(scheduler: str, name: str) -> list[Interval]:
        return [
            ratio_of_means(
                samples.sample(plan.cases(experiment.jobs, scheduler, load), name),
                samples.sample(plan.cases(experiment.jobs, TRADITIONAL, load), name),
            )
            for load in LOADS
        ]

    def claim(key: str, text: str) -> Claim:
        return Claim(key=f"{experiment.name}-{key}", text=text, source=experiment.figures)

    def response(scheduler: str) -> tuple[str, Ruling, Interval]:
        found = ratios(scheduler, "response_s")
        ruling = worst([above(_gain(ratio), 0.0) for ratio in found])
        least = max(found, key=lambda ratio: ratio.mean)
        return _span(found), ruling, least

    def utilisation() -> tuple[str, Ruling, Interval]:
        found = ratios(ADAPTIVE, "utilisation")
        least = min(found, key=lambda ratio: ratio.mean)
        return _span(found), worst([above(ratio, 1.0) for ratio in found]), least

    return [
        judged(
            claim("response", "mean response is shorter with adaptive jobs, at every load"),
            lambda: response(ADAPTIVE),
        ),
        judged(
            claim("utilisation", "utilisation is higher with adaptive jobs, at every load"),
            utilisation,
        ),
        judged(
            claim("stalled", "a stall at each change of size leaves the responses shorter"),
            lambda: response(STALLED),
        ),
    ]


def _gain(ratio: Interval) -> Interval:
    """Return the relative reduction that a ratio means."""
    return Interval(mean=1 - ratio.mean, low=1 - ratio.high, high=1 - ratio.low, count=ratio.count)


def _span(found: Sequence[Interval]) -> str:
    """Return adaptive over traditional at the lowest and highest load."""
    ends = (LOADS[0], found[0]), (LOADS[-1], found[-1])
    return "; ".join(f"x {interval_text(ratio)} at load {load:g}" for load, ratio in ends)
