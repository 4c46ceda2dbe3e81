"""Unmodified launchers in jobs: Open MPI, MPICH and charmrun find their nodes automatically."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from system.site.live_site import wait_until
from system.steps.launcher_site import LauncherSite

from wattfold.v1 import coordinator_pb2 as pb

PROGRAMS = Path(__file__).with_name("programs")
BOTH_NODES = {"n0", "n1"}


@dataclass(frozen=True)
class Mpi:
    """An MPI: the program, its launcher, and its option for one process per node."""

    program: Path
    launcher: str
    one_a_node: str


MPIS = {
    "openmpi": ("mpicc.openmpi", "mpirun.openmpi", "--map-by ppr:1:node"),
    "mpich": ("mpicc.mpich", "mpiexec.hydra", "-n 2 -ppn 1"),
}


@pytest.fixture(scope="module", params=sorted(MPIS))
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mpi:
    compiler, launcher, one_a_node = MPIS[request.param]
    if shutil.which(compiler) is None or shutil.which(launcher) is None:
        pytest.skip(f"needs {compiler} and {launcher}")
    program = tmp_path_factory.mktemp(request.param) / f"ranks-{uuid.uuid4().hex[:8]}"
    command = [compiler, "-O1", "-o", str(program), str(PROGRAMS / "ranks.c")]
    subprocess.run(command, check=True, capture_output=True)
    return Mpi(program, launcher, one_a_node)


def ranks(text: str, word: str = "rank") -> dict[int, tuple[str, str]]:
    """Node and colour by rank."""
    found = re.findall(rf"^{word} (\d+) of \d+ on (\S+).* colour (\S+)$", text, re.M)
    return {int(rank): (node, colour) for rank, node, colour in found}


def test_a_rank_runs_on_every_core_of_every_node(any_site: LauncherSite, mpi: Mpi) -> None:
    text = any_site.done(f"{mpi.launcher} {mpi.program}", **apart(any_site), COLOUR="blue")
    found = ranks(text)
    assert sorted(found) == [0, 1, 2, 3]
    assert [found[rank][0] for rank in range(4)] == ["n0", "n0", "n1", "n1"]
    assert {colour for _, colour in found.values()} == {"blue"}
    assert text.count("sum 6") == 4, "they have spoken to each other"


def apart(site: LauncherSite) -> dict[str, str]:
    """Settings for nodes on TCP, which are not known to share this machine and its memory."""
    tcp = "steps_listen" in site.plan.nodes[0].settings
    return {"OMPI_MCA_btl": "tcp,self"} if tcp else {}


def test_what_the_script_sets_reaches_the_ranks_of_both_nodes(site: LauncherSite, mpi: Mpi) -> None:
    text = site.done(f"export COLOUR=red; {mpi.launcher} {mpi.one_a_node} {mpi.program}")
    assert ranks(text) == {0: ("n0", "red"), 1: ("n1", "red")}


def test_tasks_per_node_are_the_slots(site: LauncherSite, mpi: Mpi) -> None:
    job_id = site.launch(f"cat $OMPI_MCA_orte_default_hostfile; {mpi.launcher} {mpi.program}", 3)
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    assert "localhost slots=3\nn1 slots=3\n" in site.printed(job_id)
    assert sorted(ranks(site.printed(job_id))) == [0, 1, 2, 3, 4, 5]


def test_a_rank_that_fails_there_fails_the_job_with_its_code(site: LauncherSite, mpi: Mpi) -> None:
    job_id = site.launch(f"exec {mpi.launcher} {mpi.one_a_node} {mpi.program} fail 1 5")
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 5)
    site.gone(mpi.program.name)


def test_a_rank_that_is_killed_there_fails_the_job(site: LauncherSite, mpi: Mpi) -> None:
    job_id = site.launch(f"exec {mpi.launcher} {mpi.one_a_node} {mpi.program} die 1")
    job = site.ended(job_id)
    # Open MPI reports the signal; Hydra on several nodes reports only a failure.
    assert job.state == pb.JOB_STATE_FAILED, site.errors(job_id)
    assert job.exit_code
    site.gone(mpi.program.name)


def waiting(site: LauncherSite, mpi: Mpi) -> str:
    """A job whose two ranks wait forever."""
    job_id = site.launch(f"exec {mpi.launcher} {mpi.one_a_node} {mpi.program} wait")
    wait_until("both ranks", lambda: len(ranks(site.printed(job_id))) == 2)
    return job_id


def test_a_cancelled_job_leaves_no_rank(site: LauncherSite, mpi: Mpi) -> None:
    job_id = waiting(site, mpi)
    site.client.cancel(job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_CANCELLED
    site.gone(mpi.program.name)


def test_a_launcher_that_is_killed_leaves_no_rank(site: LauncherSite, mpi: Mpi) -> None:
    job_id = waiting(site, mpi)
    os.kill(site.pid_on(0, job_id), signal.SIGKILL)
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 137)
    site.gone(mpi.program.name)


def test_a_step_host_that_is_killed_takes_the_job_along(site: LauncherSite, mpi: Mpi) -> None:
    job_id = waiting(site, mpi)
    os.kill(site.step_host(), signal.SIGKILL)
    job = site.ended(job_id)
    assert job.state == pb.JOB_STATE_FAILED
    # The first report comes from the step host, or from a launcher that lost its remote shell.
    assert (
        "the step host on n1 ended before the launcher" in job.message
        or "wattfold-rsh: the connection to n1 was lost" in site.errors(job_id)
    )
    site.gone(mpi.program.name)


CHARM = pytest.mark.skipif(
    importlib.util.find_spec("charm4py") is None,
    reason="needs charm4py: pip install 'wattfold[charm]'",
)


@CHARM
@pytest.mark.parametrize("code", [0, 6])
def test_charmrun_starts_its_processes_on_both_nodes(site: LauncherSite, code: int) -> None:
    start = f"{sys.executable} -m charmrun.start +p4"
    path = ":".join(entry for entry in sys.path if entry)
    text = site.done(
        f"export COLOUR=green; {start} {PROGRAMS / 'chares.py'} {code}", code, PYTHONPATH=path
    )
    found = ranks(text, "pe")
    assert sorted(found) == [0, 1, 2, 3]
    assert {node for node, _ in found.values()} == BOTH_NODES
    assert {colour for _, colour in found.values()} == {"green"}
    site.gone("chares.py")


@CHARM
def test_a_cancelled_job_leaves_no_process_of_charm(site: LauncherSite) -> None:
    script = "import charm4py, select; charm4py.charm.start(lambda _: select.select([], [], []))"
    (site.work / "forever.py").write_text(script)
    path = ":".join(entry for entry in sys.path if entry)
    job_id = site.launch(
        f"exec {sys.executable} -m charmrun.start +p2 {site.work / 'forever.py'}", PYTHONPATH=path
    )
    site.says(job_id, "started all node programs")
    assert site.marked("forever.py")
    site.client.cancel(job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_CANCELLED
    site.gone("forever.py")
