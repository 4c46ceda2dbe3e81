"""How jobs end: told to, by a rank that has ended, given up; and what is left to be done for it."""

from __future__ import annotations

from dataclasses import replace

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import (
    adoption,
    foresight,
    reports,
    requeue,
    restart,
    training_events,
)
from wattfold.coordinator.core.job import Ender, Job, JobState
from wattfold.coordinator.core.node import Node
from wattfold.coordinator.core.rank import Rank, RankEnd
from wattfold.coordinator.core.reconcile import next_request
from wattfold.coordinator.core.state import State


def end_at_limit(state: State, job: Job, now_ns: int) -> list[act.Action]:
    """A running job has had its time: it is ended as by its user."""
    job.ended_by = Ender.TIME_LIMIT
    job.reason = f"ended at its time limit of {job.spec.limit_ns / 1e9:g} s"
    job.advance_progress(now_ns)
    return begin_ending(state, job, now_ns)


def begin_ending(state: State, job: Job, now_ns: int) -> list[act.Action]:
    """Its processes are to end; a process that waits for another try to start has ended.

    The answer to a first try may have been lost, hence the command to end it all the same.
    """
    job.state = JobState.ENDING
    job.go_on(now_ns)
    state.index.touch_job(job)
    state.index.news.append(job.job_id)
    out: list[act.Action] = []
    for rank in job.ranks.values():
        rank.retry_ns = 0  # That a mask is to be tried again is no reason to wait.
        if not (rank.launching or rank.running or rank.end):
            rank.end = RankEnd(exit_code=127, cpu_ns=0, energy_uj=0, message="never started")
            out += end_rank(state, job, rank)
    if all(rank.end for rank in job.ranks.values()):
        finish(state, job, now_ns)
    return out


def give_up(state: State, job: Job, now_ns: int) -> None:
    """Its processes on nodes out of reach count as lost; what they hold there stays blocked."""
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
    """Ends the process of a rank, if its node can be told."""
    node = state.nodes[rank.node_id]
    return [end_process(state, job, node)] if node.reachable else []


def end_process(state: State, job: Job, node: Node, attempt: int | None = None) -> act.Action:
    """Ends the process of a job on a node, whatever the core knows of it."""
    return act.Terminate(
        node_id=node.node_id,
        job_id=job.job_id,
        attempt=job.attempt if attempt is None else attempt,
        request_id=next_request(state),
        cause=job.job_id,
    )


def process_ended(state: State, event: reports.ProcessEnded, now_ns: int) -> list[act.Action]:
    """Takes the end of a process in, once, and lets the agent forget it."""
    reading = event.process
    forget: list[act.Action] = [
        act.ForgetProcess(
            node_id=event.node_id,
            job_id=reading.job_id,
            request_id=next_request(state),
            cause=reading.job_id,
            attempt=reading.attempt,
        ),
    ]
    job = state.jobs.get(reading.job_id)
    if job is not None and requeue.earlier(job, event.node_id, reading.attempt):
        if state.nodes[event.node_id].foreign.pop(reading.job_id, None) is not None:
            state.plan_needed = "process of an earlier attempt ended"
        return forget
    rank = job.ranks.get(event.node_id) if job else None
    if job is not None and adoption.unstarted(job) and adoption.forgotten(state, job):
        rank = _unseen(state, job, event)
    state.nodes[event.node_id].foreign.pop(reading.job_id, None)
    if job is None or rank is None or rank.end is not None:
        return forget
    rank.launching = rank.running = rank.stopped = rank.stopping = False
    rank.moving_to = None
    rank.pid = reading.pid
    if job.started_ns < 0:
        job.started_ns = now_ns  # It ended before its start was heard of.
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
    """What has become of a waiting job of which a process ran all the same, and has ended.

    Where that was all of it, so has the job. Else it is held: run twice would be worse than late.
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
    """The end of a step host as it counts for the job.

    It has no result of its own. Ended because the job does, it says nothing, whatever it says;
    before the launcher and by itself, it has failed. Lost or killed, it is why a launcher failed
    that noticed first.
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
    """Ends the job when its last process has, and its other processes when one failed."""
    job.advance_progress(now_ns)
    ends = [rank.end for rank in job.ranks.values()]
    if all(ends):
        finish(state, job, now_ns)
    elif any(end and (end.exit_code or end.lost) for end in ends) or (
        # A launcher has ended: so have the steps it has started.
        job.spec.own_launcher and ends[0] is not None
    ):
        return begin_ending(state, job, now_ns)
    return []


def finish(state: State, job: Job, now_ns: int) -> None:
    """Nothing of it is alive any more: it is over, or waits again."""
    job.go_on(now_ns)
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    if job.spec.own_launcher:
        # A launcher that was ended because a step host had failed is not what went wrong.
        ends = [*ends[1:], *ends[:1]]
    failed = next((end for end in ends if end.exit_code), None)
    lost = next((end for end in ends if end.lost), None)
    if job.ended_by is Ender.NOBODY and _requeued(state, job, lost, now_ns):
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
        told = [failed.message, *(end.message for end in ends)]
        job.state, job.message = JobState.FAILED, next(filter(None, told), "")
    else:
        job.state, job.done = JobState.COMPLETED, 1.0
    job.exit_code = failed.exit_code if failed else 0
    job.ended_ns, job.target, job.reason, job.requeue = now_ns, None, "", None
    job.following, job.ordered_ns = None, -1
    foresight.learn(state, job)
    state.index.end_job(job)
    state.index.news.append(job.job_id)
    state.plan_needed = "job ended"


def _requeued(state: State, job: Job, lost: RankEnd | None, now_ns: int) -> bool:
    """Whether a job of which nothing is alive any more waits again instead of being over."""
    if job.following is not None:
        if restart.finished(job):
            return False
        restart.go_on(state, job, now_ns)
    elif job.requeue is not None:
        restart.wait_again(state, job, now_ns)
    elif lost is not None and requeue.follows_loss(job):
        why = lost.message or "its process disappeared"
        requeue.back_to_queue(state, job, now_ns, why=why, lost=True, held=False)
    else:
        return False
    return True
