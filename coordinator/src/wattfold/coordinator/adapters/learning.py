"""Learns profiles of applications from the progress of their running jobs.

A job without a measured profile runs under a stated default. While it runs, its shim counts
parallel regions, or the program reports progress itself: how fast that count grows at each size
and cap is a measurement of its speed there. When the total is known (the program said it, or the
job has ended) the points are fitted and the profile is stored, marked as learnt from progress.
A profile that somebody measured on purpose is never replaced.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.observations import JobSample, NodeSample
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.state import profile_key
from wattfold.coordinator.policies.estimates import node_curve

log = logging.getLogger("wattfold.learning")

BUCKET_S_MIN = 2.0
"""A point counts once it was observed for so long: shorter ones are mostly chance."""
REPORT_STEP = 0.02
JOBS_MAX = 10_000


@dataclass(slots=True)
class _Bucket:
    count: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class _Trace:
    """What was seen of one job: amounts by (size, cap in microwatts)."""

    buckets: dict[tuple[int, int], _Bucket] = field(default_factory=dict)
    key: tuple[int, int] = (0, 0)
    count: float = 0.0
    total: float = 0.0
    taken_ns: int = 0
    reported: float = 0.0


class ProgressLearner:
    """Turns telemetry into progress reports and profiles."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._traces: dict[JobId, _Trace] = {}
        service.listeners.append(self._ended)

    def take(self, sample: NodeSample) -> None:
        """Takes one telemetry message in."""
        jobs = self._service.core.state.jobs
        for job_id, seen in sample.jobs.items():
            job = jobs.get(job_id)
            if job is not None and job.state is JobState.RUNNING and len(job.ranks) == 1:
                self._observe(job, seen, sample.taken_ns)

    def _observe(self, job: Job, seen: JobSample, now_ns: int) -> None:
        if len(self._traces) >= JOBS_MAX and job.job_id not in self._traces:
            return
        trace = self._traces.setdefault(job.job_id, _Trace())
        key = (job.target.size, job.target.cap_uw) if job.target else (0, 0)
        count = seen.done if seen.total > 0 else float(seen.regions)
        settled = _on_target(job)
        if (seen.total > 0) != (trace.total > 0):
            # Regions and the program's own count are different measures.
            trace.buckets.clear()
            trace.key = (0, 0)
        if settled and key == trace.key and count >= trace.count:
            bucket = trace.buckets.setdefault(key, _Bucket())
            bucket.count += count - trace.count
            bucket.seconds += (now_ns - trace.taken_ns) / 1e9
        trace.key = key if settled else (0, 0)
        trace.count, trace.taken_ns, trace.total = count, now_ns, seen.total
        if seen.total > 0:
            share = min(max(seen.done / seen.total, 0.0), 1.0)
            if abs(share - trace.reported) >= REPORT_STEP:
                trace.reported = share
                self._service.post(ev.ProgressReported(job_id=job.job_id, done=share))

    def _ended(self) -> None:
        """Fits the traces of jobs that have ended."""
        jobs = self._service.core.state.jobs
        for job_id in list(self._traces):
            job = jobs.get(job_id)
            if job is None or job.final:
                trace = self._traces.pop(job_id)
                if job is not None and job.state is JobState.COMPLETED:
                    self._learn(job, trace)

    def _learn(self, job: Job, trace: _Trace) -> None:
        # scipy takes a second to load, and many sites measure their profiles.
        from wattfold.coordinator.models.fitting import RatePoint, fit_from_rates

        state = self._service.core.state
        stored = state.profiles.get(profile_key(job.spec.app, job.spec.unit.value))
        if stored is not None and stored.source != "progress":
            return
        points = [
            RatePoint(
                size=size,
                cap_w=w_from_uw(cap_uw),
                rate=bucket.count / bucket.seconds,
                weight=bucket.seconds,
            )
            for (size, cap_uw), bucket in trace.buckets.items()
            if bucket.seconds >= BUCKET_S_MIN and bucket.count > 0
        ]
        work = trace.total or trace.count
        if not points or work <= 0:
            return
        spec = state.nodes[_first_node(job)].spec
        try:
            found = fit_from_rates(
                points,
                app=job.spec.app,
                unit=job.spec.unit,
                curve=node_curve(spec) if spec else None,
                work=work,
            )
        except ValueError as error:
            log.warning("profile_not_learnt app=%s reason=%r", job.spec.app, str(error))
            return
        log.info("profile_learnt app=%s points=%d", job.spec.app, len(points))
        self._service.post(ev.ProfileStored(profile=found.profile, source="progress"))


def _first_node(job: Job) -> NodeId:
    return next(iter(job.ranks))


def _on_target(job: Job) -> bool:
    """Whether its cores are the ones its size was chosen for."""
    return all(
        rank.moving_to is None and job.target is not None and rank.held == job.target.on(node_id)
        for node_id, rank in job.ranks.items()
    )
