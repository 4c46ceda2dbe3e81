"""Events from the epochs that training jobs report.

Telemetry repeats the number of epochs in the snapshot. The core receives an event when it changes.
The first epoch of an attempt gives no speed: it may come from the previous attempt or from an older
message. An epoch with a suspension gives no speed either.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.learning.observations import JobSample, NodeSample
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.state.changes import Changes

JOBS_MAX = 10_000


@dataclass(slots=True)
class _Told:
    attempt: int
    saved: int
    timed: bool = False


class EpochReporter:
    """Watches running training jobs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[JobId, _Told] = {}
        service.followers.append(self._forget_ended)

    def take(self, sample: NodeSample) -> None:
        """Process one telemetry message."""
        jobs = self._service.core.state.jobs
        for job_id, seen in sample.jobs.items():
            job = jobs.get(job_id)
            if job is None or not job.spec.epochs or seen.epochs_saved < 0:
                continue
            if job.state is JobState.RUNNING and sample.node_id in job.ranks:
                self._compare(job, seen)
            elif job_id in self._told:
                self._told[job_id].timed = False

    def _compare(self, job: Job, seen: JobSample) -> None:
        told = self._told.get(job.job_id)
        if told is None or told.attempt != job.attempt:
            if len(self._told) >= JOBS_MAX:
                return
            told = self._told[job.job_id] = _Told(job.attempt, job.epochs_saved)
        if seen.epochs_saved == told.saved:
            return
        event = ev.EpochsTold(
            job_id=job.job_id,
            attempt=job.attempt,
            saved=seen.epochs_saved,
            epoch_ns=seen.epoch_ns if told.timed else 0,
        )
        told.saved, told.timed = seen.epochs_saved, True
        self._service.post(event)

    def _forget_ended(self, changes: Changes) -> None:
        jobs = self._service.core.state.jobs
        for job_id in list(self._told if changes.everything else changes.jobs):
            if job_id in self._told and (job_id not in jobs or jobs[job_id].final):
                del self._told[job_id]
