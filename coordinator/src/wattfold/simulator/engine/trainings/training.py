"""Training jobs of a pool: their epochs, run times and power.

A training job of a pool has units with one GPU each, all on one node (ANDREAS, Filippini et al.,
FiCloud 2021). Its run time is t_jng = epochs x time of an epoch on g GPUs of the model of node n. A
lower GPU limit extends it (`models.training`). Package caps do not slow it.

Other jobs run as usual. The effect of a lower limit of their GPUs is unknown; `GpuCurve.assumed`
stands for it, in addition to the effect of their package cap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wattfold.contract.units import NS_PER_S, uw_from_w, w_from_uw
from wattfold.coordinator.models.gpu_curve import GpuCurve
from wattfold.coordinator.models.training import EpochTime, Training
from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.part_times import GpuPart, Mix, NodeTimes
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel

ALMOST = 1e-9
"""Tolerance in epochs: fractions done are sums of many terms."""


class TrainingTimes(NodeTimes):
    """`NodeTimes` with epoch times for training jobs. Raises ValueError in the same cases."""

    def __init__(self, table: JobTable, machine: NodeMachine, model: RunTimeModel) -> None:
        super().__init__(table, machine, model)
        training, units = table.training, table.units
        self._columns = training
        self._trainings = training.trainings if training is not None else ()
        self._gpus: list[int] = units.gpus.tolist() if units is not None else []
        self._job_ids = table.job_ids

    def total_ns(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int = 0) -> int:
        """Return the run time of the whole job with constant resources. Raises SimulationError."""
        training = self._training(job)
        if training is None:
            return self._untrained_ns(job, mix, cap_uw, gpu_uw)
        on = self.gpus_on(job, mix, gpu_uw)
        if len(on) != 1 or sum(mix.values()) != 1:
            raise SimulationError(f"job {self._job_ids[job]} trains but is placed on several nodes")
        time = self._epoch_time(job, training, on[0])
        limit_w = w_from_uw(on[0].limit_uw) if on[0].limit_uw else 0.0
        time = time.under_any(w_from_uw(self._classes[on[0].kind].gpu_uw_max))
        return max(round(training.epochs * time.under_s(limit_w) * NS_PER_S), 1)

    def _untrained_ns(self, job: int, mix: Mix, cap_uw: int, gpu_uw: int) -> int:
        whole_ns = super().total_ns(job, mix, cap_uw)
        slow = 1.0
        for part in self.gpus_on(job, mix, gpu_uw):
            most_uw = self._classes[part.kind].gpu_uw_max
            if 0 < part.limit_uw < most_uw:
                curve = GpuCurve.assumed(w_from_uw(most_uw))
                slow = max(slow, curve.slowdown(w_from_uw(part.limit_uw)))
        if slow == 1.0:
            return whole_ns
        full_uw = max(self._classes[kind].cap_uw_max for kind, _, _ in mix)
        return whole_ns + round((slow - 1.0) * super().total_ns(job, mix, full_uw))

    def gpus_on(self, job: int, mix: Mix, gpu_uw: int) -> Sequence[GpuPart]:
        """Return the GPUs of a job by class; empty if it requests none."""
        each = self._gpus[job] if self._gpus else 0
        if not each:
            return []
        found = []
        for (kind, _, asked), nodes in mix.items():
            units = asked // self._cores[job] if self._cores and self._cores[job] else 1
            one = self._classes[kind]
            limit_uw = one.gpu_held_uw(gpu_uw) if gpu_uw and one.gpu_uw_max else 0
            found.append(GpuPart(kind=kind, gpus=nodes * units * each, limit_uw=limit_uw))
        return found

    def gpu_drawn_uw(self, job: int, part: GpuPart) -> int:
        """Return the power of one GPU of a job at work; its limit if no curve is known."""
        one = self._classes[part.kind]
        limit_uw = part.limit_uw or one.gpu_uw_max
        training = self._training(job)
        time = training.on(one.gpu_model, part.gpus) if training is not None else None
        if time is None or time.curve is None or not limit_uw:
            return limit_uw
        return min(uw_from_w(time.curve.draw_w(w_from_uw(limit_uw))), limit_uw)

    def kept(self, job: int, done: float) -> float:
        """Return the fraction done in the last snapshot; for other jobs, the whole fraction."""
        training = self._training(job)
        columns = self._columns
        if training is None or columns is None:
            return done
        every = int(columns.snapshot_epochs[job])
        whole = math.floor(done * training.epochs / every + ALMOST) * every
        return min(whole / training.epochs, done)

    def trains(self, job: int) -> bool:
        """Whether a job counts epochs, so that it restarts from its snapshot in another place."""
        return self._training(job) is not None

    def _training(self, job: int) -> Training | None:
        return self._trainings[job] if self._trainings else None

    def _epoch_time(self, job: int, training: Training, on: GpuPart) -> EpochTime:
        model = self._classes[on.kind].gpu_model
        time = training.on(model, on.gpus)
        if time is None:
            raise SimulationError(
                f"job {self._job_ids[job]} is placed on {on.gpus} GPUs of "
                f"{model or 'no known model'}, for which it has no epoch time"
            )
        return time
