"""Changes of the submissions of jobs, as changes of the state.

The request was checked when it arrived. A replay applies it as it is stored.
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import MAX_DONE, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.jobs import job_ends, run_time_predictions
from wattfold.coordinator.core.state.state import State

_WAITING = (JobState.HELD, JobState.WAITING, JobState.PENDING)


def modified(state: State, event: ev.JobModified, now_ns: int) -> list[act.Action]:
    """Change the submission of a job that has not ended. A job past its new limit is ended."""
    job = state.jobs.get(event.job_id)
    if job is None or job.final:
        return []
    before, after = job.spec, event.applied_to(job.spec)
    if after == before:
        return []
    job.spec = after
    _follow_size(job, before)
    _follow_limit(job, before, now_ns)
    if job.state in _WAITING and _asks(before) != _asks(after):
        # The history and the planned start were those of another request.
        job.known = run_time_predictions.known(state, after)
        job.promise = None
    state.index.touch_job(job)
    state.index.show_job(job.job_id)
    state.index.add_limit(job)
    if replace(before, name=after.name) != after:
        state.plan_needed = "job modified"
    out: list[act.Action] = []
    for late in state.index.take_over_limit(now_ns):
        out += job_ends.end_at_limit(state, late, now_ns)
    return out


def _asks(spec: JobSpec) -> tuple[int, ...]:
    return spec.limit_ns, spec.time_ns, spec.size_min, spec.size_max


def _follow_size(job: Job, before: JobSpec) -> None:
    """Let the policy choose again if the size that a user fixed is no longer possible."""
    spec = job.spec
    if (spec.size_min, spec.size_max) != (before.size_min, before.size_max):
        possible = spec.min_size <= job.size_asked <= spec.size_max
        job.size_asked = job.size_asked if possible else 0


def _follow_limit(job: Job, before: JobSpec, now_ns: int) -> None:
    """Adapt the expected run time of a job on nodes.

    No job is expected to run longer than its limit. If its limit was the expectation, because it
    has no estimate, then the new limit is.
    """
    limit_s, target = job.spec.limit_ns / 1e9, job.target
    if target is None or not limit_s or job.spec.limit_ns == before.limit_ns:
        return
    total_s = target.expected_total_s
    was_limit = not before.time_ns and abs(total_s - before.limit_ns / 1e9) < 1e-6
    new_s = limit_s if was_limit else min(total_s, limit_s)
    if not total_s or new_s == total_s:
        return
    job.advance_progress(now_ns)
    if not job.told:
        job.done = min(job.done * total_s / new_s, MAX_DONE)
    if new_s > total_s:
        job.over_since_ns = -1
    job.target = replace(target, expected_total_s=new_s)
