"""A coordinator beside Slurm: it leaves the jobs of Slurm alone, and their cores to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm.adopting import PLUGIN, compiled
from system.site.live_site import LiveSite, built, site_plan, wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster
from wattfold.v1 import coordinator_pb2 as pb

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="needs spank_wattfold.so")


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[LiveSite]:
    if not built():
        pytest.skip("no example programs; run scripts/build_shims")
    plan = site_plan(nodes=1, policy="fifo-easy", agent="adopt_slurm = true")
    with LiveSite(plan, tmp_path / "logs") as running:
        socket = running.agent_socket(0).with_name("adopt.sock")
        slurm.plugstack(f"optional {PLUGIN} agent={socket} limit_ms=60000\n")
        yield running
        slurm.cancel_all()
        running.stop()
        running.check_record()


def test_a_coordinator_leaves_a_job_of_slurm_alone(slurm: SlurmCluster, site: LiveSite) -> None:
    program = compiled(slurm.root / "work")
    out, stop = slurm.root / "work" / "a", slurm.root / "work" / "a-stop"
    step = slurm.begin("srun", "-n1", "-c1", "--wattfold=team", str(program), str(out), str(stop))
    wait_until("the program of Slurm runs", out.with_suffix(".0").exists)
    wait_until("its core is reserved", lambda: site.node(0).free_cpus == "1")
    beside = site.submit(["sleep", "1000"])
    site.running(beside)
    both = site.submit(["true"], size_min=2, size_max=2)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("the node is known again", lambda: site.running(beside))
    site.client.cancel(beside)
    site.ended(beside)
    wait_until("its core is still reserved", lambda: site.node(0).free_cpus == "1")
    assert site.job(both).state == pb.JOB_STATE_PENDING
    assert step.poll() is None
    stop.touch()
    assert step.wait(60) == 7
    assert site.ended(both).exit_code == 0
