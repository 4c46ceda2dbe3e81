"""Reconciliation of the reported processes of a node with its ranks: adopted, ended or lost."""

from __future__ import annotations

from wattfold.contract.ids import JobId, NodeId, array_of
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.node import FORGOTTEN, Node
from wattfold.coordinator.core.rules import calendar_events
from wattfold.coordinator.core.rules.job_arrays import arrays
from wattfold.coordinator.core.rules.jobs import (
    adoption,
    job_ends,
    job_events,
    managed_jobs,
    requeue,
)
from wattfold.coordinator.core.state.state import State

_JOB_DIGITS_MAX = 12


def take_processes(
    state: State,
    node: Node,
    processes: tuple[reports.ProcessReading, ...],
    now_ns: int,
) -> list[act.Action]:
    """Update the ranks of a node from the processes that its agent reports."""
    out: list[act.Action] = []
    # Known processes first: a stray process is adopted only on cores without known processes.
    for reading in sorted(processes, key=lambda reading: _stray(state, node, reading)):
        arrays.name(state, reading.job_id, now_ns)
        job = state.jobs.get(reading.job_id)
        if job is None:
            _keep_number(state, reading.job_id)
        if job is not None and job.spec.manager and reading.running:
            continue  # It is among the adopted jobs of the node.
        if not reading.running:
            ended = reports.ProcessEnded(node_id=node.node_id, process=reading)
            out += job_ends.process_ended(state, ended, now_ns)
        elif job is None:
            node.foreign[reading.job_id] = reading.cpus
            node.message = f"runs job {reading.job_id}, which is not in this journal"
        elif adoption.another(job, reading):
            node.foreign[adoption.stranger(job.job_id)] = reading.cpus
            node.message = (
                f"runs another job {job.job_id}, with another command, of another coordinator; "
                "its cores stay reserved"
            )
        elif requeue.earlier(job, node.node_id, reading.attempt):
            out += _end_earlier(state, node, job, reading)
        elif _stray(state, node, reading):
            out += _take_stray(state, node, job, reading, now_ns)
        else:
            _adopt(job, node.node_id, reading)
            launch = reports.JobLaunched(node_id=node.node_id, job_id=job.job_id, pid=reading.pid)
            out += job_events.launched(state, launch, now_ns)
            calendar_events.confirm_run_time(state, job, reading.ran_ns, now_ns)
    there = {reading.job_id for reading in processes if _of_now(state, node, reading)}
    for job in state.on_node(node.node_id):
        if job.job_id not in there:
            out += _missing(state, job, node, now_ns)
    return out


def _of_now(state: State, node: Node, reading: reports.ProcessReading) -> bool:
    job = state.jobs.get(reading.job_id)
    another = job is not None and adoption.another(job, reading)
    return not another and not _of_earlier(state, node, reading)


def _of_earlier(state: State, node: Node, reading: reports.ProcessReading) -> bool:
    job = state.jobs.get(reading.job_id)
    return job is not None and requeue.earlier(job, node.node_id, reading.attempt)


def _end_earlier(
    state: State, node: Node, job: Job, reading: reports.ProcessReading
) -> list[act.Action]:
    """End a process of an abandoned attempt. Until it has ended, the job is not started."""
    node.foreign[job.job_id] = reading.cpus
    state.index.touch(node.node_id)
    if job.state is JobState.STARTING and not job.ranks:
        state.index.displace(job)
        job.state, job.target = JobState.PENDING, None
        job.reason = f"a process of an earlier attempt still runs on {node.node_id}"
    # Processes on a removed node are not ended before an operator resumes the node.
    if node.duty in FORGOTTEN:
        return []
    return [job_ends.end_process(state, job, node, reading.attempt)]


def _adopt(job: Job, node_id: NodeId, reading: reports.ProcessReading) -> None:
    rank = job.ranks[node_id]
    job.attempt = max(job.attempt, reading.attempt)
    rank.stopped, rank.stopping = reading.suspended, False
    rank.held, rank.moving_to, rank.signalled, rank.retry_ns = reading.cpus, None, False, 0
    rank.resident, rank.unsure = reading.resident, False
    if job.reach:
        rank.pe_map = b""  # The state of a pending map is unknown, so it is sent again.


