"""The two experiments, their claims, and what one run of them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.coordinator.simulation.experiments import families
from wattfold.coordinator.simulation.experiments.equipartition.case import (
    ADAPTIVE,
    STALLED,
    TRADITIONAL,
    Plan,
)
from wattfold.coordinator.simulation.experiments.equipartition.measure import measure
from wattfold.coordinator.simulation.experiments.equipartition.settings import LOADS
from wattfold.coordinator.simulation.experiments.samples import Samples, judged
from wattfold.coordinator.simulation.experiments.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    interval_text,
    worst,
)
from wattfold.coordinator.simulation.results.intervals import (
    Interval,
    mean_interval,
    ratio_of_means,
)
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore

_ROOT = "wattfold.coordinator."
_DECIDES = (
    "wattfold.contract",
    *(_ROOT + f"policies.{name}" for name in ("equal_shares", "equipartition")),
    *(_ROOT + f"policies.{name}" for name in ("equipartition_ground",)),
    *(_ROOT + f"simulation.{name}" for name in ("pool", "results.metrics")),
    *(_ROOT + f"simulation.experiments.equipartition.{name}" for name in ("case", "measure")),
)
"""What decides a result by its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Runs of one length at all loads."""

    name: str
    title: str
    jobs: int
    figures: str
    """Of the paper."""


def experiments(plan: Plan) -> tuple[Experiment, ...]:
    """As on the paper's cluster, and as in its simulation."""
    short, long = plan.lengths
    return (
        Experiment(
            name="cluster",
            title=f"{short} jobs (section 5, Figures 7 and 8; there on a cluster, here simulated)",
            jobs=short,
            figures="Figures 7, 8",
        ),
        Experiment(
            name="simulation",
            title=f"{long:,} jobs (section 5, Figures 9 and 10)",
            jobs=long,
            figures="Figures 9, 10",
        ),
    )


Findings = families.Findings[Plan, Experiment]
Evaluation = families.Evaluation[Plan, Experiment]


def evaluate(
    plan: Plan, *, store: ResultStore, backend: Backend, progress: SweepProgress | None = None
) -> Evaluation:
    """Runs what has no result yet and judges every claim. Raises as `evaluated` does."""
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


def _findings_of(plan: Plan, one: Experiment, samples: Samples) -> Findings:
    return Findings(
        family=one,
        title=one.title,
        plan=plan,
        samples=samples,
        judgements=tuple(_judgements(plan, one, samples)),
    )


def curve(findings: Findings, scheduler: str, name: str) -> list[Interval]:
    """A measure at every load. Raises MissingError."""
    plan, jobs = findings.plan, findings.family.jobs
    return [
        mean_interval(findings.samples.sample(plan.cases(jobs, scheduler, load), name))
        for load in LOADS
    ]


def _judgements(plan: Plan, one: Experiment, samples: Samples) -> list[Judgement]:
    def ratios(scheduler: str, name: str) -> list[Interval]:
        return [
            ratio_of_means(
                samples.sample(plan.cases(one.jobs, scheduler, load), name),
                samples.sample(plan.cases(one.jobs, TRADITIONAL, load), name),
            )
            for load in LOADS
        ]

    def claim(key: str, text: str) -> Claim:
        return Claim(key=f"{one.name}-{key}", text=text, source=one.figures)

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
    """By what share something is less than what it is compared with."""
    return Interval(mean=1 - ratio.mean, low=1 - ratio.high, high=1 - ratio.low, count=ratio.count)


def _span(found: Sequence[Interval]) -> str:
    """Adaptive over traditional at the ends of the loads."""
    ends = (LOADS[0], found[0]), (LOADS[-1], found[-1])
    return "; ".join(f"x {interval_text(ratio)} at load {load:g}" for load, ratio in ends)
