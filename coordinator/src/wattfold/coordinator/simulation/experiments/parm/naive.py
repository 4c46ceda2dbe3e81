"""Section VII-D: as many nodes as the budget feeds at one cap for all, under the baseline policy.

Table VI does not say at which caps or on which set. All six published caps are tried; at 60 W the
naive machine is the baseline's. A job below its p_low is throttled (`models.pass_model`).
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.coordinator.simulation.experiments.parm.case import (
    BASELINE_MAX,
    ParmCase,
)
from wattfold.coordinator.simulation.experiments.parm.outcomes import (
    Outcomes,
    Plan,
    Point,
)
from wattfold.coordinator.simulation.experiments.parm.settings import (
    BASE_W,
    DRAM_W,
    LARGE_BUDGET_W,
    SWEEP_GAMMA,
)
from wattfold.coordinator.simulation.experiments.samples import judged
from wattfold.coordinator.simulation.experiments.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    interval_text,
    worst,
)
from wattfold.coordinator.simulation.results.intervals import Interval, ratio_of_means
from wattfold.coordinator.simulation.workloads.annotations import LARGE_CAPS_W

NAME = "naive"
JOBS = "Set1"


def nodes_at(cap_w: float) -> int:
    """Nodes the budget feeds when all of them have one cap."""
    return int(LARGE_BUDGET_W // (cap_w + BASE_W + DRAM_W))


def cases(plan: Plan) -> list[ParmCase]:
    """wSE, and the baseline policy at every cap."""
    naive = [case for cap_w in LARGE_CAPS_W for case in _naive(plan, cap_w)]
    return [*_with_resizes(plan), *naive]


def points(plan: Plan, outcomes: Outcomes) -> list[Point]:
    """Table VI."""
    found = outcomes.points(NAME, JOBS, "wSE", _with_resizes(plan))
    for cap_w in LARGE_CAPS_W:
        found += outcomes.points(NAME, JOBS, "naive", _naive(plan, cap_w), "cap_w", cap_w)
    return found


def judgements(plan: Plan, outcomes: Outcomes) -> list[Judgement]:
    """The claim of section VII-D."""

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


def _with_resizes(plan: Plan) -> list[ParmCase]:
    return plan.large(JOBS, SWEEP_GAMMA, "wSE")


def _naive(plan: Plan, cap_w: float) -> list[ParmCase]:
    """Unlike those of the baseline, they differ by seed: it says which application a job is."""
    return [
        replace(case, seed=seed, nodes=nodes_at(cap_w), caps_w=(float(cap_w),))
        for seed, case in zip(plan.seeds, plan.large(JOBS, SWEEP_GAMMA, BASELINE_MAX), strict=True)
    ]
