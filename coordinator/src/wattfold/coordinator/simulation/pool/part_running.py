"""The jobs that run on parts of nodes: what they hold of each class, and what that draws.

Which nodes these are is not its matter: it knows how many there are of each kind of part (`Mix`),
so a job of thousands of nodes is a few numbers. Power goes by share: `core.charge`, through the
class.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.part_times import GpuPart, Mix, PartTimes
from wattfold.coordinator.simulation.pool.progress import (
    JobFacts,
    Preemption,
    Progress,
    whole_numbers,
)
from wattfold.coordinator.simulation.pool.record import JobColumns


class PartRunning(Progress):
    """``held_cores``: cores of each class that jobs hold, a tally beside that of the nodes."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        times: PartTimes,
        preemption: Preemption | None = None,
    ) -> None:
        count = len(table)
        super().__init__(count, table.limit_ns, preemption or Preemption())
        self.times = times
        self._training = table.training is not None
        self._classes, self._grain = machine.classes, machine.grain
        self.mix: dict[int, Mix] = {}
        self.gpu_uw: dict[int, int] = {}
        """The level of the GPUs of running jobs, where they have one."""
        self.held_cores = [0] * len(machine.classes)
        self.cores = [0] * count
        """Cores a job holds, the last ones after its end."""
        self.first_cores = array("q", [0]) * count
        self.core_ns = [0] * count
        self._committed_uw = [0] * count
        self._drawn_uw = [0] * count
        self._idle_uw = [0] * count
        """Its part of the charge of its nodes when idle."""
        self._grains = [0] * count
        self._grain_ns = [0] * count
        self._gpus = [0] * count
        self.gpu_ns = [0] * count
        """GPUs held, integrated over time."""

    def start(self, job: int, mix: Mix, cap_uw: int, now_ns: int, gpu_uw: int = 0) -> None:
        """A job begins on these parts."""
        total_ns = self.times.total_ns(job, mix, cap_uw, gpu_uw)
        self._hold(job, mix, cap_uw, gpu_uw)
        self.first_size[job], self.first_cap_uw[job] = self.size[job], cap_uw
        self.first_cores[job] = self.cores[job]
        self._begin(job, total_ns, now_ns)

    def change(
        self,
        job: int,
        mix: Mix,
        cap_uw: int,
        now_ns: int,
        gpu_uw: int | None = None,
        *,
        moved: bool = False,
    ) -> None:
        """A running job goes on with other parts or caps; ``gpu_uw`` None: as it was.

        One that trains and has ``moved`` to other parts starts again from its snapshot.
        """
        self._advance(job, now_ns)
        self._book(job, now_ns)
        if moved and self.times.trains(job):
            self._begin_elsewhere(job, now_ns)
        gpu_uw = self.gpu_uw.get(job, 0) if gpu_uw is None else gpu_uw
        self._release(job)
        self._hold(job, mix, cap_uw, gpu_uw)
        self.total_ns[job] = self.times.total_ns(job, mix, cap_uw, gpu_uw)
        self._renew_end(job, now_ns)

    def power_uw(self, job: int, cap_uw: int, gpu_uw: int) -> int:
        """What a running job adds to the charge of idle nodes at these levels; 0 = the greatest of
        its GPUs."""
        mix = self.mix[job]
        return self._charge_uw(mix, cap_uw, self.times.gpus_on(job, mix, gpu_uw))

    def _charge_uw(self, mix: Mix, cap_uw: int, gpus: Sequence[GpuPart]) -> int:
        total_uw = sum(
            nodes * self._classes[kind].part_uw(cores, cap_uw)
            for (kind, cores, _), nodes in mix.items()
        )
        for part in gpus:
            one = self._classes[part.kind]
            total_uw += one.part_uw(0, one.cap_uw_min, part.gpus, part.limit_uw)
        return total_uw

    def facts_of(self, job: int) -> JobFacts:
        """What has become of a job so far."""
        facts = super().facts_of(job)
        facts["first_cores"], facts["last_cores"] = self.first_cores[job], self.cores[job]
        facts["core_ns"] = self.core_ns[job]
        if self._training:
            facts["gpu_ns"] = self.gpu_ns[job]
        return facts

    def columns(self) -> JobColumns:
        """`facts_of` all jobs."""
        return replace(
            super().columns(),
            first_cores=whole_numbers(self.first_cores),
            last_cores=np.asarray(self.cores, dtype=np.int64),
            core_ns=np.asarray(self.core_ns, dtype=np.int64),
            gpu_ns=np.asarray(self.gpu_ns, dtype=np.int64) if self._training else None,
        )

    def _saved(self, job: int) -> float | None:
        """What the last snapshot of a training job has."""
        return self.times.kept(job, self.done[job]) if self.times.trains(job) else None

    def cap_range_uw(self, job: int) -> tuple[int, int]:
        """The levels below and above which a running job is charged no less and no more."""
        on = [self._classes[kind] for kind, _, _ in self.mix[job]]
        return min(one.cap_uw_min for one in on), max(one.cap_uw_max for one in on)

    def gpu_range_uw(self, job: int) -> tuple[int, int]:
        """The limits between which the GPUs of a running job are charged more and more; 0 and 0
        where it has none whose power is counted."""
        mix = self.mix[job]
        on = [self._classes[part.kind] for part in self.times.gpus_on(job, mix, 0)]
        return min((o.gpu_uw_min for o in on), default=0), max(
            (o.gpu_uw_max for o in on), default=0
        )

    def _hold(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int = 0) -> None:
        """Adds a job's parts to the sums."""
        drawn_cap_uw = self.times.useful_cap_uw(job, cap_uw)
        drawn_uw = idle_uw = grains = held = gpus = 0
        for part in (parts := self.times.gpus_on(job, mix, gpu_uw)):
            unused_uw = self._classes[part.kind].gpu_idle_uw
            drawn_uw += part.gpus * (self.times.gpu_drawn_uw(job, part) - unused_uw)
            idle_uw += part.gpus * unused_uw
            gpus += part.gpus
        committed_uw = self._charge_uw(mix, cap_uw, parts)
        for (kind, cores, _), nodes in mix.items():
            one = self._classes[kind]
            drawn_uw += nodes * (cores * one.above_idle_uw(drawn_cap_uw) // one.cores)
            idle_uw += nodes * (cores * one.idle_uw // one.cores)
            grains += nodes * cores * (self._grain // one.cores)
            held += nodes * cores
            self.held_cores[kind] += nodes * cores
        self.mix[job] = mix
        self._gpus[job] = gpus
        if gpu_uw:
            self.gpu_uw[job] = gpu_uw
        self.size[job] = self.times.units(job, mix)
        self.cap_uw[job], self.drawn_cap_uw[job] = cap_uw, drawn_cap_uw
        self._committed_uw[job], self._drawn_uw[job] = committed_uw, drawn_uw
        self._idle_uw[job], self._grains[job], self.cores[job] = idle_uw, grains, held
        self.committed_uw += committed_uw
        self.drawn_uw += drawn_uw

    def _release(self, job: int) -> None:
        """Takes a job's parts from the sums."""
        for (kind, cores, _), nodes in self.mix.pop(job).items():
            self.held_cores[kind] -= nodes * cores
        self.gpu_uw.pop(job, None)
        self.committed_uw -= self._committed_uw[job]
        self.drawn_uw -= self._drawn_uw[job]

    def _book(self, job: int, now_ns: int) -> None:
        """Adds what it held and drew since it was booked last."""
        span_ns = now_ns - self.held_since_ns[job]
        self._grain_ns[job] += self._grains[job] * span_ns
        self.node_ns[job] = self._grain_ns[job] // self._grain
        self.core_ns[job] += self.cores[job] * span_ns
        self.gpu_ns[job] += self._gpus[job] * span_ns
        self.energy[job] += (self._idle_uw[job] + self._drawn_uw[job]) * span_ns
        self.cap_ns[job] += self.cap_uw[job] * span_ns
        self.held_since_ns[job] = now_ns
