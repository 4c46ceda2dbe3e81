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

from collections.abc import Iterable, Mapping
from dataclasses import replace

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.conditions import Dependency, DependencyState
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.state.state import State

NOT_PLANNED = "not planned yet"
"""Reason of a job that no plan has considered."""
BEGIN_TIME = "waits for its begin time"
"""Reason of a job that only waits for its begin time."""
_SUBJECT = frozenset({JobState.HELD, JobState.WAITING, JobState.PENDING})
_NAMED_MAX = 4
"""Maximum number of jobs that a reason names."""


def dependency_state(jobs: Mapping[JobId, Job], dependency: Dependency) -> DependencyState:
    """Return whether a dependency is met. An unknown job has ended, but not known to succeed."""
    if dependency.settled is not DependencyState.OPEN:
        return dependency.settled
    job = jobs.get(dependency.job_id)
    if job is not None and not job.final:
        return DependencyState.OPEN
    succeeded = job is not None and job.state is JobState.COMPLETED
    met = succeeded or not dependency.success
    return DependencyState.MET if met else DependencyState.NEVER


def submitted(state: State, job: Job, now_ns: int) -> None:
    """Let a new job wait if its conditions are not met."""
    if job.conditions:
        for dependency in job.conditions.after:
            # Nothing else will settle a dependency on a job that is not known.
            if dependency.job_id not in state.jobs or dependency.job_id == job.job_id:
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


def review_followers(state: State, job: Job, now_ns: int) -> None:
    """Review the jobs that wait for a job which has ended or was reopened."""
    for follower in _followers(state, job.job_id):
        state.index.show_job(follower.job_id)
        review(state, follower, now_ns)


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


def forget(state: State, job_id: JobId) -> None:
    """Settle the dependencies on an ended job before the core deletes it."""
    for follower in _followers(state, job_id):
        _settle(state, follower, job_id)


def _settle(state: State, job: Job, job_id: JobId) -> None:
    jobs = {key: one for key, one in ((job_id, state.jobs.get(job_id)),) if one and one is not job}
    after = tuple(
        replace(one, settled=dependency_state(jobs, one)) if one.job_id == job_id else one
        for one in job.conditions.after
    )
    job.conditions = replace(job.conditions, after=after)
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
        if reason == BEGIN_TIME:
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
        found = dependency_state(state.jobs, one)
        if found is DependencyState.NEVER:
            failed.append(one.job_id)
        elif found is DependencyState.OPEN:
            (open_ok if one.success else open_any).append(one.job_id)
            if state.jobs[one.job_id].hopeless:
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
    return BEGIN_TIME if job.conditions.begin_ns > now_ns else ""


def _named(job_ids: Iterable[JobId]) -> str:
    """Return a text with the first jobs of a list."""
    named = list(job_ids)
    if len(named) == 1:
        return f"job {named[0]}"
    more = f" and {len(named) - _NAMED_MAX} more" if len(named) > _NAMED_MAX else ""
    return f"jobs {', '.join(named[:_NAMED_MAX])}{more}"
