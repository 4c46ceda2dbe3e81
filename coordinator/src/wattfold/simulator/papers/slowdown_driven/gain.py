"""Gain of *worth it* (ours): chosen on logs outside Table 1, reported on its workloads.

No workload of the paper takes part in the choice. The chosen gain has the lowest mean logarithm of
slowdown over static backfill, over the logs and both kinds of passes, so that all logs count
equally. With a gain of 0 the variant is the policy of the paper without MAX_SLOWDOWN. Only the
default reading is tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.slowdown_driven.case import (
    BASELINES,
    NO_LIMIT,
    STATIC,
    WORTH,
    SlowdownCase,
    SlowdownPlan,
)
from wattfold.simulator.papers.slowdown_driven.ratios import (
    exactly,
    ratio,
    text_of,
)
from wattfold.simulator.papers.slowdown_driven.settings import (
    CHOSEN_GAIN,
    GAINS_TRIED,
)
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    at_most,
    worst,
)
from wattfold.simulator.results.intervals import Interval


def cases(plan: SlowdownPlan) -> list[SlowdownCase]:
    """Return static backfill, all gains on the logs of the choice, the chosen gain on Table 1."""
    found = _cases(plan, plan.chosen_on, GAINS_TRIED)
    return found + _cases(plan, plan.workloads, [CHOSEN_GAIN])


def ratios_of(plan: SlowdownPlan, samples: Samples, gain: float) -> list[float]:
    """Return slowdown over static backfill for a gain, by log and passes. Raises MissingError."""
    return [
        ratio(
            samples,
            _with_gain(plan, workload, passes, gain),
            plan.cases(workload, passes, STATIC),
            "slowdown",
        ).mean
        for workload in plan.chosen_on
        for passes in BASELINES
    ]


def judgements(plan: SlowdownPlan, samples: Samples) -> list[Judgement]:
    """Judge whether the chosen gain is best on the logs of the choice, and its effect elsewhere."""
    found = [_elsewhere(plan, samples, workload) for workload in plan.workloads]
    return [_best(plan, samples), *found] if plan.chosen_on else found


def _best(plan: SlowdownPlan, samples: Samples) -> Judgement:
    def judge() -> tuple[str, Ruling, Interval | None]:
        means = {
            gain: float(np.exp(np.mean(np.log(ratios_of(plan, samples, gain)))))
            for gain in GAINS_TRIED
        }
        best = min(means, key=lambda gain: means[gain])
        text = ", ".join(f"{gain:g}: {mean:.3f}" for gain, mean in means.items())
        verdict = Verdict.REPRODUCED if best == CHOSEN_GAIN else Verdict.NOT
        return (
            text,
            Ruling(verdict=verdict, why=f"the best is {best:g}"),
            exactly(means[CHOSEN_GAIN]),
        )

    logs = " and ".join(plan.chosen_on)
    return judged(
        Claim(
            key="gain.best",
            text=f"of all gains tried, {CHOSEN_GAIN:g} has the lowest slowdown over static "
            f"backfill on {logs}",
            source="not the paper's",
        ),
        judge,
    )


def _elsewhere(plan: SlowdownPlan, samples: Samples, workload: str) -> Judgement:
    def judge() -> tuple[str, Ruling, Interval | None]:
        rulings, words, interval = [], [], None
        for passes in BASELINES:
            cases = _with_gain(plan, workload, passes, CHOSEN_GAIN)
            interval = ratio(samples, cases, plan.cases(workload, passes, STATIC), "slowdown")
            rulings.append(at_most(interval, 1.0))
            words.append(f"{text_of(interval, '{:.3f}', cases)} {passes}")
        return ", ".join(words), worst(rulings), interval

    return judged(
        Claim(
            key=f"gain.{workload}",
            text=f"with the chosen gain of {CHOSEN_GAIN:g} slowdown is not above static backfill, "
            f"held-out {workload}",
            source="not the paper's",
        ),
        judge,
    )


def _cases(
    plan: SlowdownPlan, workloads: Iterable[str], gains: Iterable[float]
) -> list[SlowdownCase]:
    return [
        case
        for workload in workloads
        for passes in BASELINES
        for found in (
            plan.cases(workload, passes, STATIC),
            *(_with_gain(plan, workload, passes, gain) for gain in gains),
        )
        for case in found
    ]


def _with_gain(plan: SlowdownPlan, workload: str, passes: str, gain: float) -> list[SlowdownCase]:
    if not gain:
        return plan.cases(workload, passes, NO_LIMIT)
    settings = replace(plan.settings, least_gain=gain)
    return replace(plan, settings=settings).cases(workload, passes, WORTH)
