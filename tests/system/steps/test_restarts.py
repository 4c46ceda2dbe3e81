"""MPI programs that resume on another number of nodes, even if processes are killed meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.site.live_site import CPUS, MARK, site_plan, wait_until
from system.steps.launcher_site import LAUNCHER_ENV, LauncherSite

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

PROGRAM = Path(__file__).with_name("programs") / "chain.c"
STEPS, PAUSE, ROW = 400, 300, 1000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherSite]:
    """Three nodes, so that a job can have one, two or three nodes."""
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    plan = replace(site_plan(nodes=3, policy="fifo-easy", cpu_share=1.0), omp_shim=None)
    with LauncherSite(plan, tmp_path_factory.mktemp("site") / "logs") as running:
        yield running
    running.check_end()


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("mpicc.openmpi") is None or shutil.which("mpirun.openmpi") is None:
        pytest.skip("needs mpicc.openmpi and mpirun.openmpi")
    program = tmp_path_factory.mktemp("openmpi") / "chain"
    command = ["mpicc.openmpi", "-O1", "-o", str(program), str(PROGRAM)]
    subprocess.run(command, check=True, capture_output=True)
    return program


def undisturbed() -> int:
    """The result of the program."""
    value = 1
    for _ in range(STEPS):
        value = sum((value ^ at) * 2654435761 for at in range(ROW)) % 2**64
    return value


def submit(site: LauncherSite, chain: Path, gate: Path, grace_s: int = 20, then: str = "") -> str:
    mpirun = f"mpirun.openmpi --map-by ppr:1:node {chain} {STEPS} {PAUSE} {gate}"
    # The shell in between has no handler, as in users' scripts.
    return site.submit(
        ["/bin/sh", "-c", f"{mpirun}; code=$?; {then} exit $code"],
        env={"PATH": os.environ["PATH"], "HOME": str(site.work), MARK: str(site.folder)}
        | LAUNCHER_ENV,
        unit=pb.SIZE_UNIT_NODES,
        kind=pb.JOB_KIND_MALLEABLE,
        mode=common_pb2.RESIZE_MODE_RESTART,
        size_min=1,
        size_max=3,
        own_launcher=True,
        snapshot_signal=signal.SIGUSR1,
        snapshot_grace_ns=grace_s * 1_000_000_000,
    )


def begun(site: LauncherSite, job_id: str, attempt: int, ranks: int) -> list[int]:
    """Wait for the ranks of an attempt; return the first step of each attempt so far."""
    site.says(job_id, f"attempt {attempt}: {ranks} ranks")
    assert site.running(job_id).attempt == attempt
    return [int(step) for step in re.findall(r"ranks from (\d+)", site.printed(job_id))]


def finish(site: LauncherSite, job_id: str, gate: Path) -> pb.Job:
    gate.touch()
    job = site.ended(job_id)
    assert job.state == pb.JOB_STATE_COMPLETED, (job, site.errors(job_id))
    assert f"result {undisturbed()}\n" in site.printed(job_id)
    return job


def test_an_mpi_job_changes_its_nodes_and_comes_to_the_same(
    site: LauncherSite, chain: Path, tmp_path: Path
) -> None:
    job_id = submit(site, chain, tmp_path / "gate")
    begun(site, job_id, 1, 3)
    for attempt, size in ((2, 1), (3, 2)):
        site.wattfold("resize", job_id, str(size))
        steps = begun(site, job_id, attempt, size)
        assert steps == sorted(steps), "none goes back behind the one before"
    job = finish(site, job_id, tmp_path / "gate")
    assert [before.why for before in job.attempts] == ["3 -> 1 nodes", "1 -> 2 nodes"]
    assert job.restart_s == 0, "of one that is over nothing is expected"
    (profile,) = site.client.list_profiles(job.spec.app).profiles
    (cost,) = profile.resize_costs
    assert (cost.mode, cost.changes) == (common_pb2.RESIZE_MODE_RESTART, 2)
    assert cost.moved_bytes > 0, "its snapshot"


def test_it_does_so_while_agents_and_the_coordinator_are_killed(
    site: LauncherSite, chain: Path, tmp_path: Path
) -> None:
    job_id = submit(site, chain, tmp_path / "gate")
    begun(site, job_id, 1, 3)
    site.wattfold("resize", job_id, "2")
    site.coordinator.kill()
    site.coordinator.wait()
    site.kill_agent(2)
    site.restart_coordinator()
    site.start_agent(2)
    begun(site, job_id, 2, 2)
    site.kill_agent(1)
    site.wattfold("resize", job_id, "1")
    site.start_agent(1)
    begun(site, job_id, 3, 1)
    wait_until("the nodes", lambda: all(n.state == pb.NODE_STATE_UP for n in nodes(site)))
    site.wattfold("resize", job_id, "3")
    site.coordinator.send_signal(signal.SIGTERM)
    site.coordinator.wait()
    site.restart_coordinator()
    begun(site, job_id, 4, 3)
    finish(site, job_id, tmp_path / "gate")


@pytest.mark.parametrize("away", [0, 2], ids=["of the launcher", "of a step host"])
def test_an_order_that_an_agent_did_not_live_to_hear_is_given_to_the_next_one(
    site: LauncherSite, chain: Path, tmp_path: Path, away: int
) -> None:
    # The grace time is too long for the test: the order must be repeated.
    job_id = submit(site, chain, tmp_path / "gate", grace_s=3600)
    begun(site, job_id, 1, 3)
    # A stopped agent still counts as connected, so the order is sent before its silence is noticed.
    os.kill(site.agent(away).pid, signal.SIGSTOP)
    site.client.resize(job_id, 1)
    saved = site.work / f"wattfold-{job_id}.snapshot" / "state"
    wait_until("a snapshot, for the order on other nodes", saved.exists)
    site.kill_agent(away)
    site.start_agent(away)
    # Not completed, though its launcher has ended with success before it was asked to save.
    _, step = begun(site, job_id, 2, 1)
    assert step == int(saved.read_text().split()[0]), "on from what it has saved"
    job = finish(site, job_id, tmp_path / "gate")
    (before,) = job.attempts
    assert before.why.startswith("3 -> 1 nodes")
    assert ("it is unknown" in before.why) is (away == 0)


def test_what_was_saved_before_the_agent_of_the_launcher_looked_is_gone_on_from(
    site: LauncherSite, chain: Path, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    os.mkfifo(over)
    # Its ranks save and end before the launcher ends, and before the launcher gets the order.
    job_id = submit(site, chain, tmp_path / "gate", grace_s=3600, then=f"read _ < {over};")
    begun(site, job_id, 1, 3)
    agent = site.agent(0).pid
    os.kill(agent, signal.SIGSTOP)
    site.client.resize(job_id, 1)
    saved = site.work / f"wattfold-{job_id}.snapshot" / "state"
    wait_until("a snapshot, for the order on other nodes", saved.exists)
    os.kill(agent, signal.SIGCONT)
    told = f"event=job_end_requested job={job_id} "
    wait_until("the order", lambda: told in (site.logs / "n0.log").read_text())
    over.write_text("go\n")
    begun(site, job_id, 2, 1)
    over.unlink()
    over.touch()
    finish(site, job_id, tmp_path / "gate")


def nodes(site: LauncherSite) -> list[pb.Node]:
    return list(site.client.list_nodes().nodes)
