"""Jobs of the site's resource manager, such as Slurm.

The manager starts, suspends and ends these jobs, so the core sends no such command for them. Their
nodes get caps by the plans, as for other jobs. An agent that has adopted a job can change its cores
within the allocation; the core then counts the cores of the kernel. For other jobs, the
manager reports only the number of cores, so the core counts as many free cores of the node.

The manager alone decides whether a job runs. If it no longer knows a job whose steps still run, the
cores of these steps stay reserved until their agent reports the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.node import FORGOTTEN, Node
from wattfold.coordinator.core.model.resource_manager import (
    Allocation,
    ManagedEnd,
    ManagedJob,
    ManagedState,
    ManagerConfigured,
    ManagerLost,
    ManagerSeen,
)
from wattfold.coordinator.core.rules.jobs import (
    allocations,
    deletion,
    run_time_predictions,
    start_conditions,
)
from wattfold.coordinator.core.state.state import State

_UNKNOWN = "no longer known to its resource manager, so its result is unknown"


def configured(state: State, event: ManagerConfigured, now_ns: int) -> list[act.Action]:
    """Serve another resource manager from now on. Jobs of the previous manager are lost."""
    if event.name != state.manager.name:
        for job in _open(state):
            _end(state, job, ManagedEnd(job_id=job.job_id, lost=True), now_ns)
        state.manager.name, state.manager.reachable = event.name, False
        state.manager.reason, state.manager.since_ns = "not contacted yet", now_ns
        state.manager.nodes = {}
    return []


def seen(state: State, event: ManagerSeen, now_ns: int) -> list[act.Action]:
    """Take over the jobs and nodes that the resource manager reports."""
    manager = state.manager
    if event.manager != manager.name:
        return []
    if not manager.reachable:
        manager.reachable, manager.reason, manager.since_ns = True, "", now_ns
    ends = list(event.ended)
    if event.complete:
        named = {one.job_id for one in event.jobs} | {end.job_id for end in ends}
        gone = [job.job_id for job in _open(state) if job.job_id not in named]
        ends += [ManagedEnd(job_id=job_id, lost=True, message=_UNKNOWN) for job_id in gone]
    for end in ends:
        job = state.index.open.get(end.job_id)
        if job is not None and job.spec.manager:
            _end(state, job, end, now_ns)
    for one in event.jobs:
        _take(state, one, now_ns)
    manager.nodes = {one.node_id: one.state for one in event.nodes}
    deletion.drop_oldest(state)
    return []


def lost(state: State, event: ManagerLost, now_ns: int) -> list[act.Action]:
    """Record that the resource manager does not answer. Its jobs keep what they have."""
    manager = state.manager
    if event.manager == manager.name and (manager.reachable or manager.reason != event.reason):
        if manager.reachable:
            manager.since_ns = now_ns
        manager.reachable, manager.reason = False, event.reason
    return []


def adopted(state: State, node: Node, there: AdoptedJob) -> None:
    """Record a job that an agent has adopted; without a known rank there, reserve its cores."""
    known = state.jobs.get(there.job_id)
    if known is not None and not known.spec.manager:
        return  # A node cannot name a job of the coordinator.
    node.adopted[there.job_id] = there
    if known is None or known.final or node.node_id not in known.ranks:
        node.foreign[there.job_id] = there.cpus


def met(state: State, node: Node, processes: tuple[reports.ProcessReading, ...]) -> None:
    """Align the jobs of the manager with a node that is in contact again."""
    for reading in processes:
        if reading.running and reading.adopted is not None:
            adopted(state, node, reading.adopted)
    for job in _open(state):
        if rank := job.ranks.get(node.node_id):
            rank.adopted, rank.moving_to, rank.retry_ns = False, None, 0
        elif job.state in PLACED_STATES:
            _add_ranks(state, job)
    allocations.seat(state, node)


def left(state: State, node: Node, job: Job, reading: reports.ProcessReading) -> None:
    """Record that the last step of a job on a node has ended. The job may begin another step."""
    node.adopted.pop(job.job_id, None)
    if node.foreign.pop(job.job_id, None) is not None:
        state.plan_needed = "steps of an ended job ended"
    rank = job.ranks.get(node.node_id)
    if rank is None:
        return
    rank.spent = _sum(rank.spent, reading)
    if rank.end is not None:
        rank.end = replace(rank.spent, exit_code=rank.end.exit_code, message=rank.end.message)
        state.index.show_job(job.job_id)
        return
    rank.adopted, rank.moving_to, rank.confined = False, None, False
    allocations.seat(state, node)


def leave_node(state: State, job: Job, node_id: NodeId) -> None:
    """Remove a node that is no longer in the ledger from a job."""
    job.ranks.pop(node_id, None)
    if job.allocation is not None:
        job.allocation.cpus.pop(node_id, None)
    allocations.assign(state, job)


def refusal(job: Job, verb: str) -> str:
    """Return why an order does not fit a job, with its owner's command; empty if it may fit."""
    if not job.spec.manager:
        return ""
    number = job.allocation.seen.label if job.allocation else job.job_id
    order = _order(verb, number)
    return f"job {job.job_id} belongs to Slurm, which alone may {verb} it; use `{order}`"


