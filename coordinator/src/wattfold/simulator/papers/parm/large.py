"""Section VII-C: three sets of 1000 jobs of a log at increasing arrival rates, under 4.75 MW.

The baseline runs jobs at their requested size (section VII-B3). The other reading, at the minimum
size that PARM may give them, is run as well and is in the table of points.
"""

from __future__ import annotations

import numpy as np

from wattfold.simulator.papers.parm.case import (
    BASELINE_MAX,
    BASELINE_MIN,
    LARGE_SETS,
    PRICED,
    ParmCase,
)
from wattfold.simulator.papers.parm.outcomes import (
    Outcomes,
    ParmPlan,
    Point,
    geometric_mean,
    steps_of,
)
from wattfold.simulator.papers.parm.settings import QUICK_GAMMAS
from wattfold.simulator.papers.samples import judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    at_most,
    interval_text,
    near,
    trend,
    worst,
)
from wattfold.simulator.results.intervals import (
    Interval,
    mean_interval,
    ratio_of_means,
)
from wattfold.simulator.workloads.workload import Floats

NAME = "large"
POLICIES = (BASELINE_MAX, BASELINE_MIN, "noSE", "wSE")
BEYOND = (PRICED,)
"""Run only for some gammas, because it is not part of the evaluation."""
_PARM = ("noSE", "wSE")
_Judged = tuple[str, Ruling, Interval | None]


def cases(plan: ParmPlan) -> list[ParmCase]:
    """Return a case for every set, gamma, policy and seed."""
    return [
        case
        for jobs in LARGE_SETS
        for gamma in plan.gammas
        for policy in _policies(gamma)
        for case in plan.large(jobs, gamma, policy)
    ]


def _policies(gamma: float) -> tuple[str, ...]:
    return (*POLICIES, *BEYOND) if gamma in QUICK_GAMMAS else POLICIES


def points(plan: ParmPlan, outcomes: Outcomes) -> list[Point]:
    """Return the points of Figure 5 and Table V."""
    found = []
    for jobs in LARGE_SETS:
        for gamma in plan.gammas:
            for policy in _policies(gamma):
                group = plan.large(jobs, gamma, policy)
                found += outcomes.points(NAME, jobs, policy, group, "gamma", gamma)
    return found


def judgements(plan: ParmPlan, outcomes: Outcomes) -> list[Judgement]:
    """Judge the claims of section VII-C."""
    compare = _LargeComparison(plan, outcomes)
    least, most = plan.gammas[-1], plan.gammas[0]
    return [
        judged(
            Claim(
                key="large.faster",
                text="noSE and wSE complete jobs sooner than the baseline, all sets and gammas",
                source="section VII-C, Figure 5",
            ),
            compare.all_faster,
        ),
        judged(
            Claim(
                key="large.5.2x",
                text="up to 5.2x in mean completion time for wSE",
                source="abstract, section VII-C, Table V",
            ),
            compare.best,
        ),
        judged(
            Claim(
                key="large.gamma",
                text=f"the speedup of wSE grows as gamma falls from {most:g} to {least:g}",
                source="section VII-C, Table V",
            ),
            compare.grows,
        ),
        judged(
            Claim(
                key="large.set3",
                text="speedups of wSE are smaller on Set3 than on Set2",
                source="section VII-C, Table V",
            ),
            compare.third_set,
        ),
        judged(
            Claim(
                key="large.malleable",
                text="wSE completes jobs sooner than noSE",
                source="section VII-C, Table V",
            ),
            compare.malleable,
        ),
        judged(
            Claim(
                key="large.priced",
                text="(not the paper's) wSE that sees the cost of a resize is sooner than noSE",
                source="beyond the paper",
            ),
            compare.priced,
        ),
        judged(
            Claim(
                key="large.overhead",
                text="resizes cost a job less than 1 % of the time to execute the set",
                source="section VII-C",
            ),
            compare.overhead,
        ),
        judged(
            Claim(
                key="large.solver",
                text="an optimisation takes at most 15 s (200 jobs, 6 power levels)",
                source="sections VII-C and VII-F",
            ),
            compare.solver,
        ),
    ]


