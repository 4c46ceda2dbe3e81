"""Requests to requeue, suspend, resume or resize a job, as changes of the state.

Requests of users and plans with preemptions both use `requeue`.
"""

from __future__ import annotations

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import RETRYING, Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.attempt import ATTEMPTS_MAX, Requeue
from wattfold.coordinator.core.rules.jobs import restart, start_conditions
from wattfold.coordinator.core.rules.jobs.job_ends import begin_ending
from wattfold.coordinator.core.rules.jobs.job_events import rank_of
from wattfold.coordinator.core.rules.jobs.requeue import back_to_queue
from wattfold.coordinator.core.rules.jobs.restart_target import immovable
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit

_ENDABLE = (JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)
_RESUMABLE = (JobState.FAILED, JobState.LOST, JobState.TIMED_OUT)
"""Final states after which a job may resume from its snapshot."""


def resumable(job: Job) -> bool:
    """Whether an ended job may resume from its snapshot, as far as its attempts allow."""
    return job.state in _RESUMABLE and job.spec.restarts and job.has_snapshot


def requeue_refusal(job: Job) -> str:
    """Return why a job cannot be requeued, or an empty string."""
    if job.state in _RESUMABLE:
        if not resumable(job):
            return (
                f"the job is {job.state.value}, and no snapshot of it is known to resume from; "
                "submit it again"
            )
    elif job.state not in _ENDABLE or not job.ranks:
        return (
            f"the job is {job.state.value}; only starting, running and suspended jobs can be "
            "requeued, and jobs that failed after they saved a snapshot"
        )
    if not job.spec.restarts:
        return (
            "the job was submitted without --requeue or --snapshot-dir, so its environment "
            "was deleted; cancel the job and submit it again"
        )
    if job.attempt >= ATTEMPTS_MAX:
        return f"the job is at attempt {job.attempt} of at most {ATTEMPTS_MAX}"
    return ""


def requeue(state: State, job: Job, order: Requeue, now_ns: int) -> list[act.Action]:
    """End the attempt of a job as ordered. The job waits again after its last process ended."""
    if requeue_refusal(job):
        return []
    job.requeue, job.reason = order, f"requeueing: {order.why}"
    job.told_off_ns = now_ns if job.state is JobState.RUNNING else -1
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def requeue_requested(state: State, event: ev.JobRequeueRequested, now_ns: int) -> list[act.Action]:
    """Requeue a running job on request."""
    job = state.jobs.get(event.job_id)
    if job is None:
        return []
    if job.final:
        return _resume(state, job, event, now_ns)
    order = Requeue(
        why=event.reason or "on request",
        signal=event.signal or job.spec.snapshot_signal,
        grace_ns=event.grace_ns or job.spec.snapshot_grace_ns,
        held=event.hold,
    )
    return requeue(state, job, order, now_ns)


def _resume(state: State, job: Job, event: ev.JobRequeueRequested, now_ns: int) -> list[act.Action]:
    """Requeue a job that ended without success; it resumes from its snapshot."""
    if requeue_refusal(job):
        return []
    why = job.message or f"{job.state.value} with exit status {job.exit_code}"
    if event.reason:
        why = f"{why}; requeued: {event.reason}"
    failed, share = job.state is JobState.FAILED, max(job.saved, job.saved_share)
    back_to_queue(state, job, now_ns, why=why, lost=False, failed=failed, held=event.hold)
    job.exit_code, job.message, job.ended_ns = 0, "", -1
    job.done = job.saved = share
    state.index.reopen_job(job, state.jobs.values())
    start_conditions.review_followers(state, job, now_ns)
    return []


