"""Assumed run times of real jobs that have not ended: what the coordinator plans with.

A waiting job takes the time of `policies.resources.estimates`: the user's estimate, the profile of
its program, its time limit, or one hour. A running job continues as the coordinator expects it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.power.charge import held_uw
from wattfold.coordinator.models.forecast import lasting_ns
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.policies.resources.estimates import estimate
from wattfold.simulator.messages.work import SpeedModel, Work


class TimeSource(enum.Enum):
    """Source of the run time of a job."""

    ESTIMATE = "estimate"
    PROFILE = "profile"
    LIMIT = "time limit"
    HOUR = "assumed hour"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProgress:
    """Progress of a running job, as its coordinator reports it. Times are in seconds."""

    size: int
    cap_uw: int
    ran_s: float
    """Run time without suspended time."""
    done: float
    """Completed share, in [0, 1]."""
    remaining_s: float
    """Expected time to its end; 0 = unknown, or the job is past its expected end."""
    over_s: float
    """Run time past the expected end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEnd:
    """Work of a running job, the completed share of it, and the total time that plans expect."""

    work: Work
    done: float
    total_s: float


def time_source(spec: JobSpec, profile: PassProfile | None) -> TimeSource:
    """Return the source of the run time of a job."""
    if spec.time_ns:
        return TimeSource.ESTIMATE
    if profile is not None:
        return TimeSource.PROFILE
    return TimeSource.LIMIT if spec.limit_ns else TimeSource.HOUR


def assumed_work(spec: JobSpec, profile: PassProfile | None, kind: NodeKind) -> Work:
    """Return the work of a waiting job on nodes of a kind."""
    return _work(spec, _planned(spec, profile, kind))


def expected_end(
    spec: JobSpec, profile: PassProfile | None, kind: NodeKind, progress: ReportedProgress
) -> ExpectedEnd:
    """Return the work of a running job on nodes of a kind.

    At its current size and cap, it ends when its coordinator expects this. A job past its expected
    end gets more time in the steps of plans (`models.forecast`).
    """
    planned = _planned(spec, profile, kind)
    here_s = planned.time_s(max(progress.size, 1), w_from_uw(held_uw(kind, progress.cap_uw)))
    if progress.over_s > 0:
        total_s = max(progress.ran_s - progress.over_s, 1e-3)
        ran_ns = round(progress.ran_s * 1e9)
        lasts_ns = lasting_ns(round(total_s * 1e9), ran_ns, spec.time_ns, spec.limit_ns)
        work = _work(spec, planned.scaled(lasts_ns / 1e9 / here_s))
        return ExpectedEnd(work=work, done=min(ran_ns / lasts_ns, 1.0), total_s=total_s)
    total_s = here_s
    if progress.remaining_s > 0 and progress.done < 1:
        total_s = progress.remaining_s / (1 - progress.done)
    work = _work(spec, planned.scaled(total_s / here_s))
    return ExpectedEnd(work=work, done=progress.done, total_s=total_s)


def _planned(spec: JobSpec, profile: PassProfile | None, kind: NodeKind) -> PassProfile:
    view = JobView(
        job_id=JobId("job"),
        spec=spec,
        submitted_ns=0,
        current=None,
        done=0.0,
        started_ns=-1,
        resized_ns=-1,
        profile=profile,
    )
    return estimate(view, kind).profile


def _work(spec: JobSpec, profile: PassProfile) -> Work:
    return Work(
        run_ns=1,
        asked_cores=1,
        model=SpeedModel.PASS,
        profile=profile,
        unit_cores=spec.unit_cores,
    )
