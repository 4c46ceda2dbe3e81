"""A node of Slurm with its agent, and programs for its jobs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from system.agent.agent_process import AgentProcess
from waiting import wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster
from wattfold.v1 import node_agent_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "build" / "shims" / "spank_wattfold.so"
SHIM = ROOT / "build" / "shims" / "libwattfold_omp.so"
LIMIT_MS = 60_000
"""A busy machine may delay an agent; only tests of the limit itself use the default."""


def compiled(folder: Path) -> Path:
    """Compile the OpenMP program, readable by all accounts."""
    source, program = Path(__file__).parent / "programs" / "team.c", folder / "team"
    subprocess.run(["gcc", "-O1", "-fopenmp", "-o", program, source], check=True)
    return program


def readable(file: Path, folder: Path) -> Path:
    """Copy a built file, as a checkout in a home directory may be closed to other accounts."""
    return Path(shutil.copy2(file, folder))


class Node:
    """The agent of a node of Slurm. It does not run until :meth:`start`."""

    def __init__(self, cluster: SlurmCluster, agent: AgentProcess, program: Path) -> None:
        self.cluster = cluster
        self.agent = agent
        self.program = program
        self.plugin = readable(PLUGIN, program.parent)

    def use_plugin(self, limit_ms: int = LIMIT_MS, arguments: str = "") -> None:
        """Install the plugin."""
        socket = f"{self.agent.root}/run/adopt.sock"
        line = f"optional {self.plugin} agent={socket} limit_ms={limit_ms} {arguments}\n"
        self.cluster.plugstack(line)

    def work(self, name: str) -> Path:
        return self.cluster.root / "work" / name

    def team(self, name: str) -> list[str]:
        """The command of the program with output ``name``; it ends when ``name-stop`` exists."""
        return [str(self.program), str(self.work(name)), str(self.work(f"{name}-stop"))]

    def end(self, name: str) -> None:
        self.work(f"{name}-stop").touch()

    def lines(self, name: str, rank: int = 0) -> list[str]:
        path = self.work(f"{name}.{rank}")
        return path.read_text().splitlines() if path.exists() else []

    def has_team(self, name: str, size: int, rank: int = 0) -> None:
        """Wait until the program works with a team of this size."""
        wait_until(
            f"{name}.{rank} has a team of {size}",
            lambda: self.lines(name, rank)[-1:] == [f"team {size}"],
        )


def live(node: Node) -> dict[str, pb.ProcessInfo]:
    """Return the running jobs of the agent."""
    found = node.agent.processes().items()
    return {job: process for job, process in found if process.state == pb.PROCESS_STATE_RUNNING}


def attached(node: Node, job: str) -> None:
    """Wait until a shim of the job reports."""
    node.agent.telemetry(lambda m: any(u.job_id == job and u.progress.regions for u in m.jobs))


def allowed(node: Node, name: str) -> str:
    """Return the CPUs that the kernel allows the program."""
    pid = node.lines(name)[0].split()[1]
    text = Path(f"/proc/{pid}/status").read_text()
    return text.split("Cpus_allowed_list:")[1].split()[0]


@contextmanager
def node_of(cluster: SlurmCluster, *flags: str, cpus: str = "0-1") -> Iterator[Node]:
    """An agent that adopts, beside a cluster with one node."""
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        program = compiled(root)
        shim = ("--omp-shim", str(readable(SHIM, root)))
        agent = AgentProcess(root, "--adopt-slurm", "--emulate", *shim, "--cpus", cpus, *flags)
        agent.start()
        node = Node(cluster, agent, program)
        node.use_plugin()
        try:
            yield node
        finally:
            cluster.cancel_all()
            cluster.plugstack("")
            assert agent.stop() == 0, agent.log()
