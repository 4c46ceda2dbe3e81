#!/usr/bin/env python3
"""Cost of a poll of a real Slurm with 1,000 pending jobs: slurmctld's time, and our time.

Without Slurm and root, the benchmark is skipped.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wattfold.coordinator.adapters.resource_manager.settings import SlurmSettings
from wattfold.coordinator.adapters.resource_manager.slurm import Slurm
from wattfold.coordinator.core.model.resource_manager import ManagedJob
from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster, missing, slurm_cluster

JOBS, POLLS, COMMENTS = 1_000, 20, 200
SLURMCTLD_S_MAX = 0.3
"""Target for one poll, CPU time of slurmctld."""
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def fill(cluster: SlurmCluster) -> None:
    """Submit the jobs, four at a time."""

    def submit(_: int) -> None:
        cluster.call("sbatch", "--hold", "--wrap", "true")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, range(JOBS)))


def polls(slurm: Slurm, pid: int) -> tuple[float, float, tuple[ManagedJob, ...]]:
    """Return slurmctld's time and the duration of one poll, in seconds, and the jobs."""
    before_s, began_s = cpu_s(pid), time.monotonic()
    for _ in range(POLLS):
        facts = asyncio.run(slurm.read())
    elapsed_s = time.monotonic() - began_s
    return (cpu_s(pid) - before_s) / POLLS, elapsed_s / POLLS, facts.jobs


def main() -> int:
    """Measure, print, and return the exit status."""
    if why := missing():
        print(f"slurm: skipped, {why}")
        return 0
    with slurm_cluster() as cluster:
        fill(cluster)
        slurm = Slurm(SlurmSettings(conf=str(cluster.root / "slurm.conf"), timeout_s=60))
        pid = cluster.daemons["slurmctld"].pid
        slurmctld_s, poll_s, jobs = polls(slurm, pid)
        assert len(jobs) == JOBS, len(jobs)
        before_s, began_s = cpu_s(pid), time.monotonic()
        asyncio.run(slurm.tell({job.job_id: "cap 40 W" for job in jobs[:COMMENTS]}))
        comments_s, told_s = cpu_s(pid) - before_s, time.monotonic() - began_s
    passed = slurmctld_s <= SLURMCTLD_S_MAX
    print(
        f"slurm: poll of {JOBS} pending jobs: {slurmctld_s:.3f} s of slurmctld (target "
        f"{SLURMCTLD_S_MAX} s), {poll_s:.3f} s in total; {COMMENTS} comments: {comments_s:.3f} s "
        f"of slurmctld, {told_s:.3f} s in total {'ok' if passed else 'MISSED'}"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
