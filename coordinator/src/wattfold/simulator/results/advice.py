"""Advice from policies and budgets on the same segments of a history.

All values are relative to the current policy under the current budget. Intervals are those of
`comparison.ratio_to`, with segments as pairs. The advised policy is the best of several, and the
best of many equal policies looks better than it is. So its interval has a higher confidence, such
that all intervals together hold with 95 % (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from wattfold.simulator.results.budget_sweep import SweepPoint
from wattfold.simulator.results.comparison import (
    COMPARED,
    ComparedMeasure,
    Repeats,
    mean_run,
    ratio_cell,
    ratio_to,
)
from wattfold.simulator.results.intervals import Interval
from wattfold.simulator.results.scales import Quantity, scale_for

CONFIDENCE = 0.95
GOALS = {
    "completion": "completion_s_mean",
    "wait": "wait_s_mean",
    "slowdown": "bounded_slowdown_mean",
    "energy": "energy_j",
}
"""Measures that an advice may improve, by their words. Less is better for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedOption:
    """A policy under a budget, relative to the current."""

    budget_w: float
    policy: str
    runs: Repeats
    by: Interval
    """95 % interval of the ratio; NaN for the current itself and if no ratio is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The result. ``policy`` is the current policy if no other is shown to be better."""

    goal: ComparedMeasure
    current: AdvisedOption
    options: tuple[AdvisedOption, ...]
    """All options, in the order of budgets and policies."""
    policy: str
    by: Interval
    """Interval of the best other policy under the current budget, at ``confidence``."""
    best: str
    """That policy; empty = there was none to compare."""
    confidence: float

    @property
    def changes(self) -> bool:
        """Whether another policy is shown to be better."""
        return self.policy != self.current.policy


def goal_of(word: str) -> ComparedMeasure:
    """Return the measure of a word of `GOALS`."""
    return next(line for line in COMPARED if line.key == GOALS[word])


def advice_of(
    points: Sequence[SweepPoint], budget_w: float, policy: str, goal: ComparedMeasure
) -> Advice:
    """Return the advice. Raises ValueError if the current policy has no run at its budget."""
    here = next(point for point in points if point.budget_w == budget_w)
    if policy not in here.runs:
        raise ValueError(
            f"the current policy {policy} cannot be simulated under the current budget: "
            f"{here.refused.get(policy, 'it was not run')}"
        )
    base = here.runs[policy]
    options = tuple(
        AdvisedOption(
            budget_w=point.budget_w,
            policy=name,
            runs=runs,
            by=ratio_to(runs, base, goal),
        )
        for point in points
        for name, runs in point.runs.items()
    )
    others = [one for one in options if one.budget_w == budget_w and one.policy != policy]
    confidence = 1 - (1 - CONFIDENCE) / max(len(others), 1)
    judged = [(one, ratio_to(one.runs, base, goal, confidence)) for one in others]
    judged = [(one, by) for one, by in judged if not math.isnan(by.mean)]
    better = [pair for pair in judged if pair[1].high < 1]
    best = min(better or judged, key=lambda pair: pair[1].mean, default=None)
    unknown = Interval(mean=math.nan, low=math.nan, high=math.nan, count=len(base))
    return Advice(
        goal=goal,
        current=next(one for one in options if one.runs is base),
        options=options,
        policy=best[0].policy if best and better else policy,
        by=best[1] if best else unknown,
        best=best[0].policy if best else "",
        confidence=confidence,
    )


def advice_table(advice: Advice) -> Table:
    """Return a line for each budget and policy."""
    goal = advice.goal
    power = scale_for(Quantity.POWER, [one.budget_w for one in advice.options])
    values = [goal.of(mean_run(one.runs)) for one in advice.options]
    scale = scale_for(goal.quantity, values)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(f"BUDGET {power.unit}", justify="right", no_wrap=True)
    table.add_column("POLICY", no_wrap=True)
    table.add_column(scale.label(goal.title).upper(), justify="right", no_wrap=True)
    table.add_column("RATIO", justify="right", no_wrap=True)
    table.add_column("95 % INTERVAL", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one, value in zip(advice.options, values, strict=True):
        now = one is advice.current
        table.add_row(
            power.text(one.budget_w),
            Text(one.policy, style="bold" if now else ""),
            scale.text(value),
            Text("") if now else ratio_cell(one.by, goal.better),
            "" if now else _range(one.by),
            "current" if now else verdict(one.by),
        )
    return table


def verdict(by: Interval) -> str:
    """Return what an interval of a ratio shows, where less is better."""
    if math.isnan(by.low) or math.isnan(by.high):
        return "unknown"
    return "better" if by.high < 1 else "worse" if by.low > 1 else "no difference shown"


def sentences(advice: Advice) -> list[str]:
    """Say what to take, what it gains, and how sure that is."""
    title, current = advice.goal.title, advice.current
    said = []
    sure = f"{100 * advice.confidence:.4g} % interval"
    if advice.changes:
        said.append(
            f"Take {advice.policy}: its {title} is {_change(advice.by)} that of {current.policy} "
            f"under the current budget ({sure} {_range(advice.by)})."
        )
    elif advice.best:
        said.append(
            f"Keep {current.policy}: no difference shown. The best other policy, {advice.best}, "
            f"has {advice.by.mean:.2f} times its {title} ({sure} {_range(advice.by)})."
        )
    else:
        said.append(f"Keep {current.policy}: no other policy could be compared.")
    for one in advice.options:
        if one.policy == advice.policy and one.budget_w != current.budget_w:
            share = 100 * one.budget_w / current.budget_w
            said.append(
                f"Under {share:.0f} % of the budget, {one.policy} has {one.by.mean:.2f} times the "
                f"current {title} ({_range(one.by)}): {verdict(one.by)}."
            )
    if len(advice.options) > 2:
        said.append(
            "The interval of the advised policy allows for the choice of the best of "
            f"{len([o for o in advice.options if o.budget_w == current.budget_w]) - 1} others."
        )
    return said


def _change(by: Interval) -> str:
    return f"{100 * (1 - by.mean):.0f} % below"


def _range(by: Interval) -> str:
    return "-" if math.isnan(by.low) else f"{by.low:.2f} .. {by.high:.2f}"
