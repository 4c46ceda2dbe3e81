"""Advice: which differences count as shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wattfold.simulator.results.advice import Advice, advice_of, goal_of, sentences, verdict
from wattfold.simulator.results.budget_sweep import SweepPoint
from wattfold.simulator.results.comparison import COMPARED, Compared

GOAL = goal_of("completion")
NOW = (100.0, 120.0, 90.0, 110.0, 105.0)


def runs(policy: str, completions_s: Sequence[float]) -> list[Compared]:
    zeros = dict.fromkeys((line.key for line in COMPARED), 1.0)
    return [
        Compared(policy=policy, jobs=10, **(zeros | {"completion_s_mean": value}))
        for value in completions_s
    ]


def advice(
    here: dict[str, Sequence[float]], lower: dict[str, Sequence[float]] | None = None
) -> Advice:
    def point(budget_w: float, named: dict[str, Sequence[float]]) -> SweepPoint:
        found = {name: runs(name, values) for name, values in named.items()}
        return SweepPoint(budget_w=budget_w, runs=found, refused={})

    points = [point(80.0, lower)] if lower else []
    return advice_of([*points, point(100.0, {"now": NOW, **here})], 100.0, "now", GOAL)


def scaled(factors: Sequence[float]) -> list[float]:
    return [value * factor for value, factor in zip(NOW, factors, strict=True)]


BETTER = scaled((0.80, 0.81, 0.79, 0.80, 0.82))
NOISE = scaled((0.7, 1.2, 0.8, 1.25, 0.9))


def test_a_clear_gain_is_advised_with_its_size() -> None:
    found = advice({"noisy": NOISE, "good": BETTER})
    assert found.policy == "good"
    assert sentences(found)[0].startswith("Take good: its mean completion is 20 % below")


def test_a_lucky_mean_is_not_a_difference() -> None:
    found = advice({"noisy": NOISE})
    assert found.by.mean < 1
    assert not found.changes
    assert "no difference shown" in sentences(found)[0]


def test_a_clear_gain_wins_over_a_larger_mean_that_may_be_luck() -> None:
    lucky = scaled((0.2, 1.3, 0.3, 1.2, 0.4))
    found = advice({"lucky": lucky, "good": BETTER})
    assert found.policy == "good"


def test_the_choice_among_many_needs_a_wider_interval() -> None:
    # Better at 95 %, but not at 99 %.
    slight = scaled((0.85, 0.97, 0.88, 0.98, 0.92))
    alone = advice({"slight": slight})
    assert alone.changes
    assert alone.confidence == pytest.approx(0.95)
    others = {f"other{n}": scaled([1.1] * 5) for n in range(9)}
    crowd = advice({"slight": slight, **others})
    assert crowd.confidence == pytest.approx(0.995)
    assert not crowd.changes
    [shown] = [one for one in crowd.options if one.policy == "slight"]
    assert verdict(shown.by) == "better"


def test_lower_budgets_are_told_for_the_advised_policy() -> None:
    found = advice({"good": BETTER}, {"good": scaled([1.2, 1.21, 1.19, 1.2, 1.22]), "now": NOW})
    [told] = [line for line in sentences(found) if line.startswith("Under 80 %")]
    assert "good has 1.20 times" in told
    assert told.endswith("worse.")


def test_the_present_policy_must_run_under_the_present_budget() -> None:
    point = SweepPoint(budget_w=100.0, runs={}, refused={"now": "too wide"})
    with pytest.raises(ValueError, match="too wide"):
        advice_of([point], 100.0, "now", GOAL)