def _order(verb: str, number: str) -> str:
    if verb == "signal":
        return f"scancel --signal=NAME {number}"
    if verb == "open a shell in":
        return f"srun --jobid={number} --overlap --pty bash"
    if verb == "update":
        return f"scontrol update JobId={number} ..."
    return f"scancel {number}" if verb == "cancel" else f"scontrol {verb} {number}"


def _open(state: State) -> list[Job]:
    return [job for job in state.index.open.values() if job.spec.manager]


def _take(state: State, one: ManagedJob, now_ns: int) -> None:
    job = _of(state, one, now_ns)
    assert job.allocation is not None, "the manager owns it"
    before = job.allocation.seen
    job.allocation = Allocation(seen=one, cpus=job.allocation.cpus)
    again = before.started != one.started or not {*job.ranks} <= {*one.nodes}
    if job.state in PLACED_STATES and (one.state is ManagedState.PENDING or again):
        _stop(state, job, now_ns)
    if one.state is ManagedState.PENDING:
        job.state, job.reason = (
            JobState.WAITING,
            f"waits in Slurm: {one.reason or 'no reason given'}",
        )
        job.spec = allocations.fixed_spec(state, one)
        state.index.touch_job(job)
        return
    if job.state not in PLACED_STATES:
        job.state, job.reason = JobState.RUNNING, ""
        job.started_ns = job.placed_ns = _past_ns(state, one.started, now_ns)
        job.done_at_ns = now_ns
        job.spec = allocations.fixed_spec(state, one)
        state.index.place(job)
        state.index.news.append(job.job_id)
    _suspend(state, job, one.state is ManagedState.SUSPENDED, now_ns)
    _add_ranks(state, job)
    for node_id in list(job.ranks):
        allocations.seat(state, state.nodes[node_id])


def _of(state: State, one: ManagedJob, now_ns: int) -> Job:
    """Return the job, or a new job.

    A number is used again after the manager has lost its state, and after a requeue of an ended
    job.
    """
    before = state.jobs.get(one.job_id)
    same = before is not None and before.allocation is not None and not before.final
    if before and same and before.allocation and before.allocation.seen.submitted == one.submitted:
        return before
    job = Job(
        job_id=one.job_id,
        spec=allocations.fixed_spec(state, one),
        state=JobState.WAITING,
        submitted_ns=_past_ns(state, one.submitted, now_ns),
        done_at_ns=now_ns,
        epoch=state.epoch,
        allocation=Allocation(seen=one),
    )
    if before is not None and not before.final:
        _stop(state, before, now_ns)
    state.jobs[one.job_id] = job
    if before is None:
        state.index.add_job(job)
    elif before.final:
        state.index.reopen_job(job, state.jobs.values())
    else:
        state.index.renew_job(job)
    state.index.touch_job(job)
    return job


