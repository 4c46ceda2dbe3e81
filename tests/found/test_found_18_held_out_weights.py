"""Weights of lateness are chosen on one half of the jobs and evaluated on the other half."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.experiments.eurora_folder import published
from unit.experiments.test_constraint_evaluation import verdicts

from wattfold.coordinator.policies import registry
from wattfold.simulator.papers.andreas.settings import AndreasAssumptions, stand_ins
from wattfold.simulator.papers.constraint.case import (
    WEIGHTS,
    ConstraintPlan,
    Folder,
    InstanceCase,
)
from wattfold.simulator.papers.constraint.measure import settings_of
from wattfold.simulator.papers.constraint.settings import (
    BASELINES,
    CHOICE_WINDOWS,
    HELD_OUT_WINDOWS,
    WEIGHTED,
    WINDOW_JOBS,
    ConstraintAssumptions,
)
from wattfold.simulator.papers.verdicts import Verdict

DEFAULT, *OTHERS = WEIGHTED


@pytest.fixture
def plan(tmp_path: Path) -> ConstraintPlan:
    return ConstraintPlan(
        settings=ConstraintAssumptions(), folder=Folder.at(published(tmp_path / "eurora"))
    )


def test_no_job_is_in_both_halves() -> None:
    assert max(one.first for one in CHOICE_WINDOWS) + WINDOW_JOBS <= min(
        one.first for one in HELD_OUT_WINDOWS
    )


def test_the_first_weights_are_the_defaults_of_the_policy(plan: ConstraintPlan) -> None:
    entry = registry.find("constraint")
    assert entry is not None
    defaults = entry.family.defaults()
    told = settings_of(plan.case(WEIGHTS, CHOICE_WINDOWS[0].name, DEFAULT))
    assert told == {name: defaults[name] for name in ("lateness_weight", "late_weight")}


def test_the_choice_sees_the_first_half_alone(plan: ConstraintPlan) -> None:
    """The other weights win on the first half and lose on the second half, which counts."""
    first = {one.name for one in CHOICE_WINDOWS}

    def wqt(case: InstanceCase) -> float:
        if case.policy in BASELINES:
            return 100.0
        best = OTHERS[0] if case.instance in first else DEFAULT
        return 10.0 if case.policy == best else 90.0

    found = verdicts(plan, WEIGHTS, wqt)
    assert found["weights-choice"] == (Verdict.NOT, f"the best is {OTHERS[0]}")
    assert found["weights-held-out"] == (Verdict.DIRECTION, "3 of 3 above")


def test_the_report_says_how_the_search_of_andreas_differs_from_the_papers() -> None:
    [one] = [item for item in stand_ins(AndreasAssumptions(iterations=10)) if "search" in item.name]
    assert one.value.startswith("10 passes")
