"""Section VII-E: how alpha, the weight of waiting, trades fairness for throughput (Figure 6)."""

from __future__ import annotations

from wattfold.coordinator.simulation.experiments.parm.case import (
    ParmCase,
    with_alpha,
)
from wattfold.coordinator.simulation.experiments.parm.outcomes import (
    Outcomes,
    Plan,
    Point,
    steps_of,
)
from wattfold.coordinator.simulation.experiments.parm.settings import ALPHAS, SWEEP_GAMMA
from wattfold.coordinator.simulation.experiments.samples import judged
from wattfold.coordinator.simulation.experiments.verdicts import Claim, Judgement, Ruling, trend
from wattfold.coordinator.simulation.results.intervals import Interval

NAME = "fairness"
JOBS = "Set1"


def cases(plan: Plan) -> list[ParmCase]:
    """wSE at every alpha."""
    return [case for alpha in ALPHAS for case in _seeds(plan, alpha)]


def points(plan: Plan, outcomes: Outcomes) -> list[Point]:
    """Figure 6."""
    found = []
    for alpha in ALPHAS:
        found += outcomes.points(NAME, JOBS, "wSE", _seeds(plan, alpha), "alpha", alpha)
    return found


def judgements(plan: Plan, outcomes: Outcomes) -> list[Judgement]:
    """The claims of section VII-E."""

    def moves(measure: str, rises: bool) -> tuple[str, Ruling, Interval | None]:
        samples = [outcomes.sample(_seeds(plan, alpha), measure) / 60 for alpha in ALPHAS]
        whole, steps = steps_of(samples)
        text = " -> ".join(f"{sample.mean():.0f}" for sample in samples) + " min"
        return text, trend(whole, steps, rises=rises), whole

    source = "section VII-E, Figure 6"
    return [
        judged(
            Claim(
                key="fairness.max",
                text="the maximum completion time falls as alpha grows from 0.28 to 1.48",
                source=source,
            ),
            lambda: moves("completion_s_max", rises=False),
        ),
        judged(
            Claim(
                key="fairness.mean",
                text="the mean completion time rises as alpha grows from 0.28 to 1.48",
                source=source,
            ),
            lambda: moves("completion_s", rises=True),
        ),
    ]


def _seeds(plan: Plan, alpha: float) -> list[ParmCase]:
    return [with_alpha(case, alpha) for case in plan.large(JOBS, SWEEP_GAMMA, "wSE")]