def _past_ns(state: State, told: str, now_ns: int) -> int:
    """Return a time that the manager tells in Unix seconds, in coordinator time until now."""
    if not (told.isascii() and told.isdecimal()):
        return now_ns
    return min(max(round((int(told) - state.origin_s) * 1e9), 0), now_ns)


def _stop(state: State, job: Job, now_ns: int) -> None:
    """Let a requeued job wait without resources."""
    job.advance_progress(now_ns)
    job.go_on(now_ns)
    _reserve_left(state, job)
    state.index.displace(job)
    job.ranks.clear()
    if job.allocation is not None:
        job.allocation.cpus.clear()
    job.state, job.target, job.started_ns, job.paused_ns = JobState.WAITING, None, -1, 0
    state.plan_needed = "job of the resource manager stopped"


def _reserve_left(state: State, job: Job) -> None:
    """Reserve the cores of steps that still run without their job."""
    for node_id in job.ranks:
        node = state.nodes.get(node_id)
        if node is not None and (there := node.adopted.get(job.job_id)):
            node.foreign[job.job_id] = there.allocated or there.cpus
            state.index.touch(node_id)


def _suspend(state: State, job: Job, wanted: bool, now_ns: int) -> None:
    if wanted is (job.state is JobState.SUSPENDED):
        return
    job.advance_progress(now_ns)
    if wanted:
        job.state, job.suspended_ns = JobState.SUSPENDED, now_ns
    else:
        job.go_on(now_ns)
        job.state, job.done_at_ns = JobState.RUNNING, now_ns
    state.index.news.append(job.job_id)
    state.index.touch_job(job)
    state.plan_needed = "job of the resource manager was suspended or resumed"


def _add_ranks(state: State, job: Job) -> None:
    """Give a running job a rank on each of its nodes that the core knows."""
    assert job.allocation is not None, "the manager owns it"
    for node_id in job.allocation.seen.nodes:
        node = state.nodes.get(node_id)
        if node is not None and node.duty not in FORGOTTEN and node_id not in job.ranks:
            job.ranks[node_id] = Rank(node_id=node_id, held=CpuSet(), running=True)
    state.index.place(job)


def _end(state: State, job: Job, end: ManagedEnd, now_ns: int) -> None:
    """End a job as its manager reports it."""
    job.advance_progress(now_ns)
    job.go_on(now_ns)
    _reserve_left(state, job)
    for rank in job.ranks.values():
        spent = rank.spent or RankEnd(exit_code=0, cpu_ns=0, energy_uj=0)
        rank.end = replace(spent, exit_code=end.exit_code, lost=end.lost)
        rank.running = rank.adopted = False
        rank.moving_to = None
    if end.lost:
        job.state = JobState.LOST
    elif end.timed_out:
        job.state = JobState.TIMED_OUT
    elif end.cancelled:
        job.state = JobState.CANCELLED
    elif end.exit_code:
        job.state = JobState.FAILED
    else:
        job.state, job.done = JobState.COMPLETED, 1.0
    job.exit_code, job.message = end.exit_code, end.message
    job.ended_ns, job.target, job.reason = now_ns, None, ""
    run_time_predictions.learn(state, job)
    state.index.end_job(job)
    state.index.news.append(job.job_id)
    state.plan_needed = "job ended"
    start_conditions.review_followers(state, job, now_ns)


def _sum(before: RankEnd | None, reading: reports.ProcessReading) -> RankEnd:
    """Add the usage of ended steps to the usage of earlier steps."""
    before = before or RankEnd(exit_code=0, cpu_ns=0, energy_uj=0)
    return replace(
        before,
        cpu_ns=before.cpu_ns + reading.cpu_ns,
        energy_uj=before.energy_uj + reading.energy_uj,
        residual_cpu_ns=before.residual_cpu_ns + reading.residual_cpu_ns,
        core_ns=before.core_ns + reading.core_ns,
        idle_energy_uj=before.idle_energy_uj + reading.idle_energy_uj,
        gpu_energy_uj=before.gpu_energy_uj + reading.gpu_energy_uj,
    )


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    ManagerSeen: seen,
    ManagerLost: lost,
}
