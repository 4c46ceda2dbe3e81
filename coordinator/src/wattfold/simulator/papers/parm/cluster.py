"""Section VI: ten jobs on 38 nodes under 3300 W.

The paper states that the baseline's size is a job's minimum (section VI-F), and also that it is its
maximum (section VI-G, under Figure 4). Both are run, and every comparison with the baseline is made
twice.
"""

from __future__ import annotations

from wattfold.simulator.papers.parm.case import (
    BASELINE_MAX,
    BASELINE_MIN,
    BASELINES,
    CLUSTER_SETS,
    VARIANTS,
    ParmCase,
    cluster_case,
)
from wattfold.simulator.papers.parm.outcomes import (
    Outcomes,
    ParmPlan,
    Point,
)
from wattfold.simulator.papers.samples import judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    above,
    interval_text,
    near,
    worst,
)
from wattfold.simulator.results.intervals import (
    Interval,
    mean_interval,
    ratio_of_means,
)

NAME = "cluster"
POLICIES = (*BASELINES, *VARIANTS)
_READING = {BASELINE_MAX: "maximum size", BASELINE_MIN: "minimum size"}
_Judged = tuple[str, Ruling, Interval | None]


def cases(plan: ParmPlan) -> list[ParmCase]:
    """Return a case for every set, policy and seed."""
    return [
        cluster_case(jobs, seed, policy, plan.settings)
        for jobs in CLUSTER_SETS
        for policy in POLICIES
        for seed in plan.seeds
    ]


def points(plan: ParmPlan, outcomes: Outcomes) -> list[Point]:
    """Return the points of Figure 4."""
    found = []
    for jobs in CLUSTER_SETS:
        for policy in POLICIES:
            found += outcomes.points(NAME, jobs, policy, _seeds(plan, jobs, policy))
    return found


def judgements(plan: ParmPlan, outcomes: Outcomes) -> list[Judgement]:
    """Judge the claims of section VI."""
    compare = _ClusterComparison(plan, outcomes)
    found = []
    for baseline, reading in _READING.items():
        found += [
            judged(
                Claim(
                    key=f"cluster.faster.{baseline}",
                    text=f"all PARM versions complete jobs sooner than the baseline ({reading})",
                    source="section VI-G, Figure 4(a)",
                ),
                lambda b=baseline: compare.all_faster(b),  # type: ignore[misc]
            ),
            judged(
                Claim(
                    key=f"cluster.1.7x.{baseline}",
                    text=f"1.7x for wSE over the baseline ({reading}), SetL",
                    source="abstract, section VI-G",
                ),
                lambda b=baseline: compare.speedup("SetL", b),  # type: ignore[misc]
            ),
            judged(
                Claim(
                    key=f"cluster.beta.{baseline}",
                    text=f"the gain of wSE is larger on SetL than on SetH ({reading})",
                    source="section VI-G",
                ),
                lambda b=baseline: compare.low_beta_gains_more(b),  # type: ignore[misc]
            ),
            judged(
                Claim(
                    key=f"cluster.response.{baseline}",
                    text=f"jobs start sooner under all PARM versions ({reading})",
                    source="section VI-G, Figure 4(b)",
                ),
                lambda b=baseline: compare.all_start_sooner(b),  # type: ignore[misc]
            ),
        ]
    for variant, published in (("noSE", 0.075), ("wSE", 0.139)):
        found.append(
            judged(
                Claim(
                    key=f"cluster.{variant}",
                    text=f"{variant} {published:.1%} below noMM in mean completion time, SetL",
                    source="section VI-G",
                ),
                lambda v=variant, p=published: compare.below_no_mm(v, p),  # type: ignore[misc]
            )
        )
    found.append(
        judged(
            Claim(
                key="cluster.nodes",
                text="wSE uses 36 nodes in the mean, noSE 33 (1.09x), SetL",
                source="section VI-G, Figure 4(c)",
            ),
            compare.nodes,
        )
    )
    return found


def _seeds(plan: ParmPlan, jobs: str, policy: str) -> list[ParmCase]:
    return [cluster_case(jobs, seed, policy, plan.settings) for seed in plan.seeds]


class _ClusterComparison:
    """Comparison of policies on the same jobs."""

    def __init__(self, plan: ParmPlan, outcomes: Outcomes) -> None:
        self._plan, self._outcomes = plan, outcomes

    def _ratio(self, jobs: str, above_line: str, below_line: str, measure: str) -> Interval:
        upper, lower = (
            self._outcomes.sample(_seeds(self._plan, jobs, policy), measure)
            for policy in (above_line, below_line)
        )
        return ratio_of_means(upper, lower)

    def all_faster(self, baseline: str) -> _Judged:
        found = {
            f"{variant}, {jobs}": self._ratio(jobs, baseline, variant, "completion_s")
            for jobs in CLUSTER_SETS
            for variant in VARIANTS
        }
        name = min(found, key=lambda key: found[key].mean)
        ruling = worst([above(interval, 1.0) for interval in found.values()])
        return f"minimum: {interval_text(found[name])}x ({name})", ruling, found[name]

    def speedup(self, jobs: str, baseline: str) -> _Judged:
        interval = self._ratio(jobs, baseline, "wSE", "completion_s")
        return f"{interval_text(interval)}x", near(interval, 1.7, 1.0), interval

    def low_beta_gains_more(self, baseline: str) -> _Judged:
        low, high = (
            self._outcomes.sample(_seeds(self._plan, jobs, baseline), "completion_s")
            / self._outcomes.sample(_seeds(self._plan, jobs, "wSE"), "completion_s")
            for jobs in CLUSTER_SETS
        )
        interval = mean_interval(low - high)
        text = f"{low.mean():.2f}x and {high.mean():.2f}x, difference {interval_text(interval)}"
        return text, above(interval, 0.0), interval

    def all_start_sooner(self, baseline: str) -> _Judged:
        found = {
            f"{variant}, {jobs}": mean_interval(
                (
                    self._outcomes.sample(_seeds(self._plan, jobs, baseline), "response_s")
                    - self._outcomes.sample(_seeds(self._plan, jobs, variant), "response_s")
                )
                / 60
            )
            for jobs in CLUSTER_SETS
            for variant in VARIANTS
        }
        name = min(found, key=lambda key: found[key].mean)
        ruling = worst([above(interval, 0.0) for interval in found.values()])
        return f"minimum: {interval_text(found[name], '{:.1f}')} min ({name})", ruling, found[name]

    def below_no_mm(self, variant: str, published: float) -> _Judged:
        ratio = self._ratio("SetL", variant, "noMM", "completion_s")
        interval = Interval(
            mean=1 - ratio.mean, low=1 - ratio.high, high=1 - ratio.low, count=ratio.count
        )
        return interval_text(interval, "{:.1%}"), near(interval, published, 0.0), interval

    def nodes(self) -> _Judged:
        with_resizes, without = (
            self._outcomes.sample(_seeds(self._plan, "SetL", policy), "nodes").mean()
            for policy in ("wSE", "noSE")
        )
        interval = self._ratio("SetL", "wSE", "noSE", "nodes")
        text = f"{with_resizes:.1f} and {without:.1f} nodes, {interval_text(interval)}x"
        return text, near(interval, 36 / 33, 1.0), interval
