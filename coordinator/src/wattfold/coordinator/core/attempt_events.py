"""How requests to requeue, suspend and resume a job change the state.

`requeue` is what a request of a person and, in time, a plan with pre-emptions both come to.
"""

from __future__ import annotations

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX, Requeue
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.job_events import begin_ending, rank_of
from wattfold.coordinator.core.state import State

_ENDABLE = (JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)


def requeue_refusal(job: Job) -> str:
    """Why a job cannot be put back into the queue, for people; empty if it can."""
    if job.state not in _ENDABLE or not job.ranks:
        return f"it is {job.state.value}: only a job that has been started is requeued"
    if not job.spec.restarts:
        return (
            "it was submitted without --requeue or --snapshot-dir, so what it was started with is "
            "not kept: cancel it and submit it again"
        )
    if job.attempt >= ATTEMPTS_MAX:
        return f"it is at attempt {job.attempt}, the last of {ATTEMPTS_MAX}"
    return ""


def requeue(state: State, job: Job, order: Requeue, now_ns: int) -> list[act.Action]:
    """Ends the attempt of a job as ordered; the job waits again once nothing of it is alive."""
    if requeue_refusal(job):
        return []
    job.requeue, job.reason = order, f"to be requeued: {order.why}"
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def requeue_requested(state: State, event: ev.JobRequeueRequested, now_ns: int) -> list[act.Action]:
    """Somebody wants a running job back in the queue."""
    job = state.jobs.get(event.job_id)
    if job is None:
        return []
    order = Requeue(
        why=event.reason or "on request",
        signal=event.signal or job.spec.snapshot_signal,
        grace_ns=event.grace_ns or job.spec.snapshot_grace_ns,
        held=event.hold,
    )
    return requeue(state, job, order, now_ns)


def suspend_requested(state: State, event: ev.JobSuspendRequested, now_ns: int) -> list[act.Action]:
    """A running job stands still from now on; `reconcile` has its processes stopped."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.RUNNING:
        job.advance_progress(now_ns)
        job.state, job.suspended_ns = JobState.SUSPENDED, now_ns
        job.reason = "suspended on request"
        state.index.touch_job(job)
        state.index.news.append(job.job_id)
        state.plan_needed = "job suspended"
    return []


def resume_requested(state: State, event: ev.JobResumeRequested, now_ns: int) -> list[act.Action]:
    """A suspended job goes on; the time it stood still counts for no limit."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.SUSPENDED:
        job.go_on(now_ns)
        job.state, job.done_at_ns, job.reason = JobState.RUNNING, now_ns, ""
        state.index.add_limit(job)
        state.index.touch_job(job)
        state.index.news.append(job.job_id)
        state.plan_needed = "job resumed"
    return []


def suspension_confirmed(
    state: State, event: ev.SuspensionConfirmed, now_ns: int
) -> list[act.Action]:
    """The processes of a job on a node are stopped, or go on."""
    del now_ns
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopped, rank.stopping = event.suspended, False
    return []


def suspension_failed(state: State, event: ev.SuspensionFailed, now_ns: int) -> list[act.Action]:
    """Whether they are stopped is not known: asked again until it is."""
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopping, rank.retry_ns = False, now_ns + state.settings.retry_ns
        job.reason = f"asked again to stop or go on: {event.reason}"
    return []
