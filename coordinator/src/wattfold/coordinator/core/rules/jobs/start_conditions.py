"""Conditions of the first start of a job: it waits for ends of other jobs and for its begin time.

A job whose conditions are not met is WAITING: policies do not see it. The conditions are examined
again whenever they may have changed. So a requeued predecessor counts by its final end, and a step
of the calendar that moves a begin time into the future makes a pending job wait again. The first
start uses the conditions up: a requeued job does not wait for them again.

A dependency that cannot be met any more keeps its job waiting and says so, because a failed
predecessor may be requeued and then succeed. The coordinator deletes old ended jobs. Their ends are
then written into the dependencies on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wattfold.contract.ids import JobId, array_of
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.conditions import (
    Dependency,
    DependencyState,
    StartConditions,
)
from wattfold.coordinator.core.model.jobs.job_array import ArraySubmitted
from wattfold.coordinator.core.rules.job_arrays.array_counts import finished, succeeded
from wattfold.coordinator.core.state.state import State

NOT_PLANNED = "not planned yet"
"""Reason of a job that no plan has considered."""
BEGIN_TIME = "waits for its begin time"
"""Reason of a job that only waits for its begin time."""
CHEAPER_ENERGY = "waits for cheaper energy"
"""Reason of a job whose begin time is that of the cheapest energy."""
BEGIN_REASONS = (BEGIN_TIME, CHEAPER_ENERGY)
_SUBJECT = frozenset({JobState.HELD, JobState.WAITING, JobState.PENDING})
_NAMED_MAX = 4
"""Maximum number of jobs that a reason names."""


def dependency_state(state: State, dependency: Dependency) -> DependencyState:
    """Return whether a dependency is met. An unknown job has ended, but not known to succeed.

    A dependency on an array is one on all of its tasks.
    """
    if dependency.settled is not DependencyState.OPEN:
        return dependency.settled
    job, array = state.jobs.get(dependency.job_id), state.arrays.get(dependency.job_id)
    if array is not None:
        if not finished(state, array):
            return DependencyState.OPEN
        return _final_state(dependency, succeeded=succeeded(state, array))
    if job is not None and not job.final:
        return DependencyState.OPEN
    completed = job is not None and job.state is JobState.COMPLETED
    return _final_state(dependency, succeeded=completed)


def _final_state(dependency: Dependency, *, succeeded: bool) -> DependencyState:
    met = succeeded or not dependency.success
    return DependencyState.MET if met else DependencyState.NEVER


def submitted(state: State, job: Job, now_ns: int) -> None:
    """Let a new job wait if its conditions are not met."""
    if job.conditions:
        for dependency in job.conditions.after:
            # Nothing else will settle a dependency on a job that is not known.
            if not _is_known(state, dependency.job_id) or dependency.job_id == job.job_id:
                _settle(state, job, dependency.job_id)
        if job.state is JobState.PENDING:
            job.state = JobState.WAITING  # No plan has seen it.
        review(state, job, now_ns)


def review(state: State, job: Job, now_ns: int) -> None:
    """Let a job that has not started wait or be planned, according to its conditions.

    Jobs behind a hopeless job are hopeless, too.
    """
    changed = [job]
    while changed:
        one = changed.pop()
        if _reviewed(state, one, now_ns):
            changed.extend(_followers(state, one.job_id))
            changed.extend(_followers(state, array_of(one.job_id)))


def review_followers(state: State, job: Job, now_ns: int) -> None:
    """Review the jobs that wait for a job which has ended or was reopened."""
    review_followers_of(state, job.job_id, now_ns)
    review_followers_of(state, array_of(job.job_id), now_ns)


def review_followers_of(state: State, job_id: JobId, now_ns: int) -> None:
    """Review the jobs that wait for a job or an array."""
    for follower in _followers(state, job_id):
        state.index.show_job(follower.job_id)
        review(state, follower, now_ns)


def of_new_array(state: State, event: ArraySubmitted) -> StartConditions:
    """Return the conditions of a new array, with dependencies on unknown jobs settled."""
    conditions = event.conditions
    for one in conditions.after:
        if not _is_known(state, one.job_id):
            conditions = _settled(state, conditions, one.job_id)
    return conditions


def _is_known(state: State, job_id: JobId) -> bool:
    return job_id in state.jobs or job_id in state.arrays


def pass_time(state: State, now_ns: int) -> None:
    """Review the jobs whose begin time has come."""
    for job in state.index.take_begun(now_ns):
        review(state, job, now_ns)


def calendar_stepped(state: State, by_ns: int, now_ns: int) -> None:
    """Move the begin times of jobs in coordinator time, so that they keep their calendar time."""
    for job in state.index.open.values():
        if job.conditions.begin_ns >= 0:
            moved_ns = max(job.conditions.begin_ns - by_ns, 0)
            job.conditions = replace(job.conditions, begin_ns=moved_ns)
            review(state, job, now_ns)
    for array in state.arrays.values():
        if array.conditions.begin_ns >= 0:
            moved_ns = max(array.conditions.begin_ns - by_ns, 0)
            array.conditions = replace(array.conditions, begin_ns=moved_ns)


def forget(state: State, job_id: JobId) -> None:
    """Settle the dependencies on an ended job or array before the core deletes it."""
    for follower in _followers(state, job_id):
        _settle(state, follower, job_id)
    for array in state.arrays.values():
        if array.conditions.after:
            array.conditions = _settled(state, array.conditions, job_id)


def _settled(
    state: State, conditions: StartConditions, job_id: JobId, *, itself: bool = False
) -> StartConditions:
    def settled(one: Dependency) -> Dependency:
        found = _final_state(one, succeeded=False) if itself else dependency_state(state, one)
        return replace(one, settled=found)

    after = tuple(settled(one) if one.job_id == job_id else one for one in conditions.after)
    return replace(conditions, after=after)


def _settle(state: State, job: Job, job_id: JobId) -> None:
    job.conditions = _settled(state, job.conditions, job_id, itself=job_id == job.job_id)
    state.index.unfollow(job.job_id, job_id)
    state.index.show_job(job.job_id)


def _followers(state: State, job_id: JobId) -> list[Job]:
    return [state.index.open[one] for one in state.index.followers(job_id)]


def _reviewed(state: State, job: Job, now_ns: int) -> bool:
    """Set the state and the reason of a job; return whether others have to be reviewed."""
    subject = job.state in _SUBJECT and job.attempt == 1
    if not subject or not job.conditions:
        return False
    was_hopeless, before = job.hopeless, (job.state, job.reason, job.expected_start_ns)
    reason = _obstacle(state, job, now_ns)
    if job.state is JobState.HELD:
        return job.hopeless is not was_hopeless
    if reason:
        if job.state is JobState.PENDING:
            job.state, job.promise, job.freed_ns = JobState.WAITING, None, -1
            state.plan_needed = "job waits for its conditions"
        job.reason, job.expected_start_ns = reason, 0
        if reason in BEGIN_REASONS:
            job.expected_start_ns = job.conditions.begin_ns
        if job.conditions.begin_ns > now_ns:
            state.index.add_begin(job)
    elif job.state is JobState.WAITING:
        job.state, job.reason, job.freed_ns = JobState.PENDING, NOT_PLANNED, now_ns
        job.expected_start_ns = 0
        state.plan_needed = "job may start"
    if before != (job.state, job.reason, job.expected_start_ns):
        state.index.touch_job(job)
    return job.hopeless is not was_hopeless


def _obstacle(state: State, job: Job, now_ns: int) -> str:
    """Return why a job must wait, or an empty string, and set whether it is hopeless."""
    open_ok: list[JobId] = []
    open_any: list[JobId] = []
    failed: list[JobId] = []
    stuck: list[JobId] = []
    for one in job.conditions.after:
        found = dependency_state(state, one)
        if found is DependencyState.NEVER:
            failed.append(one.job_id)
        elif found is DependencyState.OPEN:
            (open_ok if one.success else open_any).append(one.job_id)
            if _is_hopeless(state, one.job_id):
                stuck.append(one.job_id)
    job.hopeless = bool(failed or stuck)
    if failed:
        return f"waits in vain: it needs success of {_named(failed)}, which ended otherwise"
    if stuck:
        return f"waits in vain: it waits for {_named(stuck)}, and this waits in vain"
    parts = [f"success of {_named(open_ok)}"] if open_ok else []
    parts += [f"the end of {_named(open_any)}"] if open_any else []
    if parts:
        return f"waits for {' and '.join(parts)}"
    if job.conditions.begin_ns <= now_ns:
        return ""
    return CHEAPER_ENERGY if job.conditions.cheaper else BEGIN_TIME


def _is_hopeless(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    tasks = state.index.tasks(job_id).values() if job is None else [job]
    return any(one.hopeless for one in tasks)


def _named(job_ids: Iterable[JobId]) -> str:
    """Return a text with the first jobs of a list."""
    named = list(job_ids)
    if len(named) == 1:
        return f"job {named[0]}"
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return f"jobs {', '.join(named[:_NAMED_MAX])}{more}"
