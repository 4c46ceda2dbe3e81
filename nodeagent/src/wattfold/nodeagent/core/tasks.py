"""Division of a job's mask among its tasks. A task is a rank of a parallel program.

Rules, in this order:

1. Every task has a core. With fewer cores than tasks, tasks share cores as evenly as possible.
   Otherwise the tasks have all cores of the mask and share none.
2. The numbers of cores of two tasks differ by at most one.
3. As few cores as possible move between tasks.
4. A task stays in its socket, NUMA node and physical core. At the start the mask is cut into pieces
   of neighbours, at the borders of sockets where possible.
5. Ties go to the lowest task and CPU.

Task numbers are those of the launcher: task i is the process with local rank i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.topology import Topology

TASKS_MAX = 4096
_ALONE = 1 << 20
"""Above the number of any physical core, for CPUs without topology."""
RANK_VARIABLES = (
    "WATTFOLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",  # Open MPI and its PRRTE
    "MPI_LOCALRANKID",  # Hydra: MPICH, Intel MPI
    "MV2_COMM_WORLD_LOCAL_RANK",  # MVAPICH2
    "PMI_LOCAL_RANK",  # Cray PMI
    "PALS_LOCAL_RANKID",  # Cray PALS
    "FLUX_TASK_LOCAL_ID",
    # Last: programs under any launcher have it if Slurm started that launcher.
    "SLURM_LOCALID",
)
"""Variables with the local rank of a process. The first variable that is set counts."""


def local_rank(environment: Mapping[str, str]) -> int | None:
    """Return the rank in an environment; None if there is none or it is invalid."""
    for name in RANK_VARIABLES:
        text = environment.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) <= 6:
            return int(text)
    return None


def divide(
    cpus: CpuSet, tasks: int, topology: Topology, held: Sequence[CpuSet] = ()
) -> tuple[CpuSet, ...]:
    """Return the cores of each task; ``held`` are its current cores. Raises ValueError if empty."""
    if not cpus or tasks < 1:
        raise ValueError(f"cannot divide {len(cpus)} CPUs among {tasks} tasks")
    before = [held[task] if task < len(held) else CpuSet() for task in range(tasks)]
    if len(cpus) < tasks:
        return _shared(cpus, before)
    places = _Places.of(topology, cpus)
    kept = _own(before, cpus)
    if not any(kept):
        return _cut(cpus, tasks, places)
    return _refilled(cpus, kept, places)


def share_of(launch_cpus: int, tasks: int) -> int:
    """Return the initial threads of each task: no task's share of cores is ever smaller by two."""
    return max(1, launch_cpus // max(1, tasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Socket, NUMA node and physical core of each CPU, numbered by their lowest CPU."""

    by_cpu: dict[int, tuple[int, int, int]]

    @classmethod
    def of(cls, topology: Topology, cpus: CpuSet) -> _Places:
        levels = [
            {cpu: number for number, group in enumerate(groups) for cpu in group}
            for groups in (topology.packages, topology.numa_nodes, topology.cores)
        ]
        # A CPU without a group forms its own group.
        package, numa, core = levels
        return cls(
            by_cpu={c: (package.get(c, -1), numa.get(c, -1), core.get(c, _ALONE + c)) for c in cpus}
        )

    def order(self, cpu: int) -> tuple[int, int, int, int]:
        return (*self.by_cpu[cpu], cpu)

    def nearest(self, cpus: CpuSet, around: CpuSet, count: int) -> CpuSet:
        """Return ``count`` of the CPUs, nearest to ``around`` by socket, NUMA node and core."""
        if count == len(cpus):
            return cpus
        near = Counter((level, p) for cpu in around for level, p in enumerate(self.by_cpu[cpu]))

        def rank(cpu: int) -> tuple[object, ...]:
            others = (-near[level, place] for level, place in enumerate(self.by_cpu[cpu]))
            return (*others, self.order(cpu))

        return CpuSet.of(sorted(cpus, key=rank)[:count])


def _shared(cpus: CpuSet, before: list[CpuSet]) -> tuple[CpuSet, ...]:
    """Give each task one core, with task counts of the cores that differ by at most one."""
    most, larger = divmod(len(before), len(cpus))
    load = Counter(dict.fromkeys(cpus, 0))
    chosen: dict[int, int] = {}
    for task, held in enumerate(before):
        cpu = min(held & cpus, key=lambda c: (load[c], c), default=None)
        if cpu is None or load[cpu] > most or (load[cpu] == most and not larger):
            continue
        larger -= load[cpu] == most
        load[cpu] += 1
        chosen[task] = cpu
    for task in range(len(before)):
        if task not in chosen:
            chosen[task] = min(cpus, key=lambda c: (load[c], c))
            load[chosen[task]] += 1
    return tuple(CpuSet.of([chosen[task]]) for task in range(len(before)))


def _own(before: list[CpuSet], cpus: CpuSet) -> list[CpuSet]:
    """Return the cores that tasks may keep. A shared core goes to the task with fewest cores."""
    kept = [CpuSet() for _ in before]
    owners: dict[int, list[int]] = {}
    for task, held in enumerate(before):
        for cpu in held & cpus:
            owners.setdefault(cpu, []).append(task)
    for cpu, tasks in sorted(owners.items(), key=lambda item: (len(item[1]), item[0])):
        owner = min(tasks, key=lambda task: (len(kept[task]), task))
        kept[owner] = kept[owner] | CpuSet.of([cpu])
    return kept


def _cut(cpus: CpuSet, tasks: int, places: _Places) -> tuple[CpuSet, ...]:
    """Return neighbouring cores for each task, at the start."""
    ordered = sorted(cpus, key=places.order)
    small, larger = divmod(len(ordered), tasks)
    pieces: list[CpuSet] = []
    start = 0
    for task in range(tasks):
        socket = places.by_cpu[ordered[start]][0]
        room = sum(places.by_cpu[cpu][0] == socket for cpu in ordered[start:])
        size = small + _one_more(room, small, larger, tasks - task - larger)
        larger -= size - small
        pieces.append(CpuSet.of(ordered[start : start + size]))
        start += size
    return tuple(pieces)


def _one_more(room: int, small: int, larger: int, smaller: int) -> int:
    """Return 1 if the next task gets the larger share, so that pieces end at a socket's border."""
    if not larger or not smaller:
        return 1 if larger else 0
    for count in range(min(larger, room // (small + 1)), -1, -1):
        rest = room - count * (small + 1)
        if rest % small == 0 and rest // small <= smaller:
            return 1 if count else 0
    return 1


def _refilled(cpus: CpuSet, kept: list[CpuSet], places: _Places) -> tuple[CpuSet, ...]:
    """Return the kept cores, completed with the nearest free cores for tasks with too few."""
    small, larger = divmod(len(cpus), len(kept))
    # Tasks with most cores get the larger sizes, so that fewest cores move.
    first = sorted(range(len(kept)), key=lambda task: (-len(kept[task]), task))[:larger]
    sizes = [small + (task in first) for task in range(len(kept))]
    cores = [places.nearest(mine, mine, size) for mine, size in zip(kept, sizes, strict=True)]
    free = cpus - CpuSet.of(cpu for mine in cores for cpu in mine)
    for task in sorted(range(len(cores)), key=lambda task: (not cores[task], task)):
        missing = sizes[task] - len(cores[task])
        # A task without a core moves to where most cores are free.
        more = places.nearest(free, cores[task] or free, missing)
        cores[task], free = cores[task] | more, free - more
    return tuple(cores)
