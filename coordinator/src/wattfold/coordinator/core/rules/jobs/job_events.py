"""Events about jobs, except their ends, as changes of the state."""

from __future__ import annotations

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import HELD, RETRYING, Ender, Job, JobState
from wattfold.coordinator.core.model.jobs.attempt import Requeue
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.jobs.resize_cost import learn_stall
from wattfold.coordinator.core.model.jobs.spec import MAPPED
from wattfold.coordinator.core.model.jobs.speeds import with_speed
from wattfold.coordinator.core.rules.job_arrays import arrays
from wattfold.coordinator.core.rules.jobs import (
    adoption,
    deletion,
    job_ends,
    requeue,
    restart,
    run_time_predictions,
    start_conditions,
)
from wattfold.coordinator.core.rules.nodes import reach
from wattfold.coordinator.core.state.state import State

OfRank = (
    reports.JobLaunched
    | reports.LaunchFailed
    | reports.MaskConfirmed
    | reports.MaskFailed
    | reports.SuspensionConfirmed
    | reports.SuspensionFailed
    | reports.TerminateFailed
)
"""Answers to commands about the process of a job on a node."""


def submitted(state: State, event: ev.JobSubmitted, now_ns: int) -> list[act.Action]:
    """Add a job to the queue."""
    job_state = JobState.HELD if event.held else JobState.PENDING
    for one in event.conditions.after:
        arrays.name(state, one.job_id, now_ns)
    state.jobs[event.job_id] = job = Job(
        job_id=event.job_id,
        spec=event.spec,
        state=job_state,
        submitted_ns=now_ns,
        done_at_ns=now_ns,
        reason=HELD if event.held else start_conditions.NOT_PLANNED,
        epoch=state.epoch,
        conditions=event.conditions,
        known=run_time_predictions.known(state, event.spec),
    )
    state.index.add_job(job)
    start_conditions.submitted(state, job, now_ns)
    keep_number(state, event)
    if job.state is JobState.PENDING:
        state.plan_needed = "job submitted"
    deletion.drop_oldest(state)
    return []


def keep_number(state: State, event: ev.JobSubmitted | ev.ArraySubmitted) -> None:
    """Record the number and the idempotency key of a submission.

    An earlier submission of the same call may have been withdrawn, so the number may be higher than
    the next.
    """
    number = int(event.job_id) if event.job_id.isascii() and event.job_id.isdecimal() else 0
    state.submissions = max(state.submissions + 1, number)
    if event.key:
        state.keys[event.key] = event.job_id
        state.index.key_of[event.job_id] = event.key
        state.key_prints[event.key] = event.fingerprint


def cancel_requested(state: State, event: ev.JobCancelRequested, now_ns: int) -> list[act.Action]:
    """End a waiting job at once; end the processes of a placed job."""
    job = state.jobs.get(event.job_id)
    if job is None or job.final:
        return []
    job.ended_by = Ender.USER
    if job.requeue is not None:
        _end_for_good(state, job)
    job.advance_progress(now_ns)
    if not job.ranks:
        ours = adoption.forgotten(state, job)
        strays = adoption.astray(state, job.job_id) if ours else []
        job_ends.finish(state, job, now_ns)
        return [job_ends.end_process(state, job, node) for node in strays if node.reachable]
    out = job_ends.begin_ending(state, job, now_ns)
    if event.force and not job.final:
        job_ends.give_up(state, job, now_ns)
    return out


def _end_for_good(state: State, job: Job) -> None:
    """Drop the requeue order of a job, and the time for its snapshot."""
    job.requeue = None
    if job.following is not None:
        job.following = None
        state.index.place(job)
    for rank in job.ranks.values():
        rank.signalled = False


def terminate_failed(state: State, event: reports.TerminateFailed, now_ns: int) -> list[act.Action]:
    """Retry a termination with an unknown result until the process has ended."""
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.end is None:
        rank.signalled, rank.retry_ns = False, now_ns + state.settings.retry_ns
        return []
    # The process no longer belongs to a rank. If it does not exist, its end will be reported.
    known, node = state.jobs.get(event.job_id), state.nodes.get(event.node_id)
    if known is None or node is None or not node.reachable or event.refused:
        return []
    return [job_ends.end_process(state, known, node, event.attempt)]


