"""What `wattfold-agent check` reports about jobs of Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.host_findings import slurm
from wattfold.nodeagent.core.findings import Status


def test_an_agent_that_does_not_adopt_reports_nothing() -> None:
    assert slurm(load(["--emulate"])) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_jobs_of_slurm_need_cpusets(tmp_path: Path) -> None:
    config = load(["--emulate", "--adopt-slurm", "--cgroup-root", str(tmp_path)])
    (missing,) = slurm(config)
    assert missing.status is Status.NO
    assert "no cpuset controller" in missing.finding
    (tmp_path / "cgroup.controllers").write_text("cpu cpuset\n")
    (found,) = slurm(config)
    assert found.status is Status.OK
    assert "ConstrainCores=yes" in found.finding
