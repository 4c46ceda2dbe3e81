"""Every start of two logs under FCFS + EASY against published outputs of another simulator."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import job_table
from wattfold.simulator.workloads.swf_reader import read_swf

ROOT = Path(os.environ.get("WATTFOLD_WORKLOADS", ""))


@pytest.mark.skipif(
    not (ROOT / "easy_reference").is_dir() or not os.environ.get("WATTFOLD_WORKLOADS"),
    reason="WATTFOLD_WORKLOADS names no folder with reference starts",
)
@pytest.mark.parametrize(
    ("log", "nodes", "jobs"), [("kth_sp2", 100, 28481), ("sdsc_sp2", 128, 54006)]
)
def test_every_start_agrees(log: str, nodes: int, jobs: int):
    table = job_table(read_swf(ROOT / "workloads" / f"{log}.swf.gz").workload)
    machine = Machine.of_watts(nodes)
    record = simulate(table, machine, EasyScheduler(), BudgetSchedule.constant(machine.full_uw))
    with gzip.open(ROOT / "easy_reference" / f"{log}.csv.gz", "rt") as stream:
        expected = {int(row["job_id"]): int(row["start"]) for row in csv.DictReader(stream)}
    wanted = np.array([expected[job_id] for job_id in table.job_ids.tolist()])
    assert len(wanted) == jobs
    assert np.array_equal(record.columns.start_ns, wanted * 1_000_000_000)
