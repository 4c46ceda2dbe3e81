"""Job table of training jobs for a machine: feasible GPUs and maximum run times of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.training import EpochTime, Training
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable, TrainingColumns, UnitColumns
from wattfold.simulator.workloads.training_files import EpochTimes, TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownTraining:
    """A job with its training data on the machine."""

    job: TrainingJob
    training: Training
    sizes: tuple[int, int]

    @property
    def whole_s(self) -> list[float]:
        return [self.job.epochs * time.seconds for time in self.training.times]


def training_table(
    jobs: Sequence[TrainingJob], times: EpochTimes, machine: NodeMachine
) -> JobTable:
    """Return the jobs in order of (submission, id), each unit with one GPU and a share of cores.

    Run times are those of the fastest configuration of a job, estimates those of the slowest.
    Raises ValueError for a job that no node of the machine can run.
    """
    ordered = sorted(jobs, key=lambda job: (job.submit_s, job.job_id))
    known = [_known(job, times, machine) for job in ordered]
    cores = min(one.cores // one.gpus for one in machine.classes if one.gpus)
    if not cores:
        raise ValueError("a node of the machine has more GPUs than cores: a unit needs one of each")
    count = len(known)
    return JobTable(
        job_ids=_ints([one.job.job_id for one in known]),
        submit_ns=_ns([one.job.submit_s for one in known]),
        size_min=_ints([one.sizes[0] for one in known]),
        size_max=_ints([one.sizes[1] for one in known]),
        run_ns=_ns([min(one.whole_s) for one in known]),
        estimate_ns=_ns([max(one.whole_s) for one in known]),
        priority=np.ones(count),
        users=_ints([one.job.user for one in known]),
        malleable=np.zeros(count, dtype=np.bool_),
        units=UnitColumns(
            cores=np.full(count, cores, dtype=np.int64),
            memory_bytes=np.zeros(count, dtype=np.int64),
            gpus=np.ones(count, dtype=np.int64),
            features=((),) * count,
        ),
        training=TrainingColumns(
            trainings=tuple(one.training for one in known),
            due_ns=_ints([_due_ns(one.job) for one in known]),
            weights=np.array([one.job.weight for one in known]),
            snapshot_epochs=_ints([one.job.snapshot_epochs for one in known]),
        ),
    )


def _known(job: TrainingJob, times: EpochTimes, machine: NodeMachine) -> _KnownTraining:
    if job.app not in times:
        raise ValueError(f"job {job.job_id}: no epoch time of {job.app!r} is known")
    has: dict[str, int] = {}
    for one in machine.classes:
        if one.gpu_model:
            has[one.gpu_model] = max(has.get(one.gpu_model, 0), one.gpus)
    if job.gpu_model and job.gpu_model not in has:
        raise ValueError(
            f"job {job.job_id} requests GPUs of model {job.gpu_model!r}, which no node has; "
            f"nodes have {', '.join(has) or 'none'}"
        )
    able = tuple(time for time in times[job.app] if _holds(job, time, has))
    if not able:
        shown = ", ".join(f"{time.gpus} x {time.gpu_model}" for time in times[job.app])
        nodes = ", ".join(f"{gpus} x {model}" for model, gpus in has.items())
        raise ValueError(
            f"job {job.job_id}: {job.app!r} has epoch times on {shown}; nodes have at most "
            f"{nodes or 'no GPUs of a known model'}"
        )
    sizes = [time.gpus for time in able]
    training = Training(epochs=job.epochs, times=able)
    return _KnownTraining(job=job, training=training, sizes=(min(sizes), max(sizes)))


def _holds(job: TrainingJob, time: EpochTime, has: dict[str, int]) -> bool:
    most = job.gpus_max or time.gpus
    wanted = not job.gpu_model or job.gpu_model == time.gpu_model
    return wanted and job.gpus_min <= time.gpus <= min(most, has.get(time.gpu_model, 0))


def _due_ns(job: TrainingJob) -> int:
    return -1 if job.due_s is None else round(job.due_s * NS_PER_S)


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def _ns(seconds: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([round(one * NS_PER_S) for one in seconds], dtype=np.int64)
