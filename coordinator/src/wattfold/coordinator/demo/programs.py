"""The programs of the demonstration, and the calibration of their amounts of work.

Four OpenMP kernels of this project are always there: stencil, molecular dynamics, memory bandwidth
and compute. Three programs are optional: xtb, an unmodified quantum chemistry program of the
distribution; the stencil with MPI and OpenMP on two nodes, started by mpirun; and a Charm++ program
in Python with migrating objects. All take an amount of work. A short run of each determines how
much of it one core does per second.
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
"""Optional programs, and the message if they are missing."""


class ProgramError(Exception):
    """A program is missing, or its trial run failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with a run time linear in ``work``; ``mode`` is the resize mode it supports.

    ``trial_argv`` runs it on one core, if that needs another command line. ``nodes`` is the number
    of whole nodes that it uses with its own launcher; 0 = it uses cores of a node. Programs with a
    slow start are not ``profiled``.
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
        """Return its command line for an amount of work."""
        return [part.replace("{work}", str(work)) for part in self.argv]

    def trial_command(self, work: int) -> list[str]:
        """Return the command line that does this work on one core."""
        return [part.replace("{work}", str(work)) for part in self.trial_argv or self.argv]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A program, and the work that one core does per second of CPU time at full speed."""

    program: Program
    start_cpu_s: float
    work_per_cpu_s: float

    def work_for(self, cpu_s: float) -> int:
        """Return the work that takes this CPU time."""
        return max(round((cpu_s - self.start_cpu_s) * self.work_per_cpu_s), 1)


def find(examples: Path, scratch: Path) -> list[Program]:
    """Return the available programs. Raises ProgramError if the kernels are not built."""
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
    """Return the MPI program: a rank per node, a thread per core, started by mpirun."""
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
    """Return the Charm++ program: heat in a rod in eight blocks, a PE for each possible core."""
    start = (sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py")
    arguments = (str(path), "{work}", "8", "6000")
    return Program(
        name="blocks",
        argv=(*start, *arguments),
        # With its launcher it would be orphaned, and its CPU time would not be counted.
        trial_argv=(sys.executable, *arguments),
        trial_work=10,
        mode="map",
        folder=scratch,
        profiled=False,
    )


def _xtb(path: str, scratch: Path) -> Program:
    """Return molecular dynamics of an alkane chain: a unit of work is a step."""
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
    """Return an all-anti alkane chain in XYZ format; coordinates in angstrom from ideal angles."""
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
    """Run a program twice on one thread, and subtract the times to separate start and work.

    The difference of the runs is large, so that a varying start time (MPI, Python) does not count
    as work.
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
