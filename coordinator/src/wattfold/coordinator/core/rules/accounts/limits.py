"""Limits of users and accounts on jobs, cores and power at the same time.

After each event, this rule admits waiting jobs in the order of their submission, as far as the
limits of their user and their account permit. Policies see admitted jobs only, so they need no rule
about limits. A job that is not admitted is WAITING, with the limit as its reason.

The first job that does not fit closes its user or account to the jobs behind it. Otherwise small
jobs would keep a large job waiting forever. A job stays admitted until it ends, is held, or has to
wait for conditions; a preempted or requeued job keeps its admission.
"""

from __future__ import annotations

import heapq

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.account import EVERYBODY, Demand, UsageLimits
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobSpec, JobState
from wattfold.coordinator.core.rules.accounts.demands import demand_of
from wattfold.coordinator.core.rules.jobs.start_conditions import NOT_PLANNED
from wattfold.coordinator.core.state.admissions import Admissions, Holder, is_active
from wattfold.coordinator.core.state.state import State

AT_LIMIT = "waits for the end of other jobs: "
"""Beginning of the reason of a job that waits for a limit. Everybody may read it."""


def configured(state: State, event: AccountsConfigured, now_ns: int) -> list[act.Action]:
    """Replace accounts and limits. Jobs with resources continue; the others are admitted again."""
    del now_ns
    state.accounts = {account.name: account for account in event.accounts}
    state.user_limits = {user.name: user for user in event.users}
    state.limit_changes += 1
    return []


def limits_of(state: State, spec: JobSpec) -> dict[Holder, UsageLimits]:
    """Return the limits that apply to a job, by user and account."""
    found: dict[Holder, UsageLimits] = {}
    user = state.user_limits.get(spec.user) or state.user_limits.get(EVERYBODY)
    if user is not None:
        found[Holder("user", spec.user)] = user.limits
    account = state.accounts.get(spec.account)
    if account is not None:
        found[Holder("account", account.name)] = account.limits
    return found


def never_fits(state: State, spec: JobSpec) -> str:
    """Return why a job can never be admitted, or an empty string."""
    demand = demand_of(state, spec)
    for holder, limits in limits_of(state, spec).items():
        limit = limits.exceeded_by(demand)
        if limit:
            return (
                f"the job may use {demand.cores} cores and {demand.power_uw / 1e6:g} W above idle "
                f"at its maximum size; {holder} may use at most {limit} at the same time"
            )
    return ""


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
            _count(state, admissions, job, demand_of(state, job.spec))


def _note(state: State, admissions: Admissions, job_id: JobId, news: list[Job]) -> bool:
    """Follow the state of a job; return whether it no longer counts as before."""
    job = state.index.open.get(job_id)
    if job is None or not (is_active(job) or is_limited(job)):
        return admissions.drop(job_id)
    known = admissions.admitted.get(job_id)
    if known is not None and is_active(job):
        if known.spec is not job.spec:
            admissions.drop(job_id)
            _count(state, admissions, job, demand_of(state, job.spec))
            return True
        return False
    if job.state in PLACED_STATES:
        admissions.drop(job_id)
        _count(state, admissions, job, demand_of(state, job.spec))
        return False
    admissions.enqueue(job, tuple(limits_of(state, job.spec)))
    if job.state is JobState.PENDING:
        news.append(job)
    return False


def _count(state: State, admissions: Admissions, job: Job, demand: Demand) -> None:
    admissions.count(job, tuple(limits_of(state, job.spec)), demand)


def _admit(state: State, admissions: Admissions, news: list[Job], now_ns: int) -> None:
    """Admit waiting jobs, and let ``news`` wait if they are not admitted."""
    closed: dict[Holder, str] = {}
    heads = [(turn, key) for key in [*admissions.queues] if (turn := admissions.first(key))]
    heapq.heapify(heads)
    while heads:
        turn, holders = heapq.heappop(heads)
        if any(holder in closed for holder in holders):
            continue
        job = state.index.open[JobId(turn[2])]
        demand = demand_of(state, job.spec)
        exceeded = _exceeded(state, admissions, job.spec, demand)
        if exceeded:
            closed |= exceeded
            continue
        admissions.drop(job.job_id)
        _count(state, admissions, job, demand)
        if job.state is JobState.WAITING:
            job.state, job.reason, job.freed_ns = JobState.PENDING, NOT_PLANNED, now_ns
            state.index.touch_job(job)
            state.plan_needed = "job is within the limits"
        following = admissions.first(holders)
        if following:
            heapq.heappush(heads, (following, holders))
    for job in news:
        if job.job_id in admissions.waiting:
            _put_off(state, job, closed)


def _exceeded(
    state: State, admissions: Admissions, spec: JobSpec, demand: Demand
) -> dict[Holder, str]:
    """Return the holders whose limits another job would exceed, with the limits."""
    return {
        holder: limit
        for holder, limits in limits_of(state, spec).items()
        if (limit := limits.exceeded_by(admissions.sums.get(holder, Demand()).plus(demand)))
    }


def _put_off(state: State, job: Job, closed: dict[Holder, str]) -> None:
    holder = next(one for one in limits_of(state, job.spec) if one in closed)
    if job.state is JobState.PENDING:
        job.expected_start_ns, job.promise = 0, None
    job.state = JobState.WAITING
    limit = f"its {holder.kind} may use at most {closed[holder]} at the same time"
    job.reason = f"{AT_LIMIT}{limit}"
    state.index.touch_job(job)