def _keep_number(state: State, job_id: JobId) -> None:
    """Ensure that no new job gets the number of a job from another journal on a node."""
    number = array_of(job_id) or job_id
    if number.isascii() and number.isdecimal() and len(number) <= _JOB_DIGITS_MAX:
        state.submissions = max(state.submissions, int(number))


def _stray(state: State, node: Node, reading: reports.ProcessReading) -> bool:
    """Whether the core did not start a process, or has abandoned it."""
    job = state.jobs.get(reading.job_id)
    rank = job.ranks.get(node.node_id) if job else None
    return rank is None or rank.end is not None or _of_earlier(state, node, reading)


def _take_stray(
    state: State, node: Node, job: Job, reading: reports.ProcessReading, now_ns: int
) -> list[act.Action]:
    """End a process of a finished job. Adopt or keep others, which may belong to accepted jobs."""
    node.foreign[job.job_id] = reading.cpus
    ours = job.ranks or adoption.forgotten(state, job)
    if ours and (job.final or job.state is JobState.ENDING):
        # Processes on a removed node are not ended before an operator resumes the node.
        return [] if node.duty in FORGOTTEN else [job_ends.end_process(state, job, node)]
    state.index.touch(node.node_id)
    elsewhere = f"the job runs on other nodes: {', '.join(job.ranks)}"
    reason = elsewhere if job.ranks else "the process belongs to another journal"
    if adoption.unstarted(job):
        reason = adoption.adopt(state, job, now_ns)
        if not reason:
            # The agent knows more attempts than this journal, which is a backup.
            job.attempt = max(job.attempt, reading.attempt)
    if reason:
        node.message = (
            f"runs job {job.job_id}, not started by this journal ({reason}); "
            "its cores stay reserved"
        )
        if adoption.unstarted(job):
            job.reason = (
                f"not started because a process of the job already runs on {node.node_id}: {reason}"
            )
        return []
    out: list[act.Action] = []
    for rank in job.ranks.values():
        pid = reading.pid if rank.node_id == node.node_id else 0
        launch = reports.JobLaunched(node_id=rank.node_id, job_id=job.job_id, pid=pid)
        out += job_events.launched(state, launch, now_ns)
    return out


def _missing(state: State, job: Job, node: Node, now_ns: int) -> list[act.Action]:
    rank = job.ranks.get(node.node_id)
    if rank is None or rank.end is not None:
        return []
    if rank.launching:
        rank.launching = False  # The command was lost. Reconcile launches the process again.
        if job.state is JobState.ENDING:
            return job_events.launch_failed(
                state,
                reports.LaunchFailed(
                    node_id=node.node_id,
                    job_id=job.job_id,
                    reason="cancelled before it started",
                    permanent=False,
                ),
                now_ns,
            )
    elif rank.running:
        why = f"its process on {node.node_id} disappeared (was the node restarted?)"
        return job_ends.process_ended(
            state,
            reports.ProcessEnded(node_id=node.node_id, process=_lost(job, node, why)),
            now_ns,
        )
    return []


def lose_jobs(state: State, node: Node, why: str, now_ns: int) -> list[act.Action]:
    """Mark the processes on a node as lost. Return the resulting actions on other nodes."""
    out: list[act.Action] = []
    for job in state.on_node(node.node_id):
        state.index.show_job(job.job_id)
        if job.spec.manager:
            managed_jobs.leave_node(state, job, node.node_id)
            continue
        rank = job.ranks.get(node.node_id)
        if rank is not None and rank.end is None:
            out += job_ends.process_ended(
                state,
                reports.ProcessEnded(node_id=node.node_id, process=_lost(job, node, why)),
                now_ns,
            )
    return [action for action in out if getattr(action, "node_id", "") != node.node_id]


def _lost(job: Job, node: Node, why: str) -> reports.ProcessReading:
    rank = job.ranks[node.node_id]
    return reports.ProcessReading(
        job_id=job.job_id,
        running=False,
        pid=rank.pid,
        cpus=rank.held,
        lost=True,
        message=why,
        attempt=job.attempt,
    )
