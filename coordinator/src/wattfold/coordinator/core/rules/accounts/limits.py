"""Limits of users and accounts on jobs, cores and power at the same time.

After each event, this rule admits waiting jobs in the order of their submission, as far as the
limits of their user and their account permit (`core/state/admissions.py`). Policies see admitted
jobs only, so they need no rule about limits. A job that is not admitted is WAITING, with the limit
as its reason. A job stays admitted until it ends, is held, or has to wait for conditions; a
preempted or requeued job keeps its admission.
"""

from __future__ import annotations

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.rules.accounts import fair_share
from wattfold.coordinator.core.rules.accounts.demands import demand_of
from wattfold.coordinator.core.rules.jobs.start_conditions import NOT_PLANNED
from wattfold.coordinator.core.state.admissions import (
    Admissions,
    Admitted,
    Holder,
    Limits,
    is_active,
    limits_for,
    refusal,
    turn_of,
)
from wattfold.coordinator.core.state.state import State

AT_LIMIT = "waits for the end of other jobs: "
"""Beginning of the reason of a job that waits for a limit. Everybody may read it."""


def configured(state: State, event: AccountsConfigured, now_ns: int) -> list[act.Action]:
    """Replace accounts and limits. Jobs with resources continue; the others are admitted again."""
    fair_share.configured(state, event.half_life_ns, now_ns)
    state.accounts = {account.name: account for account in event.accounts}
    state.user_limits = {user.name: user for user in event.users}
    state.limit_changes += 1
    return []


def limits_of(state: State, spec: JobSpec) -> Limits:
    """Return the limits that apply to a job, by user and account."""
    return limits_for(spec.user, spec.account, state.user_limits, state.accounts)


def never_fits(state: State, spec: JobSpec) -> str:
    """Return why a job can never be admitted, or an empty string."""
    return refusal(demand_of(state, spec), limits_of(state, spec))


def is_limited(job: Job) -> bool:
    """Whether a job waits only because of a limit."""
    return job.state is JobState.WAITING and job.reason.startswith(AT_LIMIT)


def enforce(state: State, named: JobId | str, now_ns: int) -> None:
    """Admit the jobs that fit, and let the others wait. ``named`` is the job of the event."""
    admissions = state.derived.admissions
    limits_changed = admissions.as_of[0] != state.limit_changes
    limited = bool(state.accounts or state.user_limits or admissions.waiting)
    if not (limited or limits_changed):
        return
    as_of = state.limit_changes, state.index.node_changes
    everything = state.index.touched.everything or admissions.as_of != as_of
    if admissions.as_of != as_of:
        if limits_changed:
            admissions.admitted.clear()
        _count_again(state, admissions)
        admissions.as_of = as_of
    freed, news = everything, list[Job]()
    changed = {JobId(named), *state.index.touched.jobs}
    if everything:
        changed |= state.index.open.keys()
    for job_id in sorted(changed):
        freed |= _note(state, admissions, job_id, news)
    if limits_changed:
        news = [state.index.open[job_id] for job_id in admissions.waiting]
    if freed or news:
        _admit(state, admissions, news, now_ns)


def _count_again(state: State, admissions: Admissions) -> None:
    """Count the admitted jobs with their demands on the current nodes."""
    admitted = [job_id for job_id in admissions.admitted if job_id in state.index.open]
    admissions.clear()
    for job_id in admitted:
        job = state.index.open[job_id]
        if is_active(job):
            admissions.count(job.job_id, _counted(state, job))


def _note(state: State, admissions: Admissions, job_id: JobId, news: list[Job]) -> bool:
    """Follow the state of a job; return whether it no longer counts as before."""
    job = state.index.open.get(job_id)
    if job is None or not (is_active(job) or is_limited(job)):
        return admissions.drop(job_id)
    known = admissions.admitted.get(job_id)
    if known is not None and is_active(job):
        if known.spec is not job.spec:
            admissions.drop(job_id)
            admissions.count(job.job_id, _counted(state, job))
            return True
        return False
    if job.state in PLACED_STATES:
        admissions.drop(job_id)
        admissions.count(job.job_id, _counted(state, job))
        return False
    admissions.enqueue(turn_of(job), tuple(limits_of(state, job.spec)))
    if job.state is JobState.PENDING:
        news.append(job)
    return False


def _counted(state: State, job: Job) -> Admitted:
    return Admitted(job.spec, tuple(limits_of(state, job.spec)), demand_of(state, job.spec))


def _admit(state: State, admissions: Admissions, news: list[Job], now_ns: int) -> None:
    """Admit waiting jobs, and let ``news`` wait if they are not admitted."""
    jobs = state.index.open
    admitted, closed = admissions.admit(
        lambda job_id: limits_of(state, jobs[job_id].spec),
        lambda job_id: _counted(state, jobs[job_id]),
    )
    for job_id in admitted:
        job = jobs[job_id]
        if job.state is JobState.WAITING:
            job.state, job.reason, job.freed_ns = JobState.PENDING, NOT_PLANNED, now_ns
            state.index.touch_job(job)
            state.plan_needed = "job is within the limits"
    for job in news:
        if job.job_id in admissions.waiting:
            _put_off(state, job, closed)


def _put_off(state: State, job: Job, closed: dict[Holder, str]) -> None:
    holder = next(one for one in limits_of(state, job.spec) if one in closed)
    if job.state is JobState.PENDING:
        job.expected_start_ns, job.promise = 0, None
    job.state = JobState.WAITING
    limit = f"its {holder.kind} may use at most {closed[holder]} at the same time"
    job.reason = f"{AT_LIMIT}{limit}"
    state.index.touch_job(job)
