"""Preemption: which running jobs a plan may requeue, and how.

A job is preempted only if it was submitted as preemptable, and only for a job of a queue that
preempts its own. It does not restart before that job has started: otherwise they would alternate.

A training job resumes from its snapshot. It may also be preempted without a beneficiary, if a
policy moves it to other GPUs or to a later time.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Requeue
from wattfold.coordinator.core.model.plan import NOBODY, Preemption
from wattfold.coordinator.core.rules.jobs.attempt_events import requeue, requeue_refusal
from wattfold.coordinator.core.state.state import State


def victim_refusal(job: Job) -> str:
    """Return why a job cannot be preempted at all, or an empty string."""
    if not job.spec.preemptable:
        return "the job was submitted without --preemptable"
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        return f"the job is {job.state.value}"
    return requeue_refusal(job)


def refusal(state: State, preemption: Preemption) -> str:
    """Return why a job cannot be preempted for another job, or an empty string."""
    job, waits = state.index.open.get(preemption.job_id), state.index.open.get(preemption.for_job)
    if job is None:
        return "the job has ended"
    if preemption.for_job == NOBODY:
        return (
            victim_refusal(job) if job.spec.epochs else "the job is not a training job (--epochs)"
        )
    if waits is None or not _waits(waits):
        return f"job {preemption.for_job} no longer waits"
    queue = state.queues.get(waits.spec.queue)
    if queue is None or job.spec.queue not in queue.preempts:
        return f"queue {waits.spec.queue!r} does not preempt queue {job.spec.queue!r}"
    return victim_refusal(job)


def carry_out(state: State, preemptions: Iterable[Preemption], now_ns: int) -> list[act.Action]:
    """End the attempts of the preempted jobs of an accepted plan, with time for a snapshot."""
    out: list[act.Action] = []
    for one in preemptions:
        job, waits = state.index.open.get(one.job_id), state.index.open.get(one.for_job)
        if job is None or victim_refusal(job):
            continue
        if waits is not None:
            job.yields_to, waits.preempts = one.for_job, True
        elif one.for_job != NOBODY:
            continue
        order = Requeue(
            why=one.reason,
            signal=job.spec.snapshot_signal,
            grace_ns=one.grace_ns or job.spec.snapshot_grace_ns,
        )
        out += requeue(state, job, order, now_ns)
    return out


def started(state: State, job: Job) -> None:
    """Let the jobs that were preempted for a job start once it has started."""
    job.yields_to = NOBODY
    if job.preempts:
        job.preempts, state.plan_needed = False, "preempting job started"


def yields(state: State, job: Job) -> bool:
    """Whether the job for which it was preempted still waits."""
    return bool(job.yields_to) and _waits(state.index.open.get(job.yields_to))


def clearing(state: State, placed: Iterable[Job]) -> tuple[JobId, ...]:
    """Return waiting jobs for which preempted jobs are still ending."""
    found = {
        job.yields_to: None
        for job in placed
        if job.state is JobState.ENDING and job.requeue is not None and yields(state, job)
    }
    return tuple(found)


def _waits(job: Job | None) -> bool:
    return job is not None and job.state is JobState.PENDING
