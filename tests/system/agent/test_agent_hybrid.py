"""MPI programs with OpenMP threads: every rank has its own cores after any resize."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import AgentProcess, agent, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "runtime_shims" / "examples"
SHIM = ROOT / "build" / "shims" / "libwattfold_omp.so"
BOTH = ",".join(map(str, CPUS))
ONE = str(CPUS[0])
RANK_NAMES = (b"OMPI_COMM_WORLD_LOCAL_RANK=", b"MPI_LOCALRANKID=", b"WATTFOLD_LOCAL_RANK=")
# Temporarily there are more ranks than cores: without this setting they wait with full CPU load.
ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def hybrid(request, tmp_path_factory) -> tuple[str, Path]:
    """A launcher, and the example built for it."""
    compiler, launcher = (shutil.which(f"{name}.{request.param}") for name in ("mpicc", "mpirun"))
    if compiler is None or launcher is None:
        pytest.skip(f"needs {request.param} with its compiler")
    program = tmp_path_factory.mktemp("hybrid") / "hybrid"
    flags = ["-O2", "-fopenmp", "-D_GNU_SOURCE", f"-I{EXAMPLES}", "-o", str(program)]
    subprocess.run([compiler, *flags, str(EXAMPLES / "hybrid.c"), "-lm"], check=True)
    return launcher, program


@pytest.fixture(params=["cgroup", "affinity"])
def running(request, tmp_path) -> Iterator[AgentProcess]:
    need_two_cpus()
    if not SHIM.exists():
        pytest.skip("scripts/build_shims has not been run")
    cpuset = Path("/sys/fs/cgroup/cpuset/cpuset.cpus")
    if request.param == "cgroup" and not (os.geteuid() == 0 and cpuset.exists()):
        pytest.skip("needs root and cgroups")
    flags = ("--masks", request.param, "--throttle", "signals", "--omp-shim", str(SHIM))
    with agent("--config", emulation_file(tmp_path), *flags, *EMULATE) as started:
        # At its floors the node would slow programs to a sixth.
        started.lease(300)
        results = started.caps(package_0=95, dram_0=35)
        assert [result.status for result in results] == [pb.CAP_STATUS_OK] * 2
        yield started


def launch(
    running: AgentProcess, argv: list[str], mode: common.ResizeMode = common.RESIZE_MODE_TEAM
) -> int:
    fields = {"mode": mode, "tasks_per_node": 2, "env": ENV}
    pid: int = running.launch("h", argv, BOTH, **fields).pid
    running.telemetry(lambda m: any(usage.tasks == 2 for usage in m.jobs))
    return pid


def ranks_below(pid: int) -> dict[int, list[int]]:
    """Processes by the rank in their environment, as the kernel shows them."""
    found: dict[int, list[int]] = {}
    members = [pid]
    for member in members:
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            members.extend(int(text) for text in children.read_text().split())
        for word in Path(f"/proc/{member}/environ").read_bytes().split(b"\0"):
            for name in RANK_NAMES:
                if word.startswith(name):
                    found.setdefault(int(word.removeprefix(name)), []).append(member)
    return found


def affinities(pid: int) -> dict[int, set[str]]:
    """The lists of CPUs that threads of each rank may use."""
    return {
        rank: {
            status.read_text().split("Cpus_allowed_list:")[1].split()[0]
            for member in members
            for status in Path(f"/proc/{member}/task").glob("*/status")
        }
        for rank, members in ranks_below(pid).items()
    }


APART = {0: {str(CPUS[0])}, 1: {str(CPUS[-1])}}
TOGETHER = {0: {ONE}, 1: {ONE}}


ENDLESS = ["300", "10000000"]


def test_ranks_keep_cores_of_their_own(running, hybrid):
    launcher, program = hybrid
    pid = launch(running, [launcher, "-n", "2", str(program), *ENDLESS])
    # During its start, an MPI library binds its thread to one core after the other, and back.
    running.telemetry(lambda m: m.jobs[0].progress.regions > 200)
    until(lambda: affinities(pid) == APART)
    for _ in range(3):
        assert running.mask("h", ONE, deadline_s=10).shim == pb.SHIM_STATE_ATTACHED
        assert affinities(pid) == TOGETHER
        assert running.mask("h", BOTH, deadline_s=10).shim == pb.SHIM_STATE_ATTACHED
        assert affinities(pid) == APART


def alone(grid: str, iterations: str) -> str:
    """What one thread without MPI prints."""
    jacobi = str(ROOT / "build/shims/examples/jacobi")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [jacobi, grid, iterations], capture_output=True, env=environment, check=True
    )
    return done.stdout.decode()


def resized(running: AgentProcess, job: str) -> list[pb.ShimState]:
    """Resizes a job until it has ended, six times at most; the answers of its ranks."""

    def counts_or_has_ended(m: pb.Telemetry) -> bool:
        counts = any(usage.job_id == job and usage.progress.regions > 200 for usage in m.jobs)
        return counts or any(end.job_id == job for end in m.ended)

    running.telemetry(counts_or_has_ended)
    states: list[pb.ShimState] = []
    for cpus in (ONE, BOTH) * 3:
        try:
            states.append(running.mask(job, cpus, deadline_s=10).shim)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            break
    return states


def test_resized_they_come_to_the_same(running, hybrid):
    launcher, program = hybrid
    states: list[pb.ShimState] = []
    iterations = 1500
    # On a busy machine a short program may end before anybody sees it run.
    while pb.SHIM_STATE_ATTACHED not in states:
        iterations *= 2
        job, size = f"h{iterations}", ["300", str(iterations)]
        fields = {"mode": common.RESIZE_MODE_TEAM, "tasks_per_node": 2, "env": ENV}
        running.launch(job, [launcher, "-n", "2", str(program), *size], BOTH, **fields)
        states = resized(running, job)
        ended = running.ended(job)
        assert ended.exit_code == 0, (running.work() / f"wattfold-{job}.err").read_text()
        assert (running.work() / f"wattfold-{job}.out").read_text() == alone(*size)


def test_a_restarted_agent_keeps_the_tasks_apart(running, hybrid):
    launcher, program = hybrid
    pid = launch(running, [launcher, "-n", "2", str(program), *ENDLESS])
    running.telemetry(lambda m: m.jobs[0].progress.regions > 200)
    until(lambda: affinities(pid) == APART)
    running.kill()
    running.start()
    running.telemetry(lambda m: m.jobs[0].tasks == 2)
    assert affinities(pid) == APART
    running.telemetry(lambda m: m.jobs[0].shim == pb.SHIM_STATE_ATTACHED)
    assert running.mask("h", ONE, deadline_s=10).cpus == ONE
    assert affinities(pid) == TOGETHER


def test_processes_without_a_shim_are_placed_as_well(running):
    """A launcher of two lines; each rank has a child process."""
    script = "for r in 0 1; do WATTFOLD_LOCAL_RANK=$r sh -c 'sleep 1000; true' & done; wait"
    pid = launch(running, ["/bin/sh", "-c", script], common.RESIZE_MODE_MASK)
    until(lambda: affinities(pid) == APART)
    assert running.mask("h", ONE).cpus == ONE
    assert affinities(pid) == TOGETHER
    assert running.mask("h", BOTH).shim == pb.SHIM_STATE_ABSENT
    assert affinities(pid) == APART
