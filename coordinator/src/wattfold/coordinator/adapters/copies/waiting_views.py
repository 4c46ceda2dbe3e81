"""Reasons why jobs wait, as `queue`, `show` and `explain` show them.

The stored reason comes from the policy and changes only when the policy changes it. For the first
jobs of the queue, and for jobs requested by ID, the view adds the missing resources, their holders
and the time of their release. This is computed on reading, so it costs the planning rounds nothing.
A missing reason is replaced by a report about a late or failed planner.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from heapq import nsmallest

from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.plan import NOBODY, Policy, Snapshot
from wattfold.coordinator.core.rules.jobs.start_conditions import BEGIN_REASONS, NOT_PLANNED
from wattfold.coordinator.core.rules.power import emergency
from wattfold.coordinator.core.state.state import State

LATE_NS = 5 * NS_PER_S
"""A longer round counts as late in the views."""
NEAR_NS = 600 * NS_PER_S
"""Nearer times are shown with seconds."""
DETAILED_MAX = 4
"""Maximum number of waiting jobs of a list that are shown with their missing resources."""
DETAIL_NS = 3 * NS_PER_S
"""Interval at which the missing resources are computed again."""


def planner_trouble(state: State, clock: Clock, now_ns: int) -> str:
    """Return why the planner does not plan as configured, and since when; empty = no trouble."""
    if not emergency.keeps_planning(state):
        return f"{emergency.STOPPED}: no job starts until it ends"
    if state.solving and now_ns - state.solving_since_ns >= LATE_NS:
        since = time_of_day(clock, state.solving_since_ns)
        return f"the planner is late: it has worked on the current plan since {since}"
    if state.failing_since_ns >= 0 and state.last_round is not None:
        since = time_of_day(clock, state.failing_since_ns)
        return f"the planner has failed since {since}: {state.last_round.failure}"
    return ""


def first_waiting(jobs: Iterable[Job]) -> set[JobId]:
    """Return the jobs of a list that get details: the first waiting jobs in queue order."""
    waits = (job for job in jobs if job.state is JobState.PENDING)
    first = nsmallest(DETAILED_MAX, waits, key=lambda job: (-job.spec.priority, job.submitted_ns))
    return {job.job_id for job in first}


def head_of(state: State, job: Job) -> JobId:
    """Return the head of the queue if the policy has one and this job waits behind it."""
    from wattfold.coordinator.policies.backfill.easy_search import FIRST

    if job.state is not JobState.PENDING or job.reason.startswith(FIRST):
        return NOBODY
    heads = (
        one.job_id
        for one in state.index.open.values()
        if one.state is JobState.PENDING and one.reason.startswith(FIRST)
    )
    return next(heads, NOBODY)


class WaitingReasons:
    """Missing resources of the jobs of a list at one moment, on one snapshot."""

    def __init__(self, seen: Snapshot, policy: Policy, clock: Clock) -> None:
        from wattfold.coordinator.policies.driver.shortage import free_room

        self._seen, self._policy, self._clock = seen, policy, clock
        self._views = {view.job_id: view for view in seen.jobs if view.current is None}
        self._room = free_room(seen)

    def shortage(self, job: Job) -> str:
        """Return what a waiting job lacks, who holds it and until when; empty if nothing."""
        from wattfold.coordinator.policies.driver.shortage import shortage

        view = self._views.get(job.job_id)
        short = shortage(self._seen, view, self._policy, self._room) if view is not None else None
        if short is None:
            return ""
        told = [] if short.lacks in job.reason else [short.lacks]
        until = f"until {time_of_day(self._clock, short.until_ns)}" if short.until_ns else ""
        if short.budget_uw:
            at = until.removeprefix("until ")
            told.append(
                f"the announced budget of {short.budget_uw / 1e6:.1f} W from {at} is enough"
            )
        elif short.holders:
            told.append(f"held by {short.held_by} {until or 'beyond the estimate'}")
        return "; ".join(told)


def told_reason(job: Job, trouble: str, clock: Clock, shortage: str = "") -> str:
    """Return the policy's reason and the missing resources, or why no plan exists for the job."""
    if job.state is JobState.WAITING and job.reason in BEGIN_REASONS:
        return f"{job.reason}, {time_of_day(clock, job.conditions.begin_ns)}"
    if job.state is not JobState.PENDING:
        return job.reason
    if trouble and (job.reason == NOT_PLANNED or trouble.startswith(emergency.STOPPED)):
        return trouble
    return "; ".join(filter(None, [job.reason, shortage]))


def time_of_day(clock: Clock, time_ns: int) -> str:
    """Return the time of day at the head node, with seconds if near, with the date if far."""
    now_ns = clock.now_ns()
    then, today = (
        datetime.fromtimestamp(clock.wall_s(ns)).astimezone() for ns in (time_ns, now_ns)
    )
    if then.date() != today.date():
        return then.strftime("%Y-%m-%d %H:%M")
    return then.strftime("%H:%M:%S" if abs(time_ns - now_ns) < NEAR_NS else "%H:%M")
