"""Run times of jobs on parts of nodes: the interface, and the models of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.part_speed import Part, PartModel, effective, stretched_ns
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

Mix = dict[tuple[int, int, int], int]
"""Number of nodes of a job by (class, cores held, cores requested)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """A number of GPUs on nodes of a class, and the limit of each; 0 = the maximum."""

    kind: int
    gpus: int
    limit_uw: int


class PartTimes(Protocol):
    """Model of the progress of jobs on parts of nodes."""

    def total_ns(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int = 0) -> int:
        """Return the run time of the job with constant resources; ``gpu_uw``: see `Levels`."""

    def useful_cap_uw(self, job: int, kind: int, cap_uw: int) -> int:
        """Return the power of a whole node's packages under a cap."""

    def units(self, job: int, mix: Mix) -> int:
        """Return the number of the job's units on these parts."""

    def gpus_on(self, job: int, mix: Mix, gpu_uw: int) -> Sequence[GpuPart]:
        """Return the GPUs with counted power of a job, by class; ``gpu_uw`` as in `Levels`."""

    def gpu_drawn_uw(self, job: int, part: GpuPart) -> int:
        """Return the power at work of each of these GPUs."""

    def trains(self, job: int) -> bool:
        """Whether the job is a training job, which restarts from its snapshot in another place."""

    def kept(self, job: int, done: float) -> float:
        """Return the fraction done that is in the last snapshot of a training job."""


class NodeTimes(PartTimes):
    """Run times from the log or from profiles, longer if a job gets less than it requested.

    ``pass``: the profile at the number of units and the cap, on the slowest class. Parts of units
    count as fewer units. Otherwise: the logged time for the requested units, scaled by `part_speed`
    with the worst-case or the ideal model. Raises ValueError for PASS without profiles.
    """

    def __init__(self, table: JobTable, machine: NodeMachine, model: RunTimeModel) -> None:
        if model is RunTimeModel.PASS and not table.profiles:
            raise ValueError("run times after PASS need jobs with profiles")
        self._profiles = table.profiles if model is RunTimeModel.PASS else ()
        worst = model is RunTimeModel.WORST_CASE
        self._model = PartModel.WORST_CASE if worst else PartModel.IDEAL
        self._run_ns: list[int] = table.run_ns.tolist()
        self._sizes: list[int] = table.size_max.tolist()
        self._cores: list[int] | None = table.units.cores.tolist() if table.units else None
        self._classes, self._grain = machine.classes, machine.grain
        self._worth = [self._grain // one.cores for one in machine.classes]

    def total_ns(
        self,
        job: int,
        mix: Mix,
        cap_uw: int,
        gpu_uw: int = 0,  # noqa: ARG002 - only who trains has GPU limits
    ) -> int:
        """Return the run time of the whole job with constant resources."""
        cores = self._cores[job] if self._cores else 0
        worth = self._worth
        parts = [
            Part(nodes, has, asked, 1 if cores else worth[kind])
            for (kind, has, asked), nodes in mix.items()
        ]
        a_unit = cores or self._grain
        if not self._profiles:
            asked = self._sizes[job] * a_unit
            return stretched_ns(self._run_ns[job], asked, effective(parts, self._model))
        units = self.units(job, mix)
        has, over = effective(parts, self._model)
        part = min(has / (over * units * a_unit), 1.0)
        return max(round(self._profiled_s(job, mix, units, part, cap_uw) * 1e9), 1)

    def units(self, job: int, mix: Mix) -> int:
        """Return the number of the job's units on these parts."""
        cores = self._cores[job] if self._cores else 0
        if not cores:
            return sum(mix.values())
        return sum(nodes * (asked // cores) for (_, _, asked), nodes in mix.items())

    def useful_cap_uw(self, job: int, kind: int, cap_uw: int) -> int:
        """Return the power of a node's packages under a cap: a job draws at most p_high."""
        if not self._profiles:
            return cap_uw
        return min(cap_uw, round(self._profile(job, kind).p_high_w * 1e6))

    def gpus_on(self, job: int, mix: Mix, gpu_uw: int) -> Sequence[GpuPart]:  # noqa: ARG002
        """Return nothing: no GPU has counted power."""
        return ()

    def gpu_drawn_uw(self, job: int, part: GpuPart) -> int:  # noqa: ARG002
        """Return 0, as there are no such GPUs."""
        return 0

    def trains(self, job: int) -> bool:  # noqa: ARG002
        """Return False: no job is a training job."""
        return False

    def kept(self, job: int, done: float) -> float:  # noqa: ARG002
        """Return the fraction done itself."""
        return done

    def _profiled_s(self, job: int, mix: Mix, units: int, part: float, cap_uw: int) -> float:
        """Return the time on the slowest class, each class at its actual cap."""
        classes = self._classes
        return max(
            self._profile(job, kind).part_time_s(
                units, part, w_from_uw(min(cap_uw, classes[kind].cap_uw_max))
            )
            for kind in {kind for kind, _, _ in mix}
        )

    def _profile(self, job: int, kind: int) -> PassProfile:
        one = self._classes[kind]
        return self._profiles[job].on(w_from_uw(one.cap_uw_min), w_from_uw(one.cap_uw_max))
