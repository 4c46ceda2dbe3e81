"""Profiles of applications, learnt from the progress of running jobs.

A job without a measured profile runs under a documented default. While it runs, its shim counts
parallel regions, or the program counts its own work, with or without a total. The rate of this
count at each size and cap measures the speed there. When the total is known (the program reported
it, or the job has ended), the points are fitted together with those of earlier runs and with the
assumptions about unknown programs (`models/learnt.py`). The profile is stored and marked as learnt.
It never replaces a measured profile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.adapters.copies.level_effects import held_back
from wattfold.coordinator.adapters.learning.observations import JobSample, NodeSample
from wattfold.coordinator.adapters.requests.profiles import LEARNT
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.speeds import SeenSpeed
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import StoredProfile, profile_key
from wattfold.coordinator.models.pass_model import ANY_RANGE_W, SizeUnit
from wattfold.coordinator.models.power_curve import PowerCurve
from wattfold.coordinator.models.seen_points import SeenPoint
from wattfold.coordinator.policies.resources.estimates import node_curve

if TYPE_CHECKING:
    from wattfold.coordinator.models.fitting import FitResult

log = logging.getLogger("wattfold.learning")

BUCKET_S_MIN = 2.0
"""Minimum observation time of a point; the speed in a shorter time is mostly chance."""
REPORT_STEP = 0.02
JOBS_MAX = 10_000
SPEED_S_MIN = 4.0
"""First observation time after which a speed is sent to the core. It then doubles each time."""
FITS_MAX = 8
POINTS_KEPT = 64
"""Maximum number of points of earlier runs in a fit, the newest."""


@dataclass(slots=True)
class _Bucket:
    count: float = 0.0
    seconds: float = 0.0
    tell_at_s: float = SPEED_S_MIN


_Key = tuple[int, int, int]
"""Size, cores, cap in microwatts: a job on whole nodes may have only some of their cores."""
_NOWHERE: _Key = (0, 0, 0)


@dataclass(slots=True)
class _Trace:
    """Observed counts of one job by size, cores and cap."""

    buckets: dict[_Key, _Bucket] = field(default_factory=dict)
    key: _Key = _NOWHERE
    count: float = 0.0
    total: float = 0.0
    counted: bool = False
    """Whether the program counts its own work; otherwise its parallel regions are counted."""
    taken_ns: int = 0
    reported: float = 0.0
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Observations of an application's jobs. ``work``: total of the last job, in the rates' unit.

    ``size_max`` is the maximum size of its jobs, ``range_w`` the range of package caps of the node,
    W.
    """

    app: str
    unit: SizeUnit
    curve: PowerCurve
    range_w: tuple[float, float]
    work: float
    size_max: int
    points: tuple[SeenPoint, ...]


Fitter = Callable[[Lesson], Awaitable["FitResult | str"]]
"""Returns a fit, or the reason why there is none."""


