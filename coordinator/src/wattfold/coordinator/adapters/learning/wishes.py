"""Events from the core requests of evolving programs.

Telemetry repeats a request every second. The core receives an event when the request changes, at
most every few seconds per job, because each event starts a planning round.
"""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.learning.observations import JobSample, NodeSample
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.models.pass_model import SizeUnit

INTERVAL_NS = 2 * NS_PER_S
JOBS_MAX = 10_000


class WishReporter:
    """Watches evolving jobs measured in cores. Requests of other jobs are only shown."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[JobId, tuple[int, int]] = {}
        service.followers.append(self._forget_ended)

    def take(self, sample: NodeSample) -> None:
        """Process one telemetry message."""
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
