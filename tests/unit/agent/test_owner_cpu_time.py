"""CPU time of adopted jobs, read from the groups in which their owner counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock

JOB = JobId("slurm-7")


def clock_of(root: Path, version: int) -> tuple[CpuClock, Path]:
    """Return a clock on a tree of this version, and the group of a job of Slurm."""
    group = root / "cpuacct" / "slurm" / "job_7" if version == 1 else root / "slurm" / "job_7"
    group.mkdir(parents=True)
    if version == 1:
        (root / "cpuacct" / "cpuacct.usage").write_text("0\n")
        (group / "cpuacct.usage").write_text("5000\n")
        (group / "cpuacct.usage_percpu").write_text("2000 3000\n")
    else:
        (root / "cgroup.controllers").write_text("cpu\n")
        (group / "cpu.stat").write_text("usage_usec 5\nuser_usec 4\n")
    clock = CpuClock(root, "n0", use_cgroups=True)
    clock.count_in(JOB, group)
    return clock, group


@pytest.mark.parametrize("version", [1, 2])
def test_the_owner_counts(tmp_path: Path, version: int) -> None:
    clock, _ = clock_of(tmp_path, version)
    assert clock.read_ns(JOB, 0, []) == 5000
    assert clock.by_cpu_ns(JOB) == ([2000, 3000] if version == 1 else None)
    assert clock.processes(JOB) is None, "they are in the groups of the steps"


@pytest.mark.parametrize("version", [1, 2])
def test_the_group_of_the_owner_stays(tmp_path: Path, version: int) -> None:
    clock, group = clock_of(tmp_path, version)
    for file in group.iterdir():
        file.unlink()
    clock.remove(JOB)
    assert group.is_dir()
    # A later job of this number is counted by the agent again.
    own = tmp_path / "cpuacct" / "wattfold" / "n0" / JOB / "cgroup.procs"
    assert clock.prepare(JOB) == ((own,) if version == 1 else ())
