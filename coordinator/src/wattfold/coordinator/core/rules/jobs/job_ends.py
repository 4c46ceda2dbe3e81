"""Ends of jobs: on request, by the end of a rank, or abandoned; and the resulting actions."""

from __future__ import annotations

from dataclasses import replace

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Ender, Job, JobState
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.rules.jobs import (
    adoption,
    managed_jobs,
    requeue,
    restart,
    run_time_predictions,
    start_conditions,
    training_events,
)
from wattfold.coordinator.core.state.state import State


def end_at_limit(state: State, job: Job, now_ns: int) -> list[act.Action]:
    """End a running job at its time limit."""
    job.ended_by = Ender.TIME_LIMIT
    job.reason = f"ended at its time limit of {job.spec.limit_ns / 1e9:g} s"
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def begin_ending(state: State, job: Job, now_ns: int) -> list[act.Action]:
    """End the processes of a job. A process that waits for another start counts as ended.

    The answer to its first start may have been lost, so a command to end it is sent all the same.
    """
    if job.spec.manager:
        return []  # Only its resource manager ends it.
    job.state = JobState.ENDING
    job.go_on(now_ns)
    state.index.touch_job(job)
    state.index.news.append(job.job_id)
    out: list[act.Action] = []
    for rank in job.ranks.values():
        rank.retry_ns = 0  # The retry time of a mask change must not delay the end.
        if not (rank.launching or rank.running or rank.end):
            rank.end = RankEnd(exit_code=127, cpu_ns=0, energy_uj=0, message="never started")
            out += end_rank(state, job, rank)
    if all(rank.end for rank in job.ranks.values()):
        finish(state, job, now_ns)
    return out


def give_up(state: State, job: Job, now_ns: int) -> None:
    """Mark processes on unreachable nodes as lost. Their resources stay blocked."""
    for rank in job.ranks.values():
        node = state.nodes[rank.node_id]
        if rank.end is not None or node.reachable:
            continue
        node.foreign[job.job_id] = rank.occupied
        why = f"given up by a forced cancel while node {rank.node_id} was unreachable"
        rank.end = RankEnd(exit_code=0, cpu_ns=0, energy_uj=0, lost=True, message=why)
        rank.launching = rank.running = False
        rank.moving_to = None
        state.index.touch(rank.node_id)
    if all(rank.end for rank in job.ranks.values()):
        finish(state, job, now_ns)


def end_rank(state: State, job: Job, rank: Rank) -> list[act.Action]:
    """End the process of a rank, if its node is reachable."""
    node = state.nodes[rank.node_id]
    return [end_process(state, job, node)] if node.reachable else []


def end_process(state: State, job: Job, node: Node, attempt: int | None = None) -> act.Action:
    """End the process of a job on a node, whether or not the core knows the process."""
    return act.Terminate(
        node_id=node.node_id,
        job_id=job.job_id,
        attempt=job.attempt if attempt is None else attempt,
        request_id=state.next_request(),
        cause=job.job_id,
    )


def process_ended(state: State, event: reports.ProcessEnded, now_ns: int) -> list[act.Action]:
    """Record the end of a process, once, and let the agent delete it."""
    reading = event.process
    forget: list[act.Action] = [
        act.ForgetProcess(
            node_id=event.node_id,
            job_id=reading.job_id,
            request_id=state.next_request(),
            cause=reading.job_id,
            attempt=reading.attempt,
        ),
    ]
    job = state.jobs.get(reading.job_id)
    if job is not None and job.spec.manager:
        managed_jobs.left(state, state.nodes[event.node_id], job, reading)
        return forget
    state.nodes[event.node_id].adopted.pop(reading.job_id, None)
    if job is not None and adoption.another(job, reading):
        stranger = adoption.stranger(reading.job_id)
        if state.nodes[event.node_id].foreign.pop(stranger, None) is not None:
            state.plan_needed = "process of another coordinator ended"
        return forget
    if job is not None and requeue.earlier(job, event.node_id, reading.attempt):
        if state.nodes[event.node_id].foreign.pop(reading.job_id, None) is not None:
            state.plan_needed = "process of an earlier attempt ended"
        return forget
    rank = job.ranks.get(event.node_id) if job else None
    if job is not None and adoption.unstarted(job) and adoption.forgotten(state, job):
        rank = _unseen(state, job, event)
    if state.nodes[event.node_id].foreign.pop(reading.job_id, None) is not None and job is None:
        state.plan_needed = "process unknown to the journal ended"
    if job is None or rank is None or rank.end is not None:
        return forget
    rank.launching = rank.running = rank.stopped = rank.stopping = False
    rank.moving_to = None
    rank.pid = reading.pid
    if job.started_ns < 0:
        job.started_ns = now_ns  # The process ended before its start was reported.
    end = RankEnd(
        exit_code=reading.exit_code,
        cpu_ns=reading.cpu_ns,
        energy_uj=reading.energy_uj,
        lost=reading.lost,
        message=reading.message,
        residual_cpu_ns=reading.residual_cpu_ns,
        core_ns=reading.core_ns,
        idle_energy_uj=reading.idle_energy_uj,
        saving=reading.saving,
        snapshot_bytes=reading.snapshot_bytes,
        gpu_energy_uj=reading.gpu_energy_uj,
    )
    rank.end = judged(job, rank, end)
    if reading.epochs_saved >= 0:
        training_events.epochs_left(state, job, reading, now_ns)
    if job.requeue is not None and job.spec.own_launcher and rank is next(iter(job.ranks.values())):
        # The launcher has saved and ended: its step hosts need not wait for their grace time.
        for other in job.ranks.values():
            other.signalled = False
    return forget + one_ended(state, job, now_ns)


