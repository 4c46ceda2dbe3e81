"""Predictions in simulations by messages: the code of the service, every policy, all checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.runs.sample_runs import case

from wattfold.coordinator.models.forecast import METHODS
from wattfold.coordinator.policies import registry
from wattfold.simulator.runs.case import MessageLevel, SimulationCase
from wattfold.simulator.runs.execute import execute

SERVED = [e.variant.simulator_name for e in registry.entries() if e.variant.service is not None]


def by_messages(policy: str, predict: str, folder: Path, jobs: int) -> SimulationCase:
    made = case(policy, folder, jobs=jobs)
    return replace(made, predict=predict, messages=MessageLevel())


@pytest.mark.parametrize("policy", SERVED)
def test_every_policy_of_the_service_plans_with_predictions(policy: str, tmp_path: Path) -> None:
    record = execute(by_messages(policy, "last-two", tmp_path, jobs=8)).record
    assert record is not None
    assert record.policy == f"{policy}+last-two"
    assert record.over_budget_ns == 0


def test_they_change_what_a_policy_does_and_a_second_run_nothing(tmp_path: Path) -> None:
    starts = {}
    for name in ("", *METHODS[1:], METHODS[1] + " "):
        made = by_messages("easy", name.strip(), tmp_path / (name or "user"), jobs=20)
        record = execute(made).record
        assert record is not None
        starts[name] = record.columns.start_ns.tolist()
    assert starts["last-two"] == starts["last-two "]
    assert starts[""] != starts["last-two"]
    assert starts["last-two"] != starts["regression"]
