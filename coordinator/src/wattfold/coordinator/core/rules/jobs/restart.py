"""Restart of a running job at another size.

Its attempt is ended on request, with time to save. Until its last process has ended, the job keeps
its cores, caps and power. Meanwhile its next assignment (`Job.following`) is reserved. Power is
reserved for the larger of the two, because they are never drawn together. Then the next attempt
starts at once, without a round of the policy. If the assignment is no longer available, the job
waits at its old position in the queue.

A program has finished if it ended with success and saved nothing after the request to save.
"""

from __future__ import annotations

from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.attempt import Saving
from wattfold.coordinator.core.model.jobs.job_units import size_text
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.jobs.resize_cost import learn_again, learn_stall
from wattfold.coordinator.core.model.jobs.spec import ResizeMode
from wattfold.coordinator.core.rules.jobs.requeue import back_to_queue
from wattfold.coordinator.core.rules.jobs.restart_target import lacks
from wattfold.coordinator.core.state.state import State

_ENDED_BY_ITSELF = (Saving.UNASKED, Saving.UNSAVED)


def finished(job: Job) -> bool:
    """Whether a job without processes has finished its work despite the request to save.

    In doubt it has not: a program that resumes from its final snapshot ends at once. Doubt arises
    if the order may have reached the program through a process on another node, before the agent of
    its own node had received the order or examined the snapshot.
    """
    own = _own_ranks(job)
    ends = [rank.end for rank in own if rank.end]
    if not ends or any(
        end.exit_code or end.lost or end.saving not in _ENDED_BY_ITSELF for end in ends
    ):
        return False
    told = {rank.end.saving for rank in job.ranks.values() if rank.end}
    if told == {Saving.UNASKED}:
        return True
    late = len(job.ranks) > 1 and any(rank.orders > 1 for rank in own)
    unsaved = all(end.saving is Saving.UNSAVED for end in ends)
    return unsaved and not late and told <= set(_ENDED_BY_ITSELF)


def _own_ranks(job: Job) -> list[Rank]:
    """Return the ended ranks of its program; a step host has no result of its own."""
    ranks = [rank for rank in job.ranks.values() if rank.end]
    return ranks[:1] if job.spec.own_launcher else ranks


def _own_ends(job: Job) -> list[RankEnd]:
    return [rank.end for rank in _own_ranks(job) if rank.end]


def go_on(state: State, job: Job, now_ns: int) -> None:
    """Start the next attempt of a job without processes that was ended for another size."""
    following, order, ends = job.following, job.requeue, _own_ends(job)
    assert following is not None
    assert order is not None
    share = job.done if _saved(ends) else job.saved
    if job.spec.epochs:
        share = job.saved_share  # A training job reports the epochs in its snapshot.
    told, ordered_ns, done = job.told, job.ordered_ns, job.done
    ran_ns = job.ran_ns + _ran_ns(job)
    # Its processes usually share a folder, and each reports the size of the whole folder.
    moving_bytes = max((end.snapshot_bytes for end in ends), default=0)
    why = order.why + _remark(ends)
    back_to_queue(state, job, now_ns, why=why, lost=False, held=False, resized=True)
    job.done = job.saved = share
    job.owed = done if told else -1.0
    lacking = lacks(state, job, following)
    if lacking:
        job.reason = f"ended for a restart with {amount(job, following)}, but {lacking}"
        return
    job.state, job.target = JobState.STARTING, following
    job.ordered_ns, job.ran_ns, job.resized_ns = ordered_ns, ran_ns, now_ns
    job.moving_bytes = moving_bytes
    job.reason = f"restarting: {why}"
    state.index.place(job)


def _saved(ends: list[RankEnd]) -> bool:
    """Whether its work until the request to save is in its snapshot; unknown counts as no."""
    savings = {end.saving for end in ends}
    return Saving.SAVED in savings and Saving.KILLED not in savings


def _remark(ends: list[RankEnd]) -> str:
    """Return a remark for users about the snapshot."""
    savings = {end.saving for end in ends}
    if Saving.KILLED in savings:
        return (
            "; killed because it did not end within its grace time; resumes from its last snapshot"
        )
    if any(end.lost for end in ends):
        return "; lost a process; resumes from its last snapshot"
    if savings == {Saving.SAVED} or Saving.SAVED in savings or Saving.UNKNOWN in savings:
        return ""
    code = next((end.exit_code for end in ends if end.exit_code), 0)
    if not code:
        return "; it is unknown whether a snapshot was saved; resumes from the last known snapshot"
    return f"; saved no snapshot (exit status {code}); resumes from its last snapshot"


def _ran_ns(job: Job) -> int:
    end_ns = job.ordered_ns
    return max(end_ns - job.started_ns - job.paused_ns, 0) if job.started_ns >= 0 else 0


def change_text(job: Job, wanted: Assignment) -> str:
    """Return a text with the old and the new size."""
    before, unit = job.target, job.spec.unit
    if before is None or before.size == wanted.size:
        places = ", ".join(share.node_id for share in wanted.shares)
        return f"{amount(job, wanted)} on {places}"
    return f"{before.size} -> {wanted.size} {unit.value}"


def amount(job: Job, wanted: Assignment) -> str:
    """Format a size with its unit."""
    return size_text(job.spec, wanted.size)


def wait_again(state: State, job: Job, now_ns: int) -> None:
    """Requeue a job without processes whose attempt was ended by a requeue order."""
    order, told, done, since_ns = job.requeue, job.told, job.done, job.told_off_ns
    assert order is not None
    back_to_queue(state, job, now_ns, why=order.why, lost=False, held=order.held)
    job.owed = done if told else -1.0
    job.left_ns = now_ns - since_ns if since_ns >= 0 else 0


def runs_again(state: State, job: Job, now_ns: int) -> None:
    """Learn the cost of a restart once all processes of the job run.

    Time in the queue between the attempts is not part of the cost.
    """
    stall_ns = moved = -1
    if job.ordered_ns >= 0:
        stall_ns, moved = now_ns - job.ordered_ns, job.moving_bytes or -1
        job.ordered_ns, job.resized_ns, job.reason = -1, now_ns, ""
    elif job.left_ns and job.placed_ns >= 0:
        stall_ns = job.left_ns + now_ns - job.placed_ns
    if stall_ns >= 0:
        learn_stall(
            state.restarts,
            job.spec,
            ResizeMode.RESTART,
            stall_ns=stall_ns,
            took_ns=stall_ns,
            moved_bytes=moved,
        )
    job.left_ns = 0


def charged(job: Job) -> bool:
    """Whether plans may end a job that resumes from its snapshot, and have to count the cost."""
    return job.restarted or job.spec.preemptable or (job.spec.restarts and job.spec.epochs > 0)


def told_progress(state: State, job: Job, share: float, now_ns: int) -> None:
    """Record reported progress: after a restart it shows the work that was repeated."""
    job.told = True
    if job.owed < 0:
        return
    total_s = job.target.expected_total_s if job.target else 0.0
    owed, job.owed = job.owed, -1.0
    if total_s > 0 and job.started_ns >= 0:
        since_ns = now_ns - job.started_ns - job.suspended_for_ns(now_ns)
        again_ns = round((owed - share) * total_s * 1e9) + since_ns
        learn_again(state.restarts, job.spec, max(again_ns, 0))
