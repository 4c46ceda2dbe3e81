"""Section VII-E: how alpha, the weight of waiting, trades fairness for throughput (Figure 6)."""

from __future__ import annotations

from wattfold.simulator.papers.parm.case import (
    ParmCase,
    with_alpha,
)
from wattfold.simulator.papers.parm.outcomes import (
    Outcomes,
    ParmPlan,
    Point,
    steps_of,
)
from wattfold.simulator.papers.parm.settings import ALPHAS, SWEEP_GAMMA
from wattfold.simulator.papers.samples import judged
from wattfold.simulator.papers.verdicts import Claim, Judgement, Ruling, trend
from wattfold.simulator.results.intervals import Interval

NAME = "fairness"
JOBS = "Set1"


def cases(plan: ParmPlan) -> list[ParmCase]:
    """Return wSE at every alpha."""
    return [case for alpha in ALPHAS for case in _seeds(plan, alpha)]


def points(plan: ParmPlan, outcomes: Outcomes) -> list[Point]:
    """Return the points of Figure 6."""
    found = []
    for alpha in ALPHAS:
        found += outcomes.points(NAME, JOBS, "wSE", _seeds(plan, alpha), "alpha", alpha)
    return found


def judgements(plan: ParmPlan, outcomes: Outcomes) -> list[Judgement]:
    """Judge the claims of section VII-E."""

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


def _seeds(plan: ParmPlan, alpha: float) -> list[ParmCase]:
    return [with_alpha(case, alpha) for case in plan.large(JOBS, SWEEP_GAMMA, "wSE")]
