"""The jobs of the sharing trial: many short jobs behind a few long jobs, on whole nodes.

The mix follows the real run of D'Amico, Jokanovic and Corbalan (ICPP 2019, workload 5). A third
each of the programs is bound by compute, by memory, and by both. A few use MPI over two nodes. All
lend and borrow cores.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.demo.layout import Layout
from wattfold.coordinator.demo.mix import Arrival, environment
from wattfold.coordinator.demo.programs import Calibrated
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

T = TypeVar("T")

# (program, weight)
_PROGRAMS = (("compute", 31), ("stream", 31), ("jacobi", 18), ("md", 17), ("hybrid", 3))
# (seconds on all cores of its nodes, weight)
_RUN_S = ((2.0, 50), (4.0, 30), (16.0, 20))
_NODES = ((1, 60), (2, 40))
_BETWEEN_S = 1.2
_OVERESTIMATE = 1.5
"""Factor of the users' estimates over the actual run times."""


def arrivals(
    programs: Sequence[Calibrated],
    layout: Layout,
    outputs: Path,
    *,
    count: int,
    scale: float,
    seed: int,
) -> tuple[list[Arrival], list[float]]:
    """Return the jobs, and the run time of each alone on all cores of its nodes, in seconds."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    known = {entry.program.name: entry for entry in programs}
    names = [(name, weight) for name, weight in _PROGRAMS if name in known]
    jobs: list[Arrival] = []
    alone_s: list[float] = []
    at_s = 0.0
    for number in range(count):
        entry = known[_drawn(rng, names)]
        run_s = _drawn(rng, _RUN_S) * scale
        nodes = entry.program.nodes or _drawn(rng, _NODES)
        spec = _spec(entry, run_s, nodes, layout)
        spec.name = f"{entry.program.name}{number}"
        spec.stdout_path = str(outputs / f"{number}.out")
        spec.stderr_path = str(outputs / f"{number}.err")
        jobs.append(Arrival(at_s=at_s, spec=spec))
        alone_s.append(run_s)
        at_s += rng.expovariate(1 / _BETWEEN_S) * scale
    return jobs, alone_s


def _spec(entry: Calibrated, run_s: float, nodes: int, layout: Layout) -> pb.JobSpec:
    program = entry.program
    node_cpu_s = run_s * layout.cpu_share * layout.cores_per_node
    # A launcher divides the work over the nodes; otherwise each node does the same work.
    cpu_s = node_cpu_s * nodes if program.nodes else node_cpu_s
    return pb.JobSpec(
        app=program.name,
        argv=program.command(entry.work_for(cpu_s)),
        env=environment() | dict(program.environment),
        cwd=str(program.folder),
        kind=pb.JOB_KIND_MALLEABLE,
        unit=pb.SIZE_UNIT_NODES,
        size_min=nodes,
        size_max=nodes,
        own_launcher=bool(program.nodes),
        mode=common_pb2.RESIZE_MODE_TEAM,
        sharing=pb.CORE_SHARING_BOTH,
        time_ns=ns_from_s(run_s * _OVERESTIMATE),
    )


def _drawn(rng: random.Random, choices: Sequence[tuple[T, int]]) -> T:
    values = [value for value, _ in choices]
    return rng.choices(values, [weight for _, weight in choices])[0]
