"""Section VII-F: the number of power levels that a job's profile needs (Figure 7)."""

from __future__ import annotations

from wattfold.simulator.papers.parm.case import (
    ParmCase,
    with_caps,
)
from wattfold.simulator.papers.parm.outcomes import (
    Outcomes,
    ParmPlan,
    Point,
)
from wattfold.simulator.papers.parm.settings import SWEEP_GAMMA
from wattfold.simulator.papers.samples import judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    at_most,
    interval_text,
)
from wattfold.simulator.results.intervals import Interval, ratio_of_means
from wattfold.simulator.workloads.annotations import caps_w

NAME = "levels"
JOBS = "Set1"
FLAT = 0.02
"""A relative gain of the mean up to this from levels beyond six counts as no gain."""


def cases(plan: ParmPlan) -> list[ParmCase]:
    """Return wSE with every number of levels."""
    return [case for count in plan.levels for case in _seeds(plan, count)]


def points(plan: ParmPlan, outcomes: Outcomes) -> list[Point]:
    """Return the points of Figure 7."""
    found = []
    for count in plan.levels:
        found += outcomes.points(NAME, JOBS, "wSE", _seeds(plan, count), "levels", count)
    return found


def judgements(plan: ParmPlan, outcomes: Outcomes) -> list[Judgement]:
    """Judge the claims of section VII-F."""

    def gain(measure: str, few: int, many: int) -> Interval:
        ratio = ratio_of_means(
            outcomes.sample(_seeds(plan, many), measure),
            outcomes.sample(_seeds(plan, few), measure),
        )
        return Interval(
            mean=1 - ratio.mean, low=1 - ratio.high, high=1 - ratio.low, count=ratio.count
        )

    def falls(measure: str) -> tuple[str, Ruling, Interval | None]:
        interval = gain(measure, 2, 6)
        return f"{interval_text(interval, '{:.1%}')} less", above(interval, 0.0), interval

    def flat() -> tuple[str, Ruling, Interval | None]:
        interval = gain("completion_s", 6, 8)
        return f"{interval_text(interval, '{:.1%}')} less", at_most(interval, FLAT), interval

    source = "section VII-F, Figure 7"
    return [
        judged(
            Claim(
                key="levels.mean",
                text="the mean completion time falls from 2 to 6 power levels",
                source=source,
            ),
            lambda: falls("completion_s"),
        ),
        judged(
            Claim(
                key="levels.max",
                text="the maximum completion time falls from 2 to 6 power levels",
                source=source,
            ),
            lambda: falls("completion_s_max"),
        ),
        judged(
            Claim(
                key="levels.flat",
                text=f"gains flatten by 6 levels: 8 gain at most {FLAT:.0%} more",
                source=source,
            ),
            flat,
        ),
    ]


def _seeds(plan: ParmPlan, count: int) -> list[ParmCase]:
    return [with_caps(case, caps_w(count)) for case in plan.large(JOBS, SWEEP_GAMMA, "wSE")]
