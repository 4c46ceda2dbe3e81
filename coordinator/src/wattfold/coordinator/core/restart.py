"""A job goes on at another size by being ended and started again.

Its attempt is ended by order, with time to save. Until nothing of it is alive it keeps its cores,
its caps and its watts; what it is to have next (`Job.following`) is kept free for it meanwhile, of
power the more of the two, as they are never drawn together. Then the next attempt has its target at
once, without a round of the policy in between. Where that is not to be had any more, the job waits
at its old place in the queue.

A program that has ended with success and has saved nothing since it was told to has finished.
"""

from __future__ import annotations

from wattfold.coordinator.core.attempt import Saving
from wattfold.coordinator.core.following import lacks
from wattfold.coordinator.core.job import Assignment, Job, JobState, ResizeMode
from wattfold.coordinator.core.job_units import size_text
from wattfold.coordinator.core.rank import Rank, RankEnd
from wattfold.coordinator.core.requeue import back_to_queue
from wattfold.coordinator.core.resize_cost import learn_again, learn_stall
from wattfold.coordinator.core.state import State

_ENDED_BY_ITSELF = (Saving.UNASKED, Saving.UNSAVED)


def finished(job: Job) -> bool:
    """Whether a job of which nothing is alive has done its work, though it was told to save.

    In doubt it has not: a program that resumes from its last word ends at once. So the order may
    have reached one by way of a process on another node, before the agent of the node where it
    ended looked at its snapshot, or had heard of the order at all.
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
    """Those of its program that have ended; a step host has no result of its own."""
    ranks = [rank for rank in job.ranks.values() if rank.end]
    return ranks[:1] if job.spec.own_launcher else ranks


def _own_ends(job: Job) -> list[RankEnd]:
    return [rank.end for rank in _own_ranks(job) if rank.end]


def go_on(state: State, job: Job, now_ns: int) -> None:
    """Nothing of a job is alive that was ended for another size: its next attempt is due."""
    following, order, ends = job.following, job.requeue, _own_ends(job)
    assert following is not None
    assert order is not None
    share = job.done if _saved(ends) else job.saved
    if job.spec.epochs:
        share = job.saved_share  # It tells what its snapshot holds.
    told, ordered_ns, done = job.told, job.ordered_ns, job.done
    ran_ns = job.ran_ns + _ran_ns(job)
    # One folder for all of its processes, as a rule; each tells of all that it sees there.
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
    """Whether what it did until it was told to save is in its snapshot; not known counts as no."""
    savings = {end.saving for end in ends}
    return Saving.SAVED in savings and Saving.KILLED not in savings


def _remark(ends: list[RankEnd]) -> str:
    """What people should know of how it has saved."""
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
    """From which size to which, for people."""
    before, unit = job.target, job.spec.unit
    if before is None or before.size == wanted.size:
        places = ", ".join(share.node_id for share in wanted.shares)
        return f"{amount(job, wanted)} on {places}"
    return f"{before.size} -> {wanted.size} {unit.value}"


def amount(job: Job, wanted: Assignment) -> str:
    """A size with its unit."""
    return size_text(job.spec, wanted.size)


def wait_again(state: State, job: Job, now_ns: int) -> None:
    """Nothing of a job is alive that was ended to be put back into the queue: it waits again."""
    order, told, done, since_ns = job.requeue, job.told, job.done, job.told_off_ns
    assert order is not None
    back_to_queue(state, job, now_ns, why=order.why, lost=False, held=order.held)
    job.owed = done if told else -1.0
    job.left_ns = now_ns - since_ns if since_ns >= 0 else 0


def runs_again(state: State, job: Job, now_ns: int) -> None:
    """All processes of a job run: what it has cost to get there, if it was ended by order.

    What a job waited in the queue in between is no cost of being restarted.
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
    """Whether plans may end a job that goes on from its snapshot, and so have to count the cost."""
    return job.restarted or job.spec.preemptable or (job.spec.restarts and job.spec.epochs > 0)


def told_progress(state: State, job: Job, share: float, now_ns: int) -> None:
    """Its program tells how far it is: after a restart, what it had to do again."""
    job.told = True
    if job.owed < 0:
        return
    total_s = job.target.expected_total_s if job.target else 0.0
    owed, job.owed = job.owed, -1.0
    if total_s > 0 and job.started_ns >= 0:
        since_ns = now_ns - job.started_ns - job.suspended_for_ns(now_ns)
        again_ns = round((owed - share) * total_s * 1e9) + since_ns
        learn_again(state.restarts, job.spec, max(again_ns, 0))
