"""How long jobs take on parts of nodes: the port, and the models of the papers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.part_speed import Part, PartModel, effective, stretched_ns
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel

Mix = dict[tuple[int, int, int], int]
"""How many nodes there are of each (class, cores held, cores asked for) of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """So many GPUs of nodes of a class, each with a limit; 0 = the greatest."""

    kind: int
    gpus: int
    limit_uw: int


class PartTimes(Protocol):
    """What the progress of a job on parts of nodes follows."""

    def total_ns(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int = 0) -> int:
        """The whole job, if it had this from its start to its end; ``gpu_uw``: see `Levels`."""

    def useful_cap_uw(self, job: int, cap_uw: int) -> int:
        """What the packages of a whole node draw under a cap."""

    def units(self, job: int, mix: Mix) -> int:
        """How many of its units these are."""

    def gpus_on(self, job: int, mix: Mix, gpu_uw: int) -> Sequence[GpuPart]:
        """The GPUs of a job whose power is counted, by class; ``gpu_uw`` as in `Levels`."""

    def gpu_drawn_uw(self, job: int, part: GpuPart) -> int:
        """What one of these GPUs draws at work."""

    def trains(self, job: int) -> bool:
        """Whether a job trains: in another place it starts again from its snapshot."""

    def kept(self, job: int, done: float) -> float:
        """The share done that the last snapshot of a training job has."""


class NodeTimes(PartTimes):
    """Logged times or profiles at full request, slower by what is missing of it.

    ``pass``: the profile at the number of units and the cap, on the slowest class, where parts of
    units count as fewer units; else the time of the log for the units asked for, stretched by
    `part_speed`: worst case if the model says so, else ideal. Raises ValueError for PASS without
    profiles.
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
        """The whole job, if it had this from its start to its end."""
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
        """How many of its units these are."""
        cores = self._cores[job] if self._cores else 0
        if not cores:
            return sum(mix.values())
        return sum(nodes * (asked // cores) for (_, _, asked), nodes in mix.items())

    def useful_cap_uw(self, job: int, cap_uw: int) -> int:
        """A job draws no more than p_high."""
        if not self._profiles:
            return cap_uw
        return min(cap_uw, round(self._profiles[job].p_high_w * 1e6))

    def gpus_on(self, job: int, mix: Mix, gpu_uw: int) -> Sequence[GpuPart]:  # noqa: ARG002
        """None whose power is counted."""
        return ()

    def gpu_drawn_uw(self, job: int, part: GpuPart) -> int:  # noqa: ARG002
        """As `gpus_on`."""
        return 0

    def trains(self, job: int) -> bool:  # noqa: ARG002
        """Nobody does."""
        return False

    def kept(self, job: int, done: float) -> float:  # noqa: ARG002
        """As `trains`."""
        return done

    def _profiled_s(self, job: int, mix: Mix, units: int, part: float, cap_uw: int) -> float:
        """The slowest class decides, each at the level that it really holds."""
        profile, classes = self._profiles[job], self._classes
        held_uw = {min(cap_uw, classes[kind].cap_uw_max) for kind, _, _ in mix}
        return max(profile.part_time_s(units, part, w_from_uw(level)) for level in held_uw)
