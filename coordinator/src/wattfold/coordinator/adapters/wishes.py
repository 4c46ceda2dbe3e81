"""Turns what evolving programs ask for into events.

Telemetry repeats a wish every second; the core hears of it when it has changed, and of one job not
more often than every few seconds: each time makes it plan again.
"""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.observations import JobSample, NodeSample
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.changes import Changes
from wattfold.coordinator.core.job import Job, JobKind, JobState, SizeUnit

INTERVAL_NS = 2 * NS_PER_S
JOBS_MAX = 10_000


class WishReporter:
    """Watches evolving jobs that count cores; what others ask for is only shown."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[JobId, tuple[int, int]] = {}
        service.followers.append(self._forget_ended)

    def take(self, sample: NodeSample) -> None:
        """Takes one telemetry message in."""
        jobs = self._service.core.state.jobs
        for job_id, seen in sample.jobs.items():
            job = jobs.get(job_id)
            if job is not None and _may_wish(job):
                self._compare(job, seen, sample.taken_ns)

    def _compare(self, job: Job, seen: JobSample, now_ns: int) -> None:
        told, at_ns = self._told.get(job.job_id, (job.wanted, now_ns - INTERVAL_NS))
        if seen.cores_wanted == told or now_ns - at_ns < INTERVAL_NS or len(self._told) > JOBS_MAX:
            return
        self._told[job.job_id] = seen.cores_wanted, now_ns
        self._service.post(ev.SizeWanted(job_id=job.job_id, size=seen.cores_wanted))

    def _forget_ended(self, changes: Changes) -> None:
        jobs = self._service.core.state.jobs
        for job_id in list(self._told if changes.everything else changes.jobs):
            if job_id in self._told and (job_id not in jobs or jobs[job_id].final):
                del self._told[job_id]


def _may_wish(job: Job) -> bool:
    spec = job.spec
    evolving = spec.kind is JobKind.EVOLVING and spec.unit is SizeUnit.CORES
    return evolving and job.state is JobState.RUNNING
