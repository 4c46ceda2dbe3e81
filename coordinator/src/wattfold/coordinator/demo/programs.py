"""The programs of the demonstration: where they are, and how much work suits this machine.

Four OpenMP kernels of this project (stencil, molecular dynamics, memory bandwidth, compute) and,
where what they need is installed: xtb, a quantum chemistry program of the distribution, unmodified;
the stencil with MPI and OpenMP on two nodes, started by mpirun; a Charm++ program in Python, whose
objects move. All take an amount of work; a short run of each tells how much of it a second of one
core does.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CALIBRATION_CPU_S = 0.15
WORK_MAX = 1 << 24
MAY_BE_MISSING = {
    "xtb": "quantum chemistry (xtb is not installed)",
    "hybrid": "MPI with OpenMP (no mpirun and mpicc were found when the examples were built)",
    "blocks": "Charm++ (charm4py is not installed)",
}
"""Programs the mix can do without, and what to say then."""


class ProgramError(Exception):
    """A program is missing or failed its trial run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program whose run time is linear in ``work``; ``mode`` is the resize mode it bears.

    ``trial_argv`` runs it on one core, where that takes another command line. ``nodes`` are the
    whole nodes it takes with a launcher of its own, 0 = it takes cores of one node. Programs that
    take seconds to start are not ``profiled``.
    """

    name: str
    argv: tuple[str, ...]
    trial_work: int
    mode: str
    folder: Path
    trial_argv: tuple[str, ...] = ()
    nodes: int = 0
    profiled: bool = True
    environment: tuple[tuple[str, str], ...] = ()

    def command(self, work: int) -> list[str]:
        """Its command line for an amount of work."""
        return [part.replace("{work}", str(work)) for part in self.argv]

    def trial_command(self, work: int) -> list[str]:
        """The command line that does so much work on one core."""
        return [part.replace("{work}", str(work)) for part in self.trial_argv or self.argv]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A program and the work one core does in a second of CPU time at full speed."""

    program: Program
    start_cpu_s: float
    work_per_cpu_s: float

    def work_for(self, cpu_s: float) -> int:
        """The work that takes that much CPU time."""
        return max(round((cpu_s - self.start_cpu_s) * self.work_per_cpu_s), 1)


def find(examples: Path, scratch: Path) -> list[Program]:
    """The programs there are. Raises ProgramError when the kernels are not built."""
    kernels = [
        ("jacobi", ("1000", "{work}"), 100),
        ("md", ("1500", "{work}"), 10),
        ("stream", ("16", "{work}"), 10),
        ("compute", ("{work}",), 100),
    ]
    programs: list[Program] = []
    for name, arguments, trial in kernels:
        path = examples / name
        if not os.access(path, os.X_OK):
            raise ProgramError(f"{path} is missing; build it with scripts/build_shims")
        programs.append(
            Program(
                name=name,
                argv=(str(path), *arguments),
                trial_work=trial,
                mode="team",
                folder=scratch,
            ),
        )
    xtb = shutil.which("xtb")
    if xtb:
        programs.append(_xtb(xtb, scratch))
    mpirun = shutil.which("mpirun")
    if mpirun and os.access(examples / "hybrid", os.X_OK):
        programs.append(_hybrid(mpirun, examples / "hybrid", scratch))
    if importlib.util.find_spec("charm4py"):
        programs.append(_blocks(examples / "blocks.py", scratch))
    return programs


MPI_NODES = 2
_ON_THIS_MACHINE = (
    # All nodes are this machine, so their traffic needs no network.
    ("OMPI_MCA_btl_tcp_if_include", "lo"),
    ("OMPI_MCA_oob_tcp_if_include", "lo"),
    ("OMPI_MCA_btl", "self,tcp"),
    # Nodes that share a core must not wait for each other by spinning.
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ("HYDRA_IFACE", "lo"),
)
_AS_ROOT = (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))


