"""The jobs of the demonstration: their programs, sizes and arrival times."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.programs import Calibrated
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

_MODES = {
    "team": common_pb2.RESIZE_MODE_TEAM,
    "mask": common_pb2.RESIZE_MODE_MASK,
    "map": common_pb2.RESIZE_MODE_MAP,
    "fixed": common_pb2.RESIZE_MODE_FIXED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A submission, and its time in seconds after the start."""

    at_s: float
    spec: pb.JobSpec


REFERENCE_CPUS = 0.41
"""CPU seconds per second of a whole node for which the amounts below were chosen.

This is the share of a node if four nodes share a machine with two cores.
"""
# (program, seconds of one core's CPU time, minimum and maximum cores, arrival)
_JOBS: Sequence[tuple[str, float, int, int, float]] = (
    ("hybrid", 2.0, 2, 2, 0.0),
    ("blocks", 3.0, 1, 2, 0.0),
    ("jacobi", 4.5, 1, 2, 0.2),
    ("md", 5.0, 1, 2, 0.5),
    ("stream", 4.0, 1, 2, 1.0),
    ("compute", 5.0, 1, 2, 2.0),
    ("xtb", 4.0, 1, 2, 3.0),
    ("compute", 3.0, 1, 2, 6.0),
    ("jacobi", 3.0, 1, 2, 8.0),
    ("md", 3.0, 1, 2, 10.0),
    ("stream", 2.0, 1, 1, 11.0),
    ("compute", 1.5, 1, 1, 12.0),
)


def arrivals(
    programs: Sequence[Calibrated], layout: Layout, outputs: Path, scale: float
) -> list[Arrival]:
    """Return the jobs: work and arrivals scaled by ``scale``, sizes as shares of a node.

    The stated run time of a job is that at its maximum size and full power, as users know it from
    earlier runs. Programs that are missing, or that need more nodes, are left out.
    """
    known = {
        entry.program.name: entry for entry in programs if entry.program.nodes <= len(layout.nodes)
    }
    there = [job for job in _JOBS if job[0] in known]
    out: list[Arrival] = []
    for number, (name, cpu_s, low, high, at_s) in enumerate(there, 1):
        entry = known[name]
        # The work is scaled so that a job takes equally long on any machine at the same share of a
        # node.
        cpu_s = cpu_s * scale * layout.cpu_share * layout.cores_per_node / REFERENCE_CPUS
        spec = _spec(f"{number}-{name}", entry, cpu_s, outputs)
        spec.name = f"{name}{number}"
        if entry.program.nodes:
            _take_nodes(spec, entry.program.nodes)
            most = entry.program.nodes * layout.cores_per_node
        else:
            most = max(layout.cores_per_node * high // 2, 1)
            _take_cores(spec, low, most)
        spec.time_ns = ns_from_s(cpu_s / (layout.cpu_share * most))
        out.append(Arrival(at_s=at_s * scale, spec=spec))
    return out


def _spec(label: str, entry: Calibrated, cpu_s: float, outputs: Path) -> pb.JobSpec:
    program = entry.program
    return pb.JobSpec(
        app=program.name,
        argv=program.command(entry.work_for(cpu_s)),
        env=environment() | dict(program.environment),
        cwd=str(program.folder),
        stdout_path=str(outputs / f"{label}.out"),
        stderr_path=str(outputs / f"{label}.err"),
        mode=_MODES[program.mode],
    )


def _take_cores(spec: pb.JobSpec, least: int, most: int) -> None:
    spec.kind = pb.JOB_KIND_MALLEABLE if most > least else pb.JOB_KIND_RIGID
    spec.unit = pb.SIZE_UNIT_CORES
    spec.size_min, spec.size_max = least, most


def _take_nodes(spec: pb.JobSpec, nodes: int) -> None:
    spec.kind, spec.unit = pb.JOB_KIND_RIGID, pb.SIZE_UNIT_NODES
    spec.size_min = spec.size_max = nodes
    spec.own_launcher = True


def environment() -> dict[str, str]:
    """Return the environment variables that programs need from the caller."""
    wanted = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in wanted if name in os.environ}