class _LargeComparison:
    """Comparison of policies on the same jobs."""

    def __init__(self, plan: ParmPlan, outcomes: Outcomes) -> None:
        self._plan, self._outcomes = plan, outcomes

    def _sample(
        self, jobs: str, gamma: float, policy: str, measure: str = "completion_s"
    ) -> Floats:
        return self._outcomes.sample(self._plan.large(jobs, gamma, policy), measure)

    def _speedups(self, jobs: str, gamma: float, policy: str = "wSE") -> Floats:
        """Return the speedups of each seed."""
        return self._sample(jobs, gamma, BASELINE_MAX) / self._sample(jobs, gamma, policy)

    def _ratio(self, jobs: str, gamma: float, policy: str) -> Interval:
        return ratio_of_means(
            self._sample(jobs, gamma, BASELINE_MAX), self._sample(jobs, gamma, policy)
        )

    def all_faster(self) -> _Judged:
        found = {
            f"{policy}, {jobs}, gamma {gamma:g}": self._ratio(jobs, gamma, policy)
            for jobs in LARGE_SETS
            for gamma in self._plan.gammas
            for policy in _PARM
        }
        least = min(found, key=lambda key: found[key].mean)
        rulings = {name: above(interval, 1.0) for name, interval in found.items()}
        ruling = worst(list(rulings.values()))
        # Show the most uncertain comparison among those with the overall ruling.
        weak = min(
            (name for name in found if rulings[name].verdict is ruling.verdict),
            key=lambda key: found[key].low,
        )
        text = f"minimum: {interval_text(found[least])}x ({least})"
        if weak != least:
            text += f"; least certain: {interval_text(found[weak])}x ({weak})"
        return text, ruling, found[weak]

    def best(self) -> _Judged:
        found = {
            f"{jobs}, gamma {gamma:g}": self._ratio(jobs, gamma, "wSE")
            for jobs in LARGE_SETS
            for gamma in self._plan.gammas
        }
        name = max(found, key=lambda key: found[key].mean)
        return (
            f"up to {interval_text(found[name])}x ({name})",
            near(found[name], 5.2, 1.0),
            found[name],
        )

    def grows(self) -> _Judged:
        samples = [
            geometric_mean([self._speedups(jobs, gamma) for jobs in LARGE_SETS])
            for gamma in self._plan.gammas
        ]
        whole, steps = steps_of(samples)
        text = " -> ".join(f"{sample.mean():.2f}" for sample in samples) + "x (all sets)"
        return text, trend(whole, steps, rises=True), whole

    def third_set(self) -> _Judged:
        second, third = (
            geometric_mean([self._speedups(jobs, gamma) for gamma in self._plan.gammas])
            for jobs in ("Set2", "Set3")
        )
        interval = mean_interval(second - third)
        text = f"{second.mean():.2f}x and {third.mean():.2f}x, difference {interval_text(interval)}"
        return text, above(interval, 0.0), interval

    def malleable(self) -> _Judged:
        interval = mean_interval(
            geometric_mean(
                [
                    self._sample(jobs, gamma, "noSE") / self._sample(jobs, gamma, "wSE")
                    for jobs in LARGE_SETS
                    for gamma in self._plan.gammas
                ]
            )
        )
        return f"{interval_text(interval)}x (all sets)", above(interval, 1.0), interval

    def priced(self) -> _Judged:
        gammas = [gamma for gamma in self._plan.gammas if gamma in QUICK_GAMMAS]
        interval = mean_interval(
            geometric_mean(
                [
                    self._sample(jobs, gamma, "noSE") / self._sample(jobs, gamma, PRICED)
                    for jobs in LARGE_SETS
                    for gamma in gammas
                ]
            )
        )
        text = f"{interval_text(interval)}x (all sets, {len(gammas)} gammas)"
        return text, above(interval, 1.0), interval

    def overhead(self) -> _Judged:
        found = {
            f"{jobs}, gamma {gamma:g}": mean_interval(
                self._sample(jobs, gamma, "wSE", "overhead_share")
            )
            for jobs in LARGE_SETS
            for gamma in self._plan.gammas
        }
        name = max(found, key=lambda key: found[key].mean)
        of_execution = max(
            float(self._sample(jobs, gamma, "wSE", "overhead_of_execution").mean())
            for jobs in LARGE_SETS
            for gamma in self._plan.gammas
        )
        text = (
            f"maximum: {interval_text(found[name], '{:.2%}')} ({name}); "
            f"of the time jobs ran up to {of_execution:.1%}"
        )
        return text, at_most(found[name], 0.01), found[name]

    def solver(self) -> _Judged:
        longest, queue = (
            np.max(
                [
                    self._sample(jobs, gamma, policy, measure)
                    for jobs in LARGE_SETS
                    for gamma in self._plan.gammas
                    for policy in _PARM
                ],
                axis=0,
            )
            for measure in ("solver_s_max", "queued_max")
        )
        # The claim is about the maximum, which has no interval over seeds.
        most = float(longest.max())
        interval = Interval(mean=most, low=most, high=most, count=len(longest))
        text = f"maximum: {most:.3f} s, up to {queue.max():.0f} jobs waiting"
        return text, at_most(interval, 15.0), interval
