"""How requests to requeue, suspend and resume a job change the state.

`requeue` is what a request of a person and, in time, a plan with pre-emptions both come to.
"""

from __future__ import annotations

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports, restart
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX, Requeue
from wattfold.coordinator.core.following import immovable
from wattfold.coordinator.core.job import RETRYING, Assignment, Job, JobState, SizeUnit
from wattfold.coordinator.core.job_ends import begin_ending
from wattfold.coordinator.core.job_events import rank_of
from wattfold.coordinator.core.state import State

_ENDABLE = (JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)


def requeue_refusal(job: Job) -> str:
    """Why a job cannot be put back into the queue, for people; empty if it can."""
    if job.state not in _ENDABLE or not job.ranks:
        return (
            f"the job is {job.state.value}; only starting, running and suspended jobs can be "
            "requeued"
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
    """Ends the attempt of a job as ordered; the job waits again once nothing of it is alive."""
    if requeue_refusal(job):
        return []
    job.requeue, job.reason = order, f"requeueing: {order.why}"
    job.told_off_ns = now_ns if job.state is JobState.RUNNING else -1
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


def restart_at(state: State, job: Job, wanted: Assignment, now_ns: int) -> list[act.Action]:
    """Ends the attempt of a running job, which goes on with what an accepted plan has for it."""
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
    """Why a job cannot be ordered to have a size, for people; empty if it can."""
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
    if size and not spec.least_size <= size <= spec.size_max:
        return (
            f"size {size} is outside {spec.least_size}..{spec.size_max} {spec.unit.value}, "
            "the range of its submission"
        )
    return ""


def resize_requested(state: State, event: ev.JobResizeRequested, now_ns: int) -> list[act.Action]:
    """Somebody wants a job at one size: the next plans keep to it."""
    del now_ns
    job = state.jobs.get(event.job_id)
    if job is None or resize_refusal(job, event.size) or job.size_asked == event.size:
        return []
    # What was promised was for the size before.
    job.size_asked, job.promise = event.size, None
    state.index.touch_job(job)
    state.plan_needed = "size ordered"
    return []


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
    state: State, event: reports.SuspensionConfirmed, now_ns: int
) -> list[act.Action]:
    """The processes of a job on a node are stopped, or go on."""
    del now_ns
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopped, rank.stopping = event.suspended, False
    return []


def suspension_failed(
    state: State, event: reports.SuspensionFailed, now_ns: int
) -> list[act.Action]:
    """Whether they are stopped is not known: asked again until it is."""
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.stopping, rank.retry_ns = False, now_ns + state.settings.retry_ns
        job.reason = f"{RETRYING}suspend or resume: {event.reason}"
    return []