def held(state: State, event: ev.JobHeld, now_ns: int) -> list[act.Action]:
    """Hold a waiting job. Other jobs do not change."""
    del now_ns
    job = state.jobs.get(event.job_id)
    if job is not None and job.state in (JobState.PENDING, JobState.WAITING):
        job.state, job.reason = JobState.HELD, HELD
        job.expected_start_ns, job.promise = 0, None
        state.plan_needed = "job held"
    return []


def released(state: State, event: ev.JobReleased, now_ns: int) -> list[act.Action]:
    """Return a held job to the queue. It still waits for the conditions of its start."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.HELD:
        job.state, job.reason = JobState.PENDING, "released"
        state.plan_needed = "job released"
        start_conditions.review(state, job, now_ns)
    return []


def launched(state: State, event: reports.JobLaunched, now_ns: int) -> list[act.Action]:
    """Record a running process. The job runs when all its processes do."""
    job, rank = rank_of(state, event)
    known = state.jobs.get(event.job_id)
    if known is not None and 0 < event.attempt < known.attempt:
        # It was abandoned with its node, before its start was reported.
        node = state.nodes[event.node_id]
        return [job_ends.end_process(state, known, node, event.attempt)] if node.reachable else []
    if job is None or rank is None:
        return []
    if rank.end is not None:
        # It was abandoned meanwhile. If it has ended by itself, there is nothing to end.
        return job_ends.end_rank(state, job, rank) if not rank.running and not rank.pid else []
    rank.launching, rank.running, rank.pid = False, True, event.pid
    state.index.touch(event.node_id)
    if job.state is JobState.ENDING:
        rank.signalled = False  # A signal sent before the process existed had no effect.
    _all_running(state, job, now_ns)
    return []


def _all_running(state: State, job: Job, now_ns: int) -> None:
    if job.state is JobState.STARTING and all(r.running or r.end for r in job.ranks.values()):
        job.state = JobState.RUNNING
        state.index.news.append(job.job_id)
        job.started_ns = now_ns
        job.done_at_ns = now_ns
        job.unconfirmed = False
        restart.runs_again(state, job, now_ns)
        state.index.add_limit(job)
        # During the start its size and GPU levels were fixed. Now it may make room for a waiting
        # job.
        yields = job.resizable or any(rank.gpus for rank in job.ranks.values())
        if yields and _anyone_waits(state):
            state.plan_needed = "job running"


def _anyone_waits(state: State) -> bool:
    return any(job.state is JobState.PENDING for job in state.index.open.values())


def launch_failed(state: State, event: reports.LaunchFailed, now_ns: int) -> list[act.Action]:
    """Fail the job after a permanent launch failure; otherwise retry the launch.

    A job that a node could not start because of a fault of the node waits for another node.
    """
    node = state.nodes.get(event.node_id)
    if event.node_fault and node is not None:
        requeue.close_node(state, node, event.reason)
    job, rank = rank_of(state, event)
    if job is None or rank is None or rank.running or rank.end:
        return []
    rank.launching = False
    if event.permanent or job.state is JobState.ENDING:
        end = RankEnd(exit_code=127, cpu_ns=0, energy_uj=0, message=event.reason)
        rank.end = job_ends.judged(job, rank, end)
        unsure = [] if event.permanent else job_ends.end_rank(state, job, rank)
        return unsure + job_ends.one_ended(state, job, now_ns)
    if event.node_fault:
        return _refused_by_node(state, job, rank, event.reason, now_ns)
    rank.retry_ns = now_ns + state.settings.retry_ns
    job.reason = f"{RETRYING}start: {event.reason}"
    return []


def _refused_by_node(
    state: State, job: Job, rank: Rank, reason: str, now_ns: int
) -> list[act.Action]:
    """Requeue a job whose process a node could not start.

    Processes on its other nodes are ended first, by the number of the attempt. Their agents then
    refuse this number, so the next start has another number. The attempt does not count as lost.
    """
    why = f"node {rank.node_id} cannot start jobs: {reason}"
    if not any(other.launching or other.running or other.end for other in job.ranks.values()):
        requeue.unplaced(state, job, why)
        return []
    job.requeue = Requeue(why=why)
    rank.end = RankEnd(exit_code=0, cpu_ns=0, energy_uj=0, message="never started")
    return job_ends.begin_ending(state, job, now_ns)


def mask_confirmed(state: State, event: reports.MaskConfirmed, now_ns: int) -> list[act.Action]:
    """Record that a job runs on exactly these cores of a node.

    Extra cores are cores that the job has not left. It keeps them, and the mask is sent again.
    """
    job, rank = rank_of(state, event)
    if job is None or rank is None or rank.end is not None:
        return []
    asked = event.cpus if rank.moving_to is None else rank.moving_to
    kept = (event.cpus & rank.occupied) - asked
    job.reason = ""
    if kept:
        rank.retry_ns = now_ns + state.settings.retry_ns
        job.reason = f"its threads have not left CPUs {kept} of {rank.node_id}"
    rank.held, rank.moving_to, rank.confined = asked | kept, None, event.confined
    _learn_cost(state, job, event)
    if job.reach:
        reach.confirmed(
            state,
            job,
            rank,
            resident=event.resident,
            pe_map=event.processor_map,
            applied=event.map_applied,
            now_ns=now_ns,
        )
    return []


def _learn_cost(state: State, job: Job, event: reports.MaskConfirmed) -> None:
    """Learn the cost of a resize. After a change of cores alone, the program keeps working."""
    if event.took_ns <= 0 or (job.spec.mode in MAPPED and event.stalled_ns < 0):
        return
    learn_stall(
        state.restarts,
        job.spec,
        stall_ns=max(event.stalled_ns, 0),
        took_ns=event.took_ns,
        moved_bytes=event.moved_bytes,
    )


def mask_failed(state: State, event: reports.MaskFailed, now_ns: int) -> list[act.Action]:
    """Mark both the old and the new cores as held, because the result is unknown."""
    job, rank = rank_of(state, event)
    if job is not None and rank is not None and rank.moving_to is not None:
        rank.held, rank.moving_to = rank.held | rank.moving_to, None
        rank.retry_ns = now_ns + state.settings.retry_ns
        job.reason = f"{RETRYING}resize: {event.reason}"
        if job.reach:
            reach.failed(state, job, rank)
    return []


def progress_reported(state: State, event: ev.ProgressReported, now_ns: int) -> list[act.Action]:
    """Replace the share integrated from the model by the progress that the program reports."""
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.RUNNING:
        job.count_cap(now_ns)
        job.done, job.done_at_ns = min(max(event.done, 0.0), 1.0), now_ns
        restart.told_progress(state, job, job.done, now_ns)
        job.over_since_ns = -1
    return []


def speed_measured(state: State, event: ev.SpeedMeasured, now_ns: int) -> list[act.Action]:
    """Store a measured speed, which may determine the serial share of the job."""
    del now_ns
    job = state.jobs.get(event.job_id)
    if job is not None and job.state is JobState.RUNNING and event.speed.attempt == job.attempt:
        job.speeds = with_speed(job.speeds, event.speed)
    return []


def size_wanted(state: State, event: ev.SizeWanted, now_ns: int) -> list[act.Action]:
    """Record the core request of a program, which changes the maximum size of its job."""
    job = state.jobs.get(event.job_id)
    if job is None or job.state is not JobState.RUNNING or event.size < 0:
        return []
    before = job.spec.max_size(job.wanted)
    job.wanted, job.wanted_ns = event.size, now_ns
    if job.spec.max_size(job.wanted) != before:
        state.plan_needed = "size requested"
    return []


def rank_of(state: State, event: OfRank) -> tuple[Job | None, Rank | None]:
    """Return the job and rank that an event is about; None for another attempt."""
    job = state.jobs.get(event.job_id)
    if job is None or (event.attempt and event.attempt != job.attempt):
        return None, None
    return job, job.ranks.get(event.node_id)
