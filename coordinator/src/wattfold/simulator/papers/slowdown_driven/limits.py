"""Experiment a: MAX_SLOWDOWN on workloads 1 to 4 (section 4.1, Figures 1 to 3).

The paper does not state the settings of its static backfill. Comparisons with it are judged against
the limited one; results of the ideal one are also shown.
"""

from __future__ import annotations

from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.slowdown_driven.case import (
    BASELINES,
    BEFORE,
    DYNAMIC,
    IDEAL,
    LIMITED,
    SOURCES,
    STATIC,
    WORTH,
    SlowdownCase,
    SlowdownPlan,
    policy_name,
)
from wattfold.simulator.papers.slowdown_driven.ratios import (
    exactly,
    ratio,
    sure,
    text_of,
)
from wattfold.simulator.papers.slowdown_driven.settings import LIMITS
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    above,
    at_most,
    near,
)
from wattfold.simulator.results.intervals import Interval, mean_interval

POLICIES = (*(f"{limit:g}" for limit in LIMITS), DYNAMIC)
"""Policies of slowdown-driven."""
TABLE_1 = {
    "cirne": (122_152.0, 3339.5, 899_888.0),
    "cirne-exact": (126_486.0, 3501.0, 896_024.0),
    "ricc": (43_537.0, 1341.0, 407_043.0),
    "curie": (29_858.5, 3666.5, 21_615_111.0),
}
"""Static backfill's mean response, mean slowdown and makespan."""
GAINS = {"cirne": 0.495, "cirne-exact": 0.31, "ricc": 0.257, "curie": 0.704}
"""Maximum relative reduction of slowdown (section 4.1)."""
_SOURCE = "section 4.1, Figures 1 to 3"


def cases(plan: SlowdownPlan) -> list[SlowdownCase]:
    """Return static backfill and slowdown-driven at every limit, ideal and limited."""
    return [
        case
        for workload in plan.workloads
        for passes in BASELINES
        for policy in (STATIC, *POLICIES, WORTH)
        for case in plan.cases(workload, passes, policy)
    ]


def judgements(plan: SlowdownPlan, samples: Samples) -> list[Judgement]:
    """Judge the claims of section 4.1, Table 1, and our additional goals."""
    found: list[Judgement] = []
    for workload in plan.workloads:
        if plan.mate_end == BEFORE:
            # Static backfill is the same in both readings.
            found += [
                _baseline(plan, samples, workload, measure, published)
                for measure, published in zip(
                    ("response_s", "slowdown", "makespan_s"), TABLE_1[workload], strict=True
                )
            ]
        found.append(_gain(plan, samples, workload))
        found.append(_below_ideal(plan, samples, workload))
    if "curie" in plan.workloads:
        found += _of_curie(plan, samples)
    found += [_grows(plan, samples, name) for name in ("cirne", "ricc") if name in plan.workloads]
    if "cirne-exact" in plan.workloads:
        found.append(_dynamic_helps(plan, samples))
    return found


def best(samples: Samples, plan: SlowdownPlan, workload: str, passes: str) -> tuple[str, Interval]:
    """Return the policy with the lowest slowdown, and its ratio to static. Raises MissingError."""
    static = plan.cases(workload, passes, STATIC)
    found = [
        (ratio(samples, plan.cases(workload, passes, policy), static, "slowdown"), policy)
        for policy in POLICIES
    ]
    interval, policy = min(found, key=lambda entry: entry[0].mean)
    return policy, interval


def _baseline(
    plan: SlowdownPlan, samples: Samples, workload: str, measure: str, published: float
) -> Judgement:
    names = {"response_s": "response", "slowdown": "slowdown", "makespan_s": "makespan"}

    def judge() -> tuple[str, Ruling, Interval | None]:
        cases = plan.cases(workload, LIMITED, STATIC)
        interval = sure(mean_interval(samples.sample(cases, measure)), cases)
        ideal = samples.sample(plan.cases(workload, IDEAL, STATIC), measure).mean()
        text = f"{text_of(interval, '{:,.0f}', cases)} limited, {ideal:,.0f} ideal"
        return text, near(interval, published, 0.0), interval

    unit = "" if measure == "slowdown" else " s"
    return judged(
        Claim(
            key=f"a.table1.{workload}.{measure}",
            text=f"static backfill, workload {SOURCES[workload].number} ({workload}): "
            f"{names[measure]} {published:,.5g}{unit}"
            if published < 1e5
            else f"static backfill, workload {SOURCES[workload].number} ({workload}): "
            f"{names[measure]} {published:,.0f}{unit}",
            source="Table 1",
        ),
        judge,
    )


