"""Requeueing: a job whose attempt has ended waits again, at its old position in the queue.

An attempt is over when all of its processes have ended, or when an operator has given up its node.
A process that still runs on such a node is identified by the number of its attempt. It is ended
once the node answers. Until then no process of the job is started.
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.job import ATTEMPT_ENDED, Ender, Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import ATTEMPTS_MAX, Attempt
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.state.state import State


def attempts_left(job: Job) -> int:
    """Return how many more attempts may follow lost and failed attempts."""
    used = sum(attempt.lost or attempt.failed for attempt in job.attempts)
    return max(min(job.spec.requeue_max - used, ATTEMPTS_MAX - job.attempt), 0)


def follows_failure(job: Job) -> bool:
    """Whether a job whose program failed is started again."""
    return job.spec.requeue_on_failure and attempts_left(job) > 0 and not stuck(job)


def stuck(job: Job) -> bool:
    """Whether a training job saved no epoch between two failures, so that it will fail again."""
    last = job.attempts[-1] if job.attempts else None
    if last is None or not last.failed or not job.spec.epochs:
        return False
    return job.epochs_saved <= last.epochs_saved


def earlier(job: Job, node_id: NodeId, attempt: int) -> bool:
    """Whether a process on a node belongs to an attempt before the current attempt.

    Agents of an earlier version report no attempt (0). Their process belongs to the current attempt
    unless an earlier attempt was on that node.
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
    failed: bool = False,
    resized: bool = False,
) -> None:
    """Close the attempt of a job without processes, and requeue the job."""
    closed = _closed(job, now_ns, why)
    job.attempts = (*job.attempts, replace(closed, lost=lost, failed=failed, resized=resized))
    number, job.attempt = job.attempt, job.attempt + 1
    state.index.displace(job)
    job.ranks.clear()
    job.target, job.following, job.requeue, job.ended_by = None, None, None, Ender.NOBODY
    job.state = JobState.HELD if held else JobState.PENDING
    job.reason, job.expected_start_ns = f"{ATTEMPT_ENDED}{number} ended: {why}", 0
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


def unplaced(state: State, job: Job, why: str) -> None:
    """Requeue a job that was to start and has no process; its attempt is not used up."""
    state.index.displace(job)
    job.ranks.clear()
    job.state, job.target, job.reach = JobState.PENDING, None, ()
    job.reason, job.expected_start_ns, job.promise = why, 0, None
    job.ordered_ns = job.placed_ns = -1
    state.index.news.append(job.job_id)


def close_node(state: State, node: Node, fault: str) -> None:
    """Close a node to new jobs because it cannot start processes."""
    node.fault = node.fault or fault
    state.index.touch(node.node_id)
    state.plan_needed = "node cannot start jobs"
    for job in state.on_node(node.node_id):
        if job.state is JobState.STARTING and not job.ranks:
            unplaced(state, job, f"node {node.node_id} {node.closed}")


def _closed(job: Job, now_ns: int, why: str) -> Attempt:
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    return Attempt(
        number=job.attempt,
        nodes=tuple(job.ranks),
        started_ns=job.started_ns,
        ended_ns=job.ended_ns if job.final else now_ns,
        why=why,
        epochs_saved=job.epochs_saved,
        cpu_ns=sum(end.cpu_ns for end in ends),
        core_ns=sum(end.core_ns for end in ends),
        energy_uj=sum(end.energy_uj for end in ends),
        idle_energy_uj=sum(end.idle_energy_uj for end in ends),
        residual_cpu_ns=sum(end.residual_cpu_ns for end in ends),
        gpu_energy_uj=sum(end.gpu_energy_uj for end in ends),
    )
