"""The jobs of the demonstration: which programs, how large, when they arrive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.demo.programs import Calibrated
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

_MODES = {"team": common_pb2.RESIZE_MODE_TEAM, "mask": common_pb2.RESIZE_MODE_MASK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A submission and when it is made, seconds after the start."""

    at_s: float
    spec: pb.JobSpec


REFERENCE_CPUS = 0.41
"""CPU seconds a second of a whole node, for which the amounts below were chosen: two cores of a
machine that four nodes share."""
# (program, seconds of one core's CPU time, least and greatest cores, arrival)
_JOBS: Sequence[tuple[str, float, int, int, float]] = (
    ("jacobi", 4.5, 1, 2, 0.0),
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
    programs: Sequence[Calibrated],
    cores_per_node: int,
    cpu_share: float,
    outputs: Path,
    scale: float,
) -> list[Arrival]:
    """The mix for a machine: work and arrivals times ``scale``, sizes in shares of a node.

    A job's stated run time is the one at its greatest size and full power, as a user would know it
    from earlier runs.
    """
    known = {entry.program.name: entry for entry in programs}
    out: list[Arrival] = []
    for index, (name, cpu_s, low, high, at_s) in enumerate(_JOBS):
        entry = known.get(name) or known["compute"]
        most = max(cores_per_node * high // 2, 1)
        # So much that a job takes as long on any machine at the same share of a node.
        cpu_s = cpu_s * scale * cpu_share * cores_per_node / REFERENCE_CPUS
        spec = pb.JobSpec(
            name=f"{entry.program.name}{index + 1}",
            app=entry.program.name,
            argv=entry.program.command(entry.work_for(cpu_s)),
            env=environment(),
            cwd=str(entry.program.folder),
            stdout_path=str(outputs / f"{index + 1}-{entry.program.name}.out"),
            stderr_path=str(outputs / f"{index + 1}-{entry.program.name}.err"),
            kind=pb.JOB_KIND_MALLEABLE if most > low else pb.JOB_KIND_RIGID,
            unit=pb.SIZE_UNIT_CORES,
            size_min=low,
            size_max=most,
            time_ns=ns_from_s(cpu_s / (cpu_share * most)),
            mode=_MODES[entry.program.mode],
        )
        out.append(Arrival(at_s=at_s * scale, spec=spec))
    return out


def environment() -> dict[str, str]:
    """What programs need of the caller's environment."""
    wanted = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in wanted if name in os.environ}
