"""How long jobs are planned to run, by what jobs like them took (`models.forecast`).

The history learns from every job that ends by itself or at its time limit, whatever the settings,
so that it is there when somebody chooses a predictor. It is part of the state: a journal that is
replayed leaves the one that was kept. What was known of a job when it was submitted stays with it.

A job is ended at its limit, which is its user's: predictions are for plans alone.
"""

from __future__ import annotations

from wattfold.coordinator.core.job import MAX_DONE, Job, JobSpec, JobState, SizeUnit
from wattfold.coordinator.core.state import State
from wattfold.coordinator.models.forecast import USER, Asked, Known, grown_ns, predicted_ns

_TELLING = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMED_OUT})
"""Ends after which it is known how long a job runs. Those cancelled or lost would have gone on."""


def known(state: State, spec: JobSpec) -> Known:
    """What there is to know of a job that is submitted now."""
    return state.history.known(_asked(spec))


def learn(state: State, job: Job) -> None:
    """Takes in a job that has just ended; nothing of one that ran in several attempts."""
    if job.state not in _TELLING or job.started_ns < 0 or job.attempts or job.ran_ns:
        return
    run_ns = job.ended_ns - job.started_ns - job.paused_ns
    core_ns = sum(rank.end.core_ns for rank in job.ranks.values() if rank.end)
    if core_ns and job.spec.unit is SizeUnit.CORES and job.spec.kind.resized:
        # On fewer cores it took longer: what counts is its time on all it may have.
        run_ns = min(core_ns // job.spec.size_max, run_ns)
    if run_ns > 0:
        state.history.learn(_asked(job.spec), job.known, run_ns)


def learn_all(state: State) -> None:
    """Takes in all that have ended of which the state still knows, in order."""
    for job in sorted(state.jobs.values(), key=lambda job: job.ended_ns):
        if job.final:
            learn(state, job)


def planned(state: State, job: Job, now_ns: int) -> tuple[int, float]:
    """How long a job is taken to run in all and the share done of that, 0 for its user's word.

    A running one that has exceeded its prediction is given more.
    """
    predicted = _predicted_ns(state, job)
    done = job.done_by(now_ns)
    if not predicted:
        return 0, done
    over_ns = job.over_ns(now_ns)
    if not over_ns:
        return predicted, done
    planned_ns = grown_ns(predicted, predicted + over_ns, job.spec.time_ns)
    return planned_ns, min((predicted + over_ns) / planned_ns, MAX_DONE)


def next_growth_ns(state: State, now_ns: int) -> int:
    """When a running job exceeds what it is planned for next; 0 = none will."""
    due = [
        _ends_ns(job, now_ns) + planned(state, job, now_ns)[0] - predicted
        for job in state.placed()
        if job.state in (JobState.STARTING, JobState.RUNNING) and job.target is not None
        if (predicted := _predicted_ns(state, job))
    ]
    return min((at_ns for at_ns in due if at_ns > now_ns), default=0)


def _predicted_ns(state: State, job: Job) -> int:
    """What a job was taken to run when it was submitted; 0 = as long as its user says."""
    method, time_ns = state.settings.predict, job.spec.time_ns
    if method == USER:
        return 0
    predicted = predicted_ns(method, job.known, time_ns)
    return 0 if predicted == time_ns else predicted


def _ends_ns(job: Job, now_ns: int) -> int:
    """When a job that runs or starts has run for as long as it was predicted to."""
    if job.over_since_ns >= 0:
        return job.over_since_ns
    since_ns = job.done_at_ns if job.state is JobState.RUNNING else now_ns
    total_s = job.target.expected_total_s if job.target else 0.0
    return since_ns + round((1 - job.done) * total_s * 1e9)


def _asked(spec: JobSpec) -> Asked:
    return Asked(user=spec.user, app=spec.app, size=spec.size_max, time_ns=spec.time_ns)
