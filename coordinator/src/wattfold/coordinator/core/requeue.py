"""Back to the queue: a job whose attempt has ended waits again, at its old place.

An attempt is over when nothing of it is alive, as a job is, or when an operator has given its node
up. What such a node still runs is known by the number of its attempt: it is ended once the node is
heard of, and until then no process of the job is started.
"""

from __future__ import annotations

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX, Attempt
from wattfold.coordinator.core.job import Ender, Job, JobState
from wattfold.coordinator.core.state import State


def follows_loss(job: Job) -> bool:
    """Whether a job that has lost a process is started once more."""
    losses = sum(attempt.lost for attempt in job.attempts)
    return losses < job.spec.requeue_max and job.attempt < ATTEMPTS_MAX


def earlier(job: Job, node_id: NodeId, attempt: int) -> bool:
    """Whether a process on a node is of an attempt before the present one.

    Agents of an earlier version do not tell the attempt (0): theirs is of the present one where no
    attempt before it was on that node.
    """
    if attempt:
        return attempt < job.attempt
    return any(node_id in before.nodes for before in job.attempts)


def back_to_queue(
    state: State,
    job: Job,
    now_ns: int,
    *,
    why: str,
    lost: bool,
    held: bool,
    resized: bool = False,
) -> None:
    """Closes the attempt of a job of which nothing is alive any more; the job waits again."""
    job.attempts = (*job.attempts, _closed(job, now_ns, why, lost=lost, resized=resized))
    number, job.attempt = job.attempt, job.attempt + 1
    state.index.displace(job)
    job.ranks.clear()
    job.target, job.following, job.requeue, job.ended_by = None, None, None, Ender.NOBODY
    job.state = JobState.HELD if held else JobState.PENDING
    job.reason, job.expected_start_ns = f"attempt {number} ended: {why}", 0
    job.promise = None
    job.started_ns = job.resized_ns = job.over_since_ns = job.wanted_ns = -1
    job.suspended_ns, job.paused_ns = -1, 0
    job.ordered_ns, job.ran_ns, job.told, job.owed = -1, 0, False, -1.0
    job.told_off_ns, job.left_ns, job.placed_ns = -1, 0, -1
    job.epochs_timed = job.epoch_mean_ns = 0
    job.done = job.saved = job.saved_share
    job.done_at_ns, job.wanted, job.reach = now_ns, 0, ()
    state.index.news.append(job.job_id)
    state.plan_needed = "job requeued"


def _closed(job: Job, now_ns: int, why: str, *, lost: bool, resized: bool) -> Attempt:
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    return Attempt(
        number=job.attempt,
        nodes=tuple(job.ranks),
        started_ns=job.started_ns,
        ended_ns=now_ns,
        why=why,
        lost=lost,
        resized=resized,
        cpu_ns=sum(end.cpu_ns for end in ends),
        core_ns=sum(end.core_ns for end in ends),
        energy_uj=sum(end.energy_uj for end in ends),
        idle_energy_uj=sum(end.idle_energy_uj for end in ends),
        residual_cpu_ns=sum(end.residual_cpu_ns for end in ends),
        gpu_energy_uj=sum(end.gpu_energy_uj for end in ends),
    )