def _gain(plan: SlowdownPlan, samples: Samples, workload: str) -> Judgement:
    published = GAINS[workload]

    def judge() -> tuple[str, Ruling, Interval | None]:
        policy, interval = best(samples, plan, workload, LIMITED)
        cases = plan.cases(workload, LIMITED, policy)
        text = f"{text_of(interval, '{:.2f}', cases)} of limited backfill, {policy_name(policy)}"
        return text, near(interval, 1 - published, 1.0), interval

    return judged(
        Claim(
            key=f"a.slowdown.{workload}",
            text=f"slowdown falls by up to {published:.1%} on workload "
            f"{SOURCES[workload].number} ({workload}), to {1 - published:.3f}",
            source=_SOURCE,
        ),
        judge,
    )


def _below_ideal(plan: SlowdownPlan, samples: Samples, workload: str) -> Judgement:
    def judge() -> tuple[str, Ruling, Interval | None]:
        policy, interval = best(samples, plan, workload, IDEAL)
        cases = plan.cases(workload, IDEAL, policy)
        text = f"{text_of(interval, '{:.3f}', cases)} of ideal EASY, {policy_name(policy)}"
        return text, _below(interval), interval

    return judged(
        Claim(
            key=f"a.ideal.{workload}",
            text=f"slowdown is below ideal EASY's as well, {workload}",
            source="not the paper's",
        ),
        judge,
    )


def _of_curie(plan: SlowdownPlan, samples: Samples) -> list[Judgement]:
    static = plan.cases("curie", LIMITED, STATIC)

    def response() -> tuple[str, Ruling, Interval | None]:
        interval = ratio(samples, plan.cases("curie", LIMITED, "10"), static, "response_s")
        return f"{interval.mean:.2f} of limited backfill", near(interval, 0.5, 1.0), interval

    def makespan() -> tuple[str, Ruling, Interval | None]:
        interval = ratio(samples, plan.cases("curie", LIMITED, "10"), static, "makespan_s")
        return f"{interval.mean:.4f} of limited backfill", at_most(interval, 1.01), interval

    def at_ten() -> tuple[str, Ruling, Interval | None]:
        policy, interval = best(samples, plan, "curie", LIMITED)
        ten = ratio(samples, plan.cases("curie", LIMITED, "10"), static, "slowdown")
        same = ten.mean <= interval.mean
        text = f"MAXSD 10 {ten.mean:.3f}, best {policy_name(policy)} {interval.mean:.3f}"
        if not same:
            return text, Ruling(verdict=Verdict.NOT, why="another limit is better"), ten
        return text, Ruling(verdict=Verdict.REPRODUCED, why="no other limit is better"), ten

    return [
        judged(
            Claim(
                key="a.response.curie",
                text="response falls by up to 50 % on workload 4 with MAXSD 10",
                source=_SOURCE,
            ),
            response,
        ),
        judged(
            Claim(
                key="a.makespan.curie",
                text="makespan stays on workload 4 (no more than 1 % above)",
                source="section 4.2",
            ),
            makespan,
        ),
        judged(
            Claim(key="a.ten.curie", text="MAXSD 10 is best on workload 4", source=_SOURCE), at_ten
        ),
    ]


def _grows(plan: SlowdownPlan, samples: Samples, workload: str) -> Judgement:
    def judge() -> tuple[str, Ruling, Interval | None]:
        static = plan.cases(workload, LIMITED, STATIC)
        steps = [
            ratio(samples, plan.cases(workload, LIMITED, policy), static, "slowdown")
            for policy in POLICIES[:-1]
        ]
        first, last = steps[0], steps[-1]
        gain = exactly(first.mean - last.mean)
        text = " -> ".join(f"{step.mean:.3f}" for step in steps) + " for 5, 10, 50, inf"
        return text, above(gain, 0.0), gain

    return judged(
        Claim(
            key=f"a.grows.{workload}",
            text=f"a larger limit lowers slowdown, {workload}",
            source=_SOURCE,
        ),
        judge,
    )


def _dynamic_helps(plan: SlowdownPlan, samples: Samples) -> Judgement:
    def judge() -> tuple[str, Ruling, Interval | None]:
        static = plan.cases("cirne-exact", LIMITED, STATIC)
        fixed = min(
            ratio(samples, plan.cases("cirne-exact", LIMITED, policy), static, "slowdown").mean
            for policy in POLICIES[:-1]
        )
        own = ratio(samples, plan.cases("cirne-exact", LIMITED, DYNAMIC), static, "slowdown")
        gain = exactly(fixed - own.mean)
        return f"{own.mean:.3f} against {fixed:.3f}", above(gain, 0.0), gain

    return judged(
        Claim(
            key="a.dynamic.cirne-exact",
            text="DynAVGSD is better than all fixed limits on workload 2",
            source=_SOURCE,
        ),
        judge,
    )


def _below(interval: Interval) -> Ruling:
    saved = Interval(
        mean=1 - interval.mean,
        low=1 - interval.high,
        high=1 - interval.low,
        count=interval.count,
    )
    return above(saved, 0.0)
