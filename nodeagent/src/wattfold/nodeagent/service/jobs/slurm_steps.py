"""Steps of a job that Slurm has started on this node.

A job of Slurm has cores on the node, its *allocation*. Its steps share or divide them: a batch
script and its sruns use the same cores at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import Topology
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.processes import Watch
from wattfold.nodeagent.adapters.jobs.step_groups import StepGroups, step_processes
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.core.tasks import divide


def confine_steps(groups: StepGroups, job: JobId, steps: Iterable[SlurmStep], cpus: CpuSet) -> None:
    """Confine steps of a job to its mask. Raises Refused."""
    for step in steps:
        try:
            groups.confine(step.group, step.mask(cpus))
        except FileNotFoundError:
            continue  # The step has just ended.
        except OSError as error:
            what = f"job {job}: cannot set the mask of step {step.name}"
            raise device_refusal(error, what) from None


@dataclass(slots=True, kw_only=True)
class SlurmStep:
    """A step. ``keeper`` is its slurmstepd, which is never signalled."""

    name: str
    keeper: int
    keeper_ticks: int
    mode: ResizeMode
    tasks: int = 1
    group: Path
    """Its cpuset."""
    cpus: CpuSet
    """The cores that Slurm gave to the step."""
    division: tuple[CpuSet, ...] = ()
    """Cores of each task when a shim last asked for them."""
    pids: dict[int, int] = field(default_factory=dict)
    """First process of each task."""
    watch: Watch | None = None

    def mask(self, cpus: CpuSet) -> CpuSet:
        """Return the cores of the step within the mask of its job.

        A step that would be left without a core shares the whole mask.
        """
        return self.cpus & cpus or cpus

    def members(self) -> list[int]:
        """Return all processes of the step except slurmstepd."""
        return [pid for pid in step_processes(self.group) if pid != self.keeper]

    def living(self) -> list[int]:
        """Return the processes of the step that have not ended, with slurmstepd."""
        if procfs.same_process(self.keeper, self.keeper_ticks):
            return [self.keeper]
        stats = map(procfs.read_stat, step_processes(self.group))
        return [stat.pid for stat in stats if stat is not None and stat.state not in "ZX"]

    def cpus_of(self, pid: int, cpus: CpuSet, topology: Topology) -> CpuSet:
        """Return the cores for a process of the step within the mask of its job."""
        mask = self.mask(cpus)
        if self.tasks == 1:
            return mask
        tasks = {first: task for task, first in self.pids.items()}
        first = procfs.ancestor(pid, tasks)
        self.division = divide(mask, self.tasks, topology, self.division)
        return mask if first is None else self.division[tasks[first] % self.tasks]

    def to_record(self) -> dict[str, Any]:
        """Return the form on disk."""
        return {
            "name": self.name,
            "keeper": self.keeper,
            "keeper_ticks": self.keeper_ticks,
            "mode": self.mode.value,
            "tasks": self.tasks,
            "group": str(self.group),
            "cpus": str(self.cpus),
            "pids": {str(task): pid for task, pid in self.pids.items()},
        }

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> SlurmStep:
        """Return the step of a record. Raises ValueError, KeyError or TypeError."""
        return cls(
            name=str(record["name"]),
            keeper=int(record["keeper"]),
            keeper_ticks=int(record["keeper_ticks"]),
            mode=ResizeMode(record["mode"]),
            tasks=int(record["tasks"]),
            group=Path(str(record["group"])),
            cpus=CpuSet.parse(record["cpus"]),
            pids={int(task): int(pid) for task, pid in record["pids"].items()},
        )