class ProgressLearner:
    """Turns telemetry into progress reports and profiles."""

    def __init__(self, service: Service, fitter: Fitter) -> None:
        self._service = service
        self._fitter = fitter
        self._tasks: set[asyncio.Task[None]] = set()
        self._traces: dict[JobId, _Trace] = {}
        service.followers.append(self._ended)

    def take(self, sample: NodeSample) -> None:
        """Process one telemetry message."""
        jobs = self._service.core.state.jobs
        for job_id, seen in sample.jobs.items():
            job = jobs.get(job_id)
            if job is not None and job.state is JobState.RUNNING and len(job.ranks) == 1:
                self._observe(job, seen, sample.taken_ns)
            elif job_id in self._traces:
                # A suspended job makes no progress, so the time must not count.
                self._traces[job_id].key = _NOWHERE

    def _observe(self, job: Job, seen: JobSample, now_ns: int) -> None:
        if len(self._traces) >= JOBS_MAX and job.job_id not in self._traces:
            return
        trace = self._traces.setdefault(job.job_id, _Trace())
        key = _key(job)
        counted = seen.done > 0 or seen.total > 0
        count = seen.done if counted else float(seen.regions)
        settled = _on_target(job) and not held_back(self._service.core.state, job)
        if trace.attempt != job.attempt:
            # Its starting progress was not made since the last sample.
            trace.attempt, trace.key = job.attempt, _NOWHERE
        if counted != trace.counted:
            # Regions and the program's own count are different measures.
            trace.buckets.clear()
            trace.key = _NOWHERE
        if settled and key == trace.key and count >= trace.count:
            bucket = trace.buckets.setdefault(key, _Bucket())
            bucket.count += count - trace.count
            bucket.seconds += (now_ns - trace.taken_ns) / 1e9
            self._tell_speed(job, key, bucket, counted=counted)
        trace.key = key if settled else _NOWHERE
        trace.count, trace.taken_ns, trace.total = count, now_ns, seen.total
        trace.counted = counted
        if seen.total > 0:
            share = min(max(seen.done / seen.total, 0.0), 1.0)
            if abs(share - trace.reported) >= REPORT_STEP:
                trace.reported = share
                self._service.post(ev.ProgressReported(job_id=job.job_id, done=share))

    def _tell_speed(self, job: Job, key: _Key, bucket: _Bucket, *, counted: bool) -> None:
        """Report the speed of a job that may lend cores: jobs with small losses lend first."""
        if not job.spec.lends or bucket.seconds < bucket.tell_at_s or bucket.count <= 0:
            return
        bucket.tell_at_s = 2 * bucket.seconds
        _, cores, cap_uw = key
        speed = SeenSpeed(
            cores=cores,
            cap_uw=cap_uw,
            rate=bucket.count / bucket.seconds,
            seen_ns=round(bucket.seconds * 1e9),
            counted=counted,
            attempt=job.attempt,
        )
        self._service.post(ev.SpeedMeasured(job_id=job.job_id, speed=speed))

    def _ended(self, changes: Changes) -> None:
        """Fit the traces of jobs that have ended."""
        jobs = self._service.core.state.jobs
        for job_id in list(self._traces if changes.everything else changes.jobs):
            if job_id not in self._traces:
                continue
            job = jobs.get(job_id)
            if job is None or job.final:
                trace = self._traces.pop(job_id)
                if job is not None and job.state is JobState.COMPLETED:
                    self._learn(job, trace)

    def _learn(self, job: Job, trace: _Trace) -> None:
        if job.spec.unit is SizeUnit.UNITS:
            return  # Unit sizes of jobs differ.
        state = self._service.core.state
        stored = state.profiles.get(profile_key(job.spec.app, job.spec.unit.value))
        node = state.nodes.get(next(iter(job.ranks)))
        points = tuple(
            SeenPoint(
                size=size,
                cap_w=w_from_uw(cap_uw),
                rate=bucket.count / bucket.seconds,
                seconds=bucket.seconds,
            )
            for (size, cores, cap_uw), bucket in trace.buckets.items()
            if bucket.seconds >= BUCKET_S_MIN and bucket.count > 0
            # On part of a node, a job is slower than at the size in nodes.
            if job.spec.unit is SizeUnit.CORES or node is None or cores == _cores_of(node)
        )
        work = trace.total or trace.count
        measured = stored is not None and stored.source != LEARNT
        if measured or not points or work <= 0 or len(self._tasks) >= FITS_MAX:
            return
        if node is None or node.spec is None:
            return
        kind = node.spec.kind
        range_w = w_from_uw(kind.least_uw), w_from_uw(kind.most_uw)
        lesson = Lesson(
            app=job.spec.app,
            unit=job.spec.unit,
            curve=node_curve(node.spec),
            range_w=range_w,
            work=work,
            size_max=job.spec.size_max,
            points=(*_earlier(stored, range_w), *points)[-POINTS_KEPT:],
        )
        task = asyncio.create_task(self._fit(lesson))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fit(self, lesson: Lesson) -> None:
        found = await self._fitter(lesson)
        if isinstance(found, str):
            log.warning(line("profile_not_learnt", app=lesson.app, reason=found))
            return
        error = f"{found.rms_relative_error:.3f}"
        log.info(line("profile_learnt", app=lesson.app, points=len(lesson.points), error=error))
        self._service.post(
            ev.ProfileStored(
                profile=replace(found.profile, range_w=lesson.range_w),
                source=LEARNT,
                rms_error=found.rms_relative_error,
                points=_points(lesson, found),
            ),
        )

    async def idle(self) -> None:
        """Wait until all running fits have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Cancel the running fits."""
        for task in self._tasks:
            task.cancel()
        await self.idle()


def fit_lesson(lesson: Lesson) -> FitResult:
    """Fit a profile to observations. Raises ValueError.

    It takes tenths of a second, so it runs in the worker process, which also pays for loading
    scipy.
    """
    from wattfold.coordinator.models.learnt import fit_learnt

    return fit_learnt(
        lesson.points,
        app=lesson.app,
        unit=lesson.unit,
        curve=lesson.curve,
        work=lesson.work,
        size_max=lesson.size_max,
    )


def _earlier(stored: StoredProfile | None, range_w: tuple[float, float]) -> list[SeenPoint]:
    """Return the points of earlier runs on such nodes. On other nodes, caps give other speeds."""
    known = stored is not None and stored.profile.range_w in (ANY_RANGE_W, range_w)
    points = stored.stored.points if stored is not None and known else ()
    return [
        SeenPoint(size=p.size, cap_w=w_from_uw(p.cap_uw), rate=p.rate, seconds=p.observed_s)
        for p in points
        if p.rate > 0
    ]


def _points(lesson: Lesson, found: FitResult) -> tuple[ev.MeasuredPoint, ...]:
    """Return the points as stored, with the measured and fitted times for the last run's work."""
    return tuple(
        ev.MeasuredPoint(
            size=p.size,
            cap_uw=uw_from_w(p.cap_w),
            seconds=lesson.work / p.rate,
            fitted_seconds=lesson.work / p.rate * (1 + residual),
            observed_s=p.seconds,
            rate=p.rate,
        )
        for p, residual in zip(lesson.points, found.residuals, strict=True)
    )


def _key(job: Job) -> _Key:
    target = job.target
    if target is None:
        return _NOWHERE
    return target.size, sum(len(share.cpus) for share in target.shares), target.cap_uw


def _cores_of(node: Node) -> int:
    return len(node.spec.cpus) if node.spec is not None else 0


def _on_target(job: Job) -> bool:
    """Whether the job holds the cores for which its size was chosen."""
    return all(
        rank.moving_to is None and job.target is not None and rank.held == job.target.on(node_id)
        for node_id, rank in job.ranks.items()
    )
