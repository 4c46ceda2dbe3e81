"""Experiment d of slowdown-driven's evaluation: a few real programs under both policies."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from system.site.live_site import EXAMPLES, SHIM

from wattfold.coordinator.demo.runner import Interruption
from wattfold.coordinator.demo.sharing import SharingExtent, SharingTrial
from wattfold.simulator.papers.slowdown_driven.measured import load
from wattfold.simulator.papers.slowdown_driven.measured_claims import (
    SHARED,
    STATIC,
)

pytestmark = [pytest.mark.system]


def test_the_same_jobs_run_under_both_policies(tmp_path: Path) -> None:
    said = io.StringIO()
    trial = SharingTrial(
        SharingExtent(jobs=4, seeds=1, scale=0.1),
        EXAMPLES,
        SHIM,
        tmp_path / "work",
        Interruption(),
        Console(file=said),
    )
    kept = tmp_path / "measured.json"
    measured = trial.all(quick=True, kept=kept)
    assert load(kept) == measured
    assert trial.all(quick=True, kept=kept) == measured
    assert [run.policy for run in measured.runs] == [STATIC, SHARED]
    static, shared = measured.runs
    assert [job.name for job in static.jobs] == [job.name for job in shared.jobs]
    assert [job.alone_s for job in static.jobs] == [job.alone_s for job in shared.jobs]
    for run in measured.runs:
        assert len(run.jobs) == 4
        assert run.committed_w_peak <= run.budget_w
        assert run.energy_j > 0
        for job in run.jobs:
            assert job.submitted_s <= job.started_s < job.ended_s <= run.makespan_s
    assert static.resizes == 0
    assert said.getvalue().count("seed 0, slowdown-driven: 4 jobs") == 1