def _unseen(state: State, job: Job, event: reports.ProcessEnded) -> Rank | None:
    """Handle the end of an unknown process of a waiting job.

    If it was the only process of the job, the job has ended. Otherwise the job is held, because a
    second run would be worse than a late run.
    """
    if adoption.adopt_ended(state, job, state.nodes[event.node_id]):
        return job.ranks[event.node_id]
    end = event.process
    told = "lost" if end.lost else f"exit status {end.exit_code}"
    job.state, job.target, job.promise = JobState.HELD, None, None
    job.reason = (
        f"a process that this journal did not start ended on {event.node_id} ({told}); "
        "release the job to run it again, or cancel it"
    )
    state.index.displace(job)
    state.plan_needed = "job held"
    return None


def judged(job: Job, rank: Rank, end: RankEnd) -> RankEnd:
    """Return the end of a step host as it counts for the job.

    A step host has no result of its own. If it ends with the job, its result is ignored. If it ends
    by itself before the launcher, it has failed. If it was lost or killed, it is the reason for the
    failure of a launcher that ended first.
    """
    first = next(iter(job.ranks.values()))
    if not job.spec.own_launcher or rank is first:
        return end
    told = f": {end.message}" if end.message else ""
    what = "residual processes" if rank.resident else "step host"
    failed = first.end is not None and first.end.exit_code and job.ended_by is Ender.NOBODY
    if failed and (end.lost or end.exit_code) and not rank.signalled:
        message = f"its launcher failed because the {what} on {rank.node_id} failed{told}"
        return replace(end, exit_code=0, message=message)
    if first.end is not None or rank.signalled or job.state is JobState.ENDING:
        return replace(end, exit_code=0, lost=False, message="")
    message = f"the {what} on {rank.node_id} ended before the launcher{told}"
    return replace(end, exit_code=end.exit_code or 1, message=message)


def one_ended(state: State, job: Job, now_ns: int) -> list[act.Action]:
    """End the job after its last process, and its other processes after a failure."""
    job.advance_progress(now_ns)
    ends = [rank.end for rank in job.ranks.values()]
    if all(ends):
        finish(state, job, now_ns)
    elif any(end and (end.exit_code or end.lost) for end in ends) or (
        # The launcher has ended, so its steps have ended, too.
        job.spec.own_launcher and ends[0] is not None
    ):
        return begin_ending(state, job, now_ns)
    return []


def finish(state: State, job: Job, now_ns: int) -> None:
    """Finish or requeue a job after the end of its last process."""
    job.go_on(now_ns)
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    if job.spec.own_launcher:
        # If a launcher was ended because a step host failed, the step host is the cause.
        ends = [*ends[1:], *ends[:1]]
    failed = next((end for end in ends if end.exit_code), None)
    lost = next((end for end in ends if end.lost), None)
    if job.ended_by is Ender.NOBODY and _requeued(state, job, lost, failed, now_ns):
        return
    if job.ended_by is Ender.USER:
        job.state = JobState.CANCELLED
    elif job.ended_by is Ender.TIME_LIMIT:
        job.state = JobState.TIMED_OUT
        job.message = f"time limit of {job.spec.limit_ns / 1e9:g} s reached"
    elif job.ended_by is Ender.RESERVATION:
        job.state, job.message = JobState.CANCELLED, job.reason
    elif lost:
        job.state, job.message = JobState.LOST, lost.message or "its process disappeared"
    elif failed:
        told = next(filter(None, [failed.message, *(end.message for end in ends)]), "")
        if job.spec.requeue_on_failure and requeue.stuck(job):
            why = f"not requeued: no epoch was saved since attempt {job.attempts[-1].number} failed"
            told = "; ".join(filter(None, [told, why]))
        job.state, job.message = JobState.FAILED, told
    else:
        job.state, job.done = JobState.COMPLETED, 1.0
    job.exit_code = failed.exit_code if failed else 0
    job.ended_ns, job.target, job.reason, job.requeue = now_ns, None, "", None
    job.following, job.ordered_ns = None, -1
    run_time_predictions.learn(state, job)
    state.index.end_job(job)
    state.index.news.append(job.job_id)
    state.plan_needed = "job ended"
    start_conditions.review_followers(state, job, now_ns)


def _requeued(
    state: State, job: Job, lost: RankEnd | None, failed: RankEnd | None, now_ns: int
) -> bool:
    """Requeue or restart a job without processes, if its submission allows it; False if it ends."""
    if job.following is not None:
        if restart.finished(job):
            return False
        restart.go_on(state, job, now_ns)
    elif job.requeue is not None:
        restart.wait_again(state, job, now_ns)
    elif lost is not None and requeue.attempts_left(job):
        why = lost.message or "its process disappeared"
        requeue.back_to_queue(state, job, now_ns, why=why, lost=True, held=False)
    elif failed is not None and lost is None and requeue.follows_failure(job):
        why = failed.message or f"failed with exit status {failed.exit_code}"
        requeue.back_to_queue(state, job, now_ns, why=why, lost=False, failed=True, held=False)
    else:
        return False
    return True
