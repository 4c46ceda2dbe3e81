"""Section VII-D: the baseline policy on as many nodes as the budget feeds at one common cap.

Table VI does not state its caps or its set. All six published caps are tried; at 60 W the naive
machine is the baseline's. A job below its p_low is throttled (`models.pass_model`).
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.simulator.papers.parm.case import (
    BASELINE_MAX,
    ParmCase,
)
from wattfold.simulator.papers.parm.outcomes import (
    Outcomes,
    ParmPlan,
    Point,
)
from wattfold.simulator.papers.parm.settings import (
    BASE_W,
    DRAM_W,
    LARGE_BUDGET_W,
    SWEEP_GAMMA,
)
from wattfold.simulator.papers.samples import judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    interval_text,
    worst,
)
from wattfold.simulator.results.intervals import Interval, ratio_of_means
from wattfold.simulator.workloads.annotations import LARGE_CAPS_W

NAME = "naive"
JOBS = "Set1"


def nodes_at(cap_w: float) -> int:
    """Return the number of nodes that the budget feeds if all of them have one cap."""
    return int(LARGE_BUDGET_W // (cap_w + BASE_W + DRAM_W))


def cases(plan: ParmPlan) -> list[ParmCase]:
    """Return wSE, and the baseline policy at every cap."""
    naive = [case for cap_w in LARGE_CAPS_W for case in _naive(plan, cap_w)]
    return [*_with_resizes(plan), *naive]


def points(plan: ParmPlan, outcomes: Outcomes) -> list[Point]:
    """Return the points of Table VI."""
    found = outcomes.points(NAME, JOBS, "wSE", _with_resizes(plan))
    for cap_w in LARGE_CAPS_W:
        found += outcomes.points(NAME, JOBS, "naive", _naive(plan, cap_w), "cap_w", cap_w)
    return found


def judgements(plan: ParmPlan, outcomes: Outcomes) -> list[Judgement]:
    """Judge the claim of section VII-D."""

    def faster() -> tuple[str, Ruling, Interval | None]:
        ours = outcomes.sample(_with_resizes(plan), "completion_s")
        found = {
            cap_w: ratio_of_means(outcomes.sample(_naive(plan, cap_w), "completion_s"), ours)
            for cap_w in LARGE_CAPS_W
        }
        cap_w = min(found, key=lambda key: found[key].mean)
        ruling = worst([above(interval, 1.0) for interval in found.values()])
        text = ", ".join(f"{cap:g} W {interval.mean:.2f}x" for cap, interval in found.items())
        return f"{text}; minimum {interval_text(found[cap_w])}x", ruling, found[cap_w]

    claim = Claim(
        key="naive.faster",
        text="wSE completes jobs clearly sooner than one cap for all nodes, at every cap",
        source="section VII-D, Table VI",
    )
    return [judged(claim, faster)]


def _with_resizes(plan: ParmPlan) -> list[ParmCase]:
    return plan.large(JOBS, SWEEP_GAMMA, "wSE")


def _naive(plan: ParmPlan, cap_w: float) -> list[ParmCase]:
    """Return a case per seed. Seeds matter here, as they set the applications."""
    return [
        replace(case, seed=seed, nodes=nodes_at(cap_w), caps_w=(float(cap_w),))
        for seed, case in zip(plan.seeds, plan.large(JOBS, SWEEP_GAMMA, BASELINE_MAX), strict=True)
    ]