def restart_at(state: State, job: Job, wanted: Assignment, now_ns: int) -> list[act.Action]:
    """End the attempt of a running job, which will resume with another assignment."""
    if job.state is not JobState.RUNNING or immovable(job):
        return []
    job.advance_progress(now_ns)
    job.requeue = Requeue(
        why=restart.change_text(job, wanted),
        signal=job.spec.snapshot_signal,
        grace_ns=job.spec.snapshot_grace_ns,
    )
    job.following, job.ordered_ns = wanted, now_ns
    job.reason = f"restarting: {job.requeue.why}"
    job.resizes += 1
    state.index.place(job)
    return begin_ending(state, job, now_ns)


def resize_refusal(job: Job, size: int) -> str:
    """Return why a size cannot be ordered for a job, or an empty string."""
    spec = job.spec
    if job.final:
        return f"the job has already ended: it is {job.state.value}"
    if not job.resizable:
        return (
            f"a {spec.kind.value} job in mode {spec.mode.value} keeps the size that it starts with"
        )
    whole = spec.unit is SizeUnit.NODES
    if job.reach and job.ranks and size > len(job.reach):
        return (
            f"size {size} exceeds the {len(job.reach)} nodes that have PEs of the job: "
            f"{', '.join(job.reach)}"
        )
    if whole and not job.restarted and not job.reach and job.ranks:
        return (
            "the job uses whole nodes; their number changes only by a restart (--resize "
            "restart) or, for Charm++ programs, by a processor map (--resize map)"
        )
    if size and not spec.min_size <= size <= spec.size_max:
        return (
            f"size {size} is outside {spec.min_size}..{spec.size_max} {spec.unit.value}, "
            "the range of its submission"
        )
    return ""


def resize_requested(state: State, event: ev.JobResizeRequested, now_ns: int) -> list[act.Action]:
    """Fix the size of a job for the next plans, on request."""
    del now_ns
    job = state.jobs.get(event.job_id)
    if job is None or resize_refusal(job, event.size) or job.size_asked == event.size:
        return []
    # The planned start was for the previous size.
    job.size_asked, job.promise = event.size, None
    state.index.touch_job(job)
    state.plan_needed = "size ordered"
    return []


def suspend_requested(state: State, event: ev.JobSuspendRequested, now_ns: int) -> list[act.Action]:
    """Suspend a running job; `reconcile` suspends its processes."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.RUNNING:
        suspend(state, job, now_ns, "suspended on request")
    return []


def suspend(state: State, job: Job, now_ns: int, reason: str) -> None:
    """Suspend a running job; `reconcile` suspends its processes."""
    job.advance_progress(now_ns)
    job.state, job.suspended_ns, job.reason = JobState.SUSPENDED, now_ns, reason
    state.index.touch_job(job)
    state.index.news.append(job.job_id)
    state.plan_needed = "job suspended"


def resume_requested(state: State, event: ev.JobResumeRequested, now_ns: int) -> list[act.Action]:
    """Resume a suspended job. The suspension does not count for its time limit."""
    job = state.jobs.get(event.job_id)
    if job is not None:
        resume(state, job, now_ns)
    return []


def resume(state: State, job: Job, now_ns: int) -> None:
    """Resume a job if it is suspended."""
    if job.state is JobState.SUSPENDED:
        job.go_on(now_ns)
        job.state, job.done_at_ns, job.reason = JobState.RUNNING, now_ns, ""
        state.index.add_limit(job)
        state.index.touch_job(job)
        state.index.news.append(job.job_id)
        state.plan_needed = "job resumed"


def suspension_confirmed(
    state: State, event: reports.SuspensionConfirmed, now_ns: int
) -> list[act.Action]:
    """Record that the processes of a job on a node are suspended, or running again."""
    del now_ns
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopped, rank.stopping = event.suspended, False
    return []


def suspension_failed(
    state: State, event: reports.SuspensionFailed, now_ns: int
) -> list[act.Action]:
    """Retry a suspension or resumption with an unknown result."""
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopping, rank.retry_ns = False, now_ns + state.settings.retry_ns
        job.reason = f"{RETRYING}suspend or resume: {event.reason}"
    return []
