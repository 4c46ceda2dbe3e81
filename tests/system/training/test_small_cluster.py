"""The small cluster of ANDREAS on a live site: three of its jobs, at a small scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from wattfold.coordinator.demo.training_trial import BASE_W
from wattfold.simulator.papers.andreas.cluster import NODES, load

SCALE, JOBS = 900.0, 3
"""At the usual scale of a quick look, trainings compute three times as long."""
HOST_W = 50.0
"""Power of package and DRAM."""
MOST_W = {"armida-05": 250.0, "armida-06": 500.0, "armida-07": 70.0}
"""Maximum power of the GPUs of a node."""


def test_the_cluster_is_profiled_and_run_and_compared(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wattfold = Path(sys.executable).with_name("wattfold")
    words = ("--json", "reproduce", "andreas", "cluster", "--quick", f"--scale={SCALE:g}")
    command = [str(wattfold), *words, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "(emulated)" in done.stderr
    run = load(out / f"cluster-{JOBS}-{SCALE:g}.json")
    assert [one.name for one in run.jobs] == ["J6", "J9", "J10"]
    assert [one.epochs for one in run.jobs] == [80, 160, 80]
    known = {node.name for node in NODES}
    for one in run.jobs:
        assert one.submitted_s <= one.started_s < one.ended_s
        assert {*one.nodes} <= known
    # On a busy machine training jobs draw less, but nothing draws more than its maximum.
    for probe in run.probes:
        assert BASE_W < probe.watts <= BASE_W + HOST_W + MOST_W[probe.node]
    assert run.energy_j > 0
    told = json.loads(done.stdout)
    (section,) = (one for one in told["experiments"] if one["name"] == "cluster")
    assert section["emulated"]
    assert section["cost_predicted_eur"] > 0
    assert "EMULATED" in (out / "report.md").read_text()
    assert (out / "cluster" / "cluster.png").is_file()