def _hybrid(mpirun: str, path: Path, scratch: Path) -> Program:
    """One rank a node and a thread for each of its cores; mpirun reaches the second node itself."""
    arguments = (str(path), "2000", "{work}")
    is_hydra = os.path.realpath(mpirun).rpartition("/")[2].startswith("mpiexec.hydra")
    one_a_node = ("-ppn", "1") if is_hydra else ("--map-by", "ppr:1:node")
    return Program(
        name="hybrid",
        argv=(mpirun, "-n", str(MPI_NODES), *one_a_node, *arguments),
        trial_argv=arguments,
        trial_work=5,
        mode="fixed",
        folder=scratch,
        nodes=MPI_NODES,
        profiled=False,
        environment=_ON_THIS_MACHINE + (_AS_ROOT if os.geteuid() == 0 else ()),
    )


def _blocks(path: Path, scratch: Path) -> Program:
    """Heat in a rod in eight blocks; as many PEs as the job can have cores."""
    start = (sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py")
    arguments = (str(path), "{work}", "8", "6000")
    return Program(
        name="blocks",
        argv=(*start, *arguments),
        # Under its launcher it would be nobody's child, and its CPU time not be seen.
        trial_argv=(sys.executable, *arguments),
        trial_work=10,
        mode="map",
        folder=scratch,
        profiled=False,
    )


def _xtb(path: str, scratch: Path) -> Program:
    """Molecular dynamics of an alkane chain: a step of the dynamics is a unit of work."""
    folder = scratch / "xtb"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chain.xyz").write_text(alkane(16), encoding="ascii")
    script = (
        'd=$(mktemp -d) && cd "$d" && cp "$0" chain.xyz && '
        'printf "\\$md\\n time=%s\\n step=1.0\\n hmass=1\\n shake=0\\n\\$end\\n" '
        '"$(echo "$1" | awk \'{print $1 / 1000}\')" > md.inp && '
        f'{path} chain.xyz --md --input md.inp; code=$?; rm -rf "$d"; exit $code'
    )
    return Program(
        name="xtb",
        argv=("/bin/sh", "-c", script, str(folder / "chain.xyz"), "{work}"),
        trial_work=10,
        mode="mask",
        folder=folder,
    )


def alkane(carbons: int) -> str:
    """An all-anti alkane chain in XYZ format; coordinates in angstrom from ideal angles."""
    along, rise, out = 1.27, 0.42, 0.89
    atoms: list[tuple[str, float, float, float]] = []
    for index in range(carbons):
        side = 1.0 if index % 2 else -1.0
        x, y = along * index, rise * side
        atoms.append(("C", x, y, 0.0))
        atoms += [("H", x, y + 0.63 * side, z) for z in (out, -out)]
    last = 1.0 if (carbons - 1) % 2 else -1.0
    atoms.append(("H", -0.95, -rise + 0.55, 0.0))
    atoms.append(("H", along * (carbons - 1) + 0.95, (rise - 0.55) * last, 0.0))
    lines = [f"{name} {x:.4f} {y:.4f} {z:.4f}" for name, x, y, z in atoms]
    return "\n".join([str(len(atoms)), "all-anti alkane", *lines]) + "\n"


def calibrate(program: Program) -> Calibrated:
    """Runs a program twice for a moment, on one thread, and takes work and time off each other.

    The longer one takes so much more that the start, which differs from run to run (MPI, Python),
    is not taken for work.
    """
    work = program.trial_work
    short_s = _cpu_s(program, work)
    while short_s < CALIBRATION_CPU_S / 4 and work < WORK_MAX:
        work *= 4
        short_s = _cpu_s(program, work)
    more, longer_s = 2 * work, 0.0
    while longer_s < max(CALIBRATION_CPU_S, short_s):
        if more > WORK_MAX:
            raise ProgramError(f"{program.name}: its CPU time does not grow with its work")
        more *= 2
        longer_s = _cpu_s(program, work + more) - short_s
    per_work_s = longer_s / more
    return Calibrated(
        program=program,
        start_cpu_s=max(short_s - work * per_work_s, 0.0),
        work_per_cpu_s=1 / per_work_s,
    )


def _cpu_s(program: Program, work: int) -> float:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    environment |= dict(program.environment)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        program.trial_command(work),
        cwd=program.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ProgramError(f"{program.name} failed with {done.returncode}: {' '.join(tail)}")
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
