"""The small cluster of ANDREAS, live: three jobs of it, at a small scale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wattfold.coordinator.simulation.experiments.andreas.cluster import NODES, load

pytestmark = pytest.mark.timeout(240)
SCALE, JOBS = 300.0, 3


def test_the_cluster_is_profiled_and_run_and_compared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wattfold = Path(sys.executable).with_name("wattfold")
    words = ("--json", "reproduce", "andreas", "cluster", "--quick", "--out", str(out))
    done = subprocess.run(
        [str(wattfold), *words], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "(emulated)" in done.stderr
    run = load(out / f"cluster-{JOBS}-{SCALE:g}.json")
    assert [one.name for one in run.jobs] == ["J6", "J9", "J10"]
    assert [one.epochs for one in run.jobs] == [80, 160, 80]
    known = {node.name for node in NODES}
    for one in run.jobs:
        assert one.submitted_s <= one.started_s < one.ended_s
        assert {*one.nodes} <= known
    # A V100 at work draws more than a T4, two of them more than one.
    watts = {(probe.node, probe.gpus): probe.watts for probe in run.probes}
    assert watts["armida-07", 1] < watts["armida-06", 1] < watts["armida-06", 2]
    assert run.energy_j > 0
    told = json.loads(done.stdout)
    (section,) = (one for one in told["experiments"] if one["name"] == "cluster")
    assert section["emulated"]
    assert section["cost_predicted_eur"] > 0
    assert "EMULATED" in (out / "report.md").read_text()
    assert (out / "cluster" / "cluster.png").is_file()
