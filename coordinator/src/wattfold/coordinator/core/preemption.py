"""Plans that put running jobs back into the queue: which may be, and what it comes to.

A job is pre-empted only where it was submitted for that, and only for a job of a queue that
pre-empts its own. It does not start again before that one has: else the two would take turns.

A training job goes on from its snapshot, and is pre-empted for nobody in particular as well: a
policy that weighs all of them has it go on elsewhere, or later.
"""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core.attempt import Requeue
from wattfold.coordinator.core.attempt_events import requeue, requeue_refusal
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.plan import NOBODY, Preemption
from wattfold.coordinator.core.state import State


def victim_refusal(job: Job) -> str:
    """Why a job cannot be pre-empted for anybody, for people; empty if it can."""
    if not job.spec.preemptable:
        return "the job was submitted without --preemptable"
    if job.state not in (JobState.STARTING, JobState.RUNNING):
        return f"the job is {job.state.value}"
    return requeue_refusal(job)


def refusal(state: State, one: Preemption) -> str:
    """Why a job cannot be pre-empted for another one, for people; empty if it can."""
    job, waits = state.index.open.get(one.job_id), state.index.open.get(one.for_job)
    if job is None:
        return "the job has ended"
    if one.for_job == NOBODY:
        return (
            victim_refusal(job) if job.spec.epochs else "the job is not a training job (--epochs)"
        )
    if waits is None or not _waits(waits):
        return f"job {one.for_job} no longer waits"
    queue = state.queues.get(waits.spec.queue)
    if queue is None or job.spec.queue not in queue.preempts:
        return f"queue {waits.spec.queue!r} does not preempt queue {job.spec.queue!r}"
    return victim_refusal(job)


def carry_out(state: State, preemptions: Iterable[Preemption], now_ns: int) -> list[act.Action]:
    """Ends the attempts of the jobs of an accepted plan, with their time for a snapshot."""
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
    """A job starts: those that were pre-empted for it may, too."""
    job.yields_to = NOBODY
    if job.preempts:
        job.preempts, state.plan_needed = False, "preempting job started"


def yields(state: State, job: Job) -> bool:
    """Whether the job it was pre-empted for still waits."""
    return bool(job.yields_to) and _waits(state.index.open.get(job.yields_to))


def clearing(state: State, placed: Iterable[Job]) -> tuple[JobId, ...]:
    """Jobs that wait and for which others of those that hold something are on their way out."""
    found = {
        job.yields_to: None
        for job in placed
        if job.state is JobState.ENDING and job.requeue is not None and yields(state, job)
    }
    return tuple(found)


def _waits(job: Job | None) -> bool:
    return job is not None and job.state is JobState.PENDING
