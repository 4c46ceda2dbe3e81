"""Unmodified MPI + OpenMP programs under srun."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from slurm.adopting import PLUGIN, Node, live, node_of
from waiting import wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster
from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="needs spank_wattfold.so")
SOURCE = Path(__file__).parent / "programs" / "ranks.c"


def counted(node: Node, name: str, rank: int) -> int:
    """Return the number of steps of a rank; 0 while it writes."""
    path = node.work(f"{name}.{rank}")
    words = path.read_text().split() if path.exists() else []
    return int(words[5]) if len(words) == 6 else 0


@pytest.mark.parametrize(("compiler", "kind"), [("mpicc.openmpi", "pmix"), ("mpicc.mpich", "pmi2")])
def test_ranks_are_adopted_and_resized(slurm: SlurmCluster, compiler: str, kind: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    if kind not in slurm.call("srun", "--mpi=list", check=False):
        pytest.skip(f"needs Slurm with {kind}")
    program = slurm.root / "work" / f"ranks-{kind}"
    subprocess.run([compiler, "-fopenmp", "-o", program, SOURCE], check=True)
    with node_of(slurm) as node:
        out, stop = node.work(kind), node.work(f"{kind}-stop")
        words = [f"--mpi={kind}", "--wattfold=team", str(program), str(out), str(stop)]
        step = slurm.begin("srun", "-n2", "-c1", *words)
        wait_until("both ranks work", lambda: min(counted(node, kind, r) for r in (0, 1)))
        ((job, _),) = live(node).items()
        wait_until("both shims work", lambda: node.agent.log().count("shim_attached") == 2)
        for cpus in ("0", "0-1"):
            answer = node.agent.mask(job, cpus)
            assert (answer.cpus, answer.shim) == (cpus, pb.SHIM_STATE_ATTACHED)
            before = counted(node, kind, 1)
            wait_until("it continues", lambda before=before: counted(node, kind, 1) > before + 5)
        stop.touch()
        assert step.wait(60) == 0
        assert node.agent.ended(job).exit_code == 0
