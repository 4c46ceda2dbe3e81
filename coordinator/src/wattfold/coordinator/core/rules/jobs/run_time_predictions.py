"""Planned run times of jobs, predicted from similar earlier jobs (`models.forecast`).

The history learns from every job that ends by itself or at its time limit, whatever the settings.
So it is complete when an operator selects a predictor. It is part of the state, so a replayed
journal restores it. A job stores what was known at its submission.

A job is ended at its time limit; predictions and estimates are only for plans. A running job that
exceeds its planned time gets more time in steps (`models.forecast`), so that plans do not count on
its nodes at every moment. A user's estimate grows like a prediction.
"""

from __future__ import annotations

from wattfold.coordinator.core.model.job import MAX_DONE, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.forecast import USER, Asked, SimilarRuns, lasting_ns, predicted_ns
from wattfold.coordinator.models.pass_model import SizeUnit

_TELLING = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMED_OUT})
"""Final states with a known run time. Cancelled and lost jobs would have run longer."""


def known(state: State, spec: JobSpec) -> SimilarRuns:
    """Return what is known about the run time of a job that is submitted now."""
    return state.history.known(_asked(spec))


def learn(state: State, job: Job) -> None:
    """Learn from a job that has just ended, unless it ran in several attempts."""
    if job.state not in _TELLING or job.started_ns < 0 or job.attempts or job.ran_ns:
        return
    run_ns = job.ended_ns - job.started_ns - job.paused_ns
    core_ns = sum(rank.end.core_ns for rank in job.ranks.values() if rank.end)
    if core_ns and job.spec.unit is SizeUnit.CORES and job.spec.kind.resized:
        # On fewer cores it took longer. Its time on the maximum number of cores counts.
        run_ns = min(core_ns // job.spec.size_max, run_ns)
    if run_ns > 0:
        state.history.learn(_asked(job.spec), job.known, run_ns)


def learn_all(state: State) -> None:
    """Learn from all ended jobs that the state still knows, in order."""
    for job in sorted(state.jobs.values(), key=lambda job: job.ended_ns):
        if job.final:
            learn(state, job)


def planned(state: State, job: Job, now_ns: int) -> tuple[int, float]:
    """Return the predicted run time (0 = use the user's estimate) and the share done of it.

    A running job that has exceeded its prediction, or its expected time, gets more time.
    """
    predicted, over_ns = _predicted_ns(state, job), job.over_ns(now_ns)
    if not over_ns:
        return predicted, job.done_by(now_ns)
    base_ns = predicted or _total_ns(job)
    planned_ns = _grown_ns(job, base_ns, over_ns)
    return planned_ns if predicted else 0, min((base_ns + over_ns) / planned_ns, MAX_DONE)


def beyond_ns(job: Job, now_ns: int) -> int:
    """Return how long a job has run past its expected end, by its progress or by time.

    Time counts only if the job reports progress and was never resized.
    """
    over_ns = job.over_ns(now_ns)
    total_ns = _total_ns(job)
    if job.state is not JobState.RUNNING or not (job.told and total_ns) or job.resized_ns >= 0:
        return over_ns
    return max(over_ns, now_ns - _began_ns(job) - total_ns)


def next_growth_ns(state: State, now_ns: int) -> int:
    """Return when a running job next exceeds its planned time; 0 = no job will, or none waits."""
    if not any(job.state is JobState.PENDING for job in state.index.open.values()):
        return 0
    due = [
        _exceeds_ns(state, job, now_ns)
        for job in state.placed()
        if job.state in (JobState.STARTING, JobState.RUNNING) and _total_ns(job)
    ]
    return min((at_ns for at_ns in due if at_ns > now_ns), default=0)


def _exceeds_ns(state: State, job: Job, now_ns: int) -> int:
    """Return when a job will have exceeded its planned time."""
    over_ns = beyond_ns(job, now_ns)
    if over_ns <= 0:
        by_time_ns = _began_ns(job) + _total_ns(job) if job.started_ns >= 0 else 0
        ends_ns = _ends_ns(job, now_ns)
        return (by_time_ns if now_ns < by_time_ns < ends_ns else ends_ns) + 1
    base_ns = _predicted_ns(state, job) or _total_ns(job)
    return now_ns - over_ns + _grown_ns(job, base_ns, over_ns) - base_ns


def _grown_ns(job: Job, base_ns: int, over_ns: int) -> int:
    spec = job.spec
    return lasting_ns(base_ns, base_ns + over_ns, spec.time_ns, spec.limit_ns)


def _total_ns(job: Job) -> int:
    """Return its expected total time with its assignment; 0 = unknown."""
    return round(job.target.expected_total_s * 1e9) if job.target else 0


def _began_ns(job: Job) -> int:
    """Return when a running job would have started without pauses and earlier sizes."""
    return job.started_ns + job.paused_ns - job.ran_ns


def _predicted_ns(state: State, job: Job) -> int:
    """Return the predicted run time at submission; 0 = use the user's estimate."""
    method, time_ns = state.settings.predict, _word_ns(job.spec)
    if method == USER:
        return 0
    predicted = predicted_ns(method, job.known, time_ns)
    return 0 if predicted == time_ns else predicted


def _ends_ns(job: Job, now_ns: int) -> int:
    """Return when a starting or running job reaches its expected end."""
    if job.over_since_ns >= 0:
        return job.over_since_ns
    since_ns = job.done_at_ns if job.state is JobState.RUNNING else now_ns
    return since_ns + round((1 - job.done) * _total_ns(job))


def _asked(spec: JobSpec) -> Asked:
    return Asked(user=spec.user, app=spec.app, size=spec.size_max, time_ns=_word_ns(spec))


def _word_ns(spec: JobSpec) -> int:
    """Return the user's estimate, or else the time limit; 0 = neither is given."""
    return spec.time_ns or spec.limit_ns
