"""Experiment c: the ideal against the worst-case model of run times (section 4.3, Figure 8)."""

from __future__ import annotations

from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.slowdown_driven.case import (
    BASELINES,
    DYNAMIC,
    IDEAL,
    LIMITED,
    SOURCES,
    STATIC,
    SlowdownCase,
    SlowdownPlan,
)
from wattfold.simulator.papers.slowdown_driven.ratios import ratio, text_of
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    at_most,
    worst,
)
from wattfold.simulator.results.intervals import Interval

MODELS = {"cirne": 1.16, "ricc": 1.035, "curie": 1.01}
"""Maximum slowdown of the worst-case model over that of the ideal model (section 4.3)."""
_SOURCE = "section 4.3, Figure 8"


def cases(plan: SlowdownPlan) -> list[SlowdownCase]:
    """Return DynAVGSD under both models, and static backfill."""
    return [
        case
        for workload in plan.workloads
        for passes in BASELINES
        for policy, model in ((STATIC, "ideal"), (DYNAMIC, "ideal"), (DYNAMIC, "worst-case"))
        for case in plan.cases(workload, passes, policy, model)
    ]


def judgements(plan: SlowdownPlan, samples: Samples) -> list[Judgement]:
    """Judge the claims of section 4.3."""
    found = []
    for workload in plan.workloads:
        number = SOURCES[workload].number
        if workload == "cirne-exact":
            found.append(
                _compared(
                    plan, samples, workload, "slowdown", 1.01,
                    f"c.exact.{workload}",
                    "workload 2 is not affected: requests are exact (slowdown within 1 %)",
                )
            )  # fmt: skip
            continue
        most = MODELS[workload]
        found.append(
            _compared(
                plan, samples, workload, "slowdown", most, f"c.slowdown.{workload}",
                f"worst-case model, DynAVGSD, workload {number}: slowdown at most "
                f"{most - 1:.1%} above the ideal model's",
            )
        )  # fmt: skip
        response = 1.11 if workload == "cirne" else 1.015
        found.append(
            _compared(
                plan, samples, workload, "response_s", response, f"c.response.{workload}",
                f"and response at most {response - 1:.1%} above, workload {number}",
            )
        )  # fmt: skip
    return found


def _compared(
    plan: SlowdownPlan,
    samples: Samples,
    workload: str,
    measure: str,
    most: float,
    key: str,
    text: str,
) -> Judgement:
    """Judge the worst-case model over the ideal model, under both kinds of passes."""

    def judge() -> tuple[str, Ruling, Interval | None]:
        rulings, words = [], []
        interval = None
        for passes in (LIMITED, IDEAL):
            cases = plan.cases(workload, passes, DYNAMIC, "worst-case")
            interval = ratio(samples, cases, plan.cases(workload, passes, DYNAMIC), measure)
            rulings.append(at_most(interval, most))
            words.append(f"{text_of(interval, '{:.3f}', cases)} {passes}")
        return ", ".join(words), worst(rulings), interval

    return judged(Claim(key=key, text=text, source=_SOURCE), judge)
