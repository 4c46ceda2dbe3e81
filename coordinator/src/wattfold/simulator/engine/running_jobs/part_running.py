"""Jobs that run on parts of nodes: their cores in each class, and their power.

The numbers of the nodes are not stored here, only how many nodes there are of each kind of part
(`Mix`). So a job of thousands of nodes takes a few numbers. Power is charged by share, with
`core.charge` through the class.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.record import JobColumns
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.part_times import GpuPart, Mix, PartTimes
from wattfold.simulator.engine.running_jobs.progress import (
    JobFacts,
    PreemptionRule,
    Progress,
    whole_numbers,
)


class PartRunning(Progress):
    """Running jobs on parts of nodes. ``held_cores`` counts the held cores of each class."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        times: PartTimes,
        preemption: PreemptionRule | None = None,
    ) -> None:
        count = len(table)
        super().__init__(count, table.limit_ns, preemption or PreemptionRule())
        self.times = times
        self._training = table.training is not None
        self._classes, self._grain = machine.classes, machine.grain
        self.mix: dict[int, Mix] = {}
        self.gpu_uw: dict[int, int] = {}
        """GPU levels of running jobs, if decided."""
        self.held_cores = [0] * len(machine.classes)
        self.cores = [0] * count
        """Cores of each job; after its end, its last cores."""
        self.first_cores = array("q", [0]) * count
        self.core_ns = [0] * count
        self.places = [""] * count
        """Nodes and cores over time, as formatted by `NodeHoldings`."""
        self._committed_uw = [0] * count
        self._drawn_uw = [0] * count
        self._idle_uw = [0] * count
        """Each job's share of the idle charge of its nodes."""
        self._grains = [0] * count
        self._grain_ns = [0] * count
        self._gpus = [0] * count
        self.gpu_ns = [0] * count
        """GPUs held, integrated over time."""

    def start(self, job: int, mix: Mix, cap_uw: int, now_ns: int, gpu_uw: int = 0) -> None:
        """Start a job on these parts."""
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
        """Continue a running job with other parts or caps; ``gpu_uw`` None: unchanged.

        A training job that has ``moved`` to other parts restarts from its snapshot.
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
        """Return the power that a running job adds to idle nodes; ``gpu_uw`` 0: maximum limits."""
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
        """Return the results of a job so far."""
        facts = super().facts_of(job)
        facts["first_cores"], facts["last_cores"] = self.first_cores[job], self.cores[job]
        facts["core_ns"], facts["places"] = self.core_ns[job], self.places[job]
        if self._training:
            facts["gpu_ns"] = self.gpu_ns[job]
        return facts

    def columns(self) -> JobColumns:
        """Return `facts_of` all jobs."""
        return replace(
            super().columns(),
            first_cores=whole_numbers(self.first_cores),
            last_cores=np.asarray(self.cores, dtype=np.int64),
            core_ns=np.asarray(self.core_ns, dtype=np.int64),
            places=np.asarray(self.places, dtype=np.object_),
            gpu_ns=np.asarray(self.gpu_ns, dtype=np.int64) if self._training else None,
        )

    def _saved(self, job: int) -> float | None:
        """Return the fraction done in the last snapshot of a training job."""
        return self.times.kept(job, self.done[job]) if self.times.trains(job) else None

    def cap_range_uw(self, job: int) -> tuple[int, int]:
        """Return the range of caps that changes the charge of a running job."""
        on = [self._classes[kind] for kind, _, _ in self.mix[job]]
        return min(one.cap_uw_min for one in on), max(one.cap_uw_max for one in on)

    def gpu_range_uw(self, job: int) -> tuple[int, int]:
        """Return the range of limits that changes the charge of a running job's GPUs.

        It is (0, 0) if the job has no GPUs with counted power.
        """
        mix = self.mix[job]
        on = [self._classes[part.kind] for part in self.times.gpus_on(job, mix, 0)]
        return min((o.gpu_uw_min for o in on), default=0), max(
            (o.gpu_uw_max for o in on), default=0
        )

    def _hold(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int = 0) -> None:
        """Add a job's parts to the sums."""
        drawn_uw = idle_uw = grains = held = gpus = 0
        for part in (parts := self.times.gpus_on(job, mix, gpu_uw)):
            unused_uw = self._classes[part.kind].gpu_idle_uw
            drawn_uw += part.gpus * (self.times.gpu_drawn_uw(job, part) - unused_uw)
            idle_uw += part.gpus * unused_uw
            gpus += part.gpus
        committed_uw = self._charge_uw(mix, cap_uw, parts)
        for (kind, cores, _), nodes in mix.items():
            one = self._classes[kind]
            useful_uw = self.times.useful_cap_uw(job, kind, cap_uw)
            drawn_uw += nodes * (cores * one.above_idle_uw(useful_uw) // one.cores)
            idle_uw += nodes * (cores * one.idle_uw // one.cores)
            grains += nodes * cores * (self._grain // one.cores)
            held += nodes * cores
            self.held_cores[kind] += nodes * cores
        self.mix[job] = mix
        self._gpus[job] = gpus
        if gpu_uw:
            self.gpu_uw[job] = gpu_uw
        self.size[job] = self.times.units(job, mix)
        self.cap_uw[job] = cap_uw
        self._committed_uw[job], self._drawn_uw[job] = committed_uw, drawn_uw
        self._idle_uw[job], self._grains[job], self.cores[job] = idle_uw, grains, held
        self.committed_uw += committed_uw
        self.drawn_uw += drawn_uw

    def _release(self, job: int) -> None:
        """Subtract a job's parts from the sums."""
        for (kind, cores, _), nodes in self.mix.pop(job).items():
            self.held_cores[kind] -= nodes * cores
        self.gpu_uw.pop(job, None)
        self.committed_uw -= self._committed_uw[job]
        self.drawn_uw -= self._drawn_uw[job]

    def _book(self, job: int, now_ns: int) -> None:
        """Book the resources and energy of a job since its last booking."""
        span_ns = now_ns - self.held_since_ns[job]
        self._grain_ns[job] += self._grains[job] * span_ns
        self.node_ns[job] = self._grain_ns[job] // self._grain
        self.core_ns[job] += self.cores[job] * span_ns
        self.gpu_ns[job] += self._gpus[job] * span_ns
        self.energy[job] += (self._idle_uw[job] + self._drawn_uw[job]) * span_ns
        self.cap_ns[job] += self.cap_uw[job] * span_ns
        self.held_since_ns[job] = now_ns
