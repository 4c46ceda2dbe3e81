"""Cores of the jobs of a resource manager: what it gave them, and what the core counts.

An agent that has adopted a job reports the cores of the kernel, and can change them within the
allocation. For other jobs, the manager reports only the number of cores, so the core counts as
many free cores of the node. Counted cores carry the cap of a job; they are no promise to it.
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import valid_name
from wattfold.coordinator.core.model.job import PLACED_STATES, Job
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.resource_manager import ManagedJob
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit

_RESIZED = frozenset({ResizeMode.MASK, ResizeMode.TEAM})


def seat(state: State, node: Node) -> None:
    """Determine the cores of the manager's jobs on a node: of adopted jobs first."""
    if node.spec is None or not state.manager.name:
        return
    there = [job for job in state.on_node(node.node_id) if node.node_id in job.ranks]
    guests = [job for job in there if job.allocation is not None]
    taken = CpuSet()
    for job in there:
        if job.allocation is None:
            taken |= job.ranks[node.node_id].occupied
    for job in guests:
        node.foreign.pop(job.job_id, None)
    for held in node.foreign.values():
        taken |= held
    for job in sorted(guests, key=lambda job: job.job_id not in node.adopted):
        taken |= _seat(state, job, node, node.spec.cpus - taken)


def within_allocation(job: Job, assignment: Assignment) -> Assignment:
    """Return an assignment with the cores of the job's allocation, held cores first.

    A policy chooses the size. It does not know which cores the resource manager gave the job.
    """
    if job.allocation is None or job.target is None:
        return assignment
    shares = job.target.shares
    if job.spec.unit is SizeUnit.CORES and len(shares) == 1:
        node_id, size = shares[0].node_id, assignment.size
        given, held = job.allocation.cpus[node_id], shares[0].cpus
        if not 0 < size <= len(given):
            return assignment
        kept = held.take(min(size, len(held)))
        cpus = kept | (given - kept).take(size - len(kept))
        shares = (replace(shares[0], cpus=cpus),)
    return replace(assignment, shares=shares)


def _seat(state: State, job: Job, node: Node, free: CpuSet) -> CpuSet:
    """Set the cores of a job on a node, and return them."""
    assert job.allocation is not None, "the manager owns it"
    rank, there = job.ranks[node.node_id], node.adopted.get(job.job_id)
    before = job.allocation.cpus.get(node.node_id, CpuSet())
    if there is not None:
        given = (there.allocated or there.cpus) & free
        if not rank.adopted:
            rank.held = there.cpus & given
    else:
        count = min(job.allocation.seen.cores_each, len(free))
        stays = before <= free and len(before) == count
        given = before if stays else free.take(count)
        rank.held = given
    rank.adopted, job.allocation.cpus[node.node_id] = there is not None, given
    assign(state, job)
    return given


def assign(state: State, job: Job) -> None:
    """Give a job all cores of its allocation, or its share of them if it can be resized."""
    if job.state not in PLACED_STATES or job.allocation is None:
        return
    before, given, spec = job.target, job.allocation.cpus, job.spec
    job.spec = _resizable_spec(state, job)
    shares = []
    for node_id in job.ranks:
        cpus = given.get(node_id, CpuSet())
        if job.resizable and before is not None:
            cpus = before.on(node_id) & cpus or cpus
        if cpus:
            shares.append(Share(node_id=node_id, cpus=cpus))
    job.target = None
    if shares:
        nodes = [state.nodes[share.node_id] for share in shares]
        floor_uw = max(node.spec.package_floor_uw for node in nodes if node.spec)
        size = sum(len(share.cpus) for share in shares)
        job.target = Assignment(
            job_id=job.job_id,
            size=size,
            cap_uw=before.cap_uw if before else floor_uw,
            shares=tuple(shares),
            expected_total_s=before.expected_total_s if before else 0.0,
        )
    if (before, spec) != (job.target, job.spec):
        state.index.place(job)
        state.plan_needed = "cores of a job of the resource manager changed"


def fixed_spec(state: State, one: ManagedJob) -> JobSpec:
    """Return the submission of a job that is not resized."""
    several = len(one.nodes) > 1
    return JobSpec(
        name=one.name,
        app=one.name if valid_name(one.name) else state.manager.name,
        argv=(),
        user=one.user,
        uid=one.uid,
        queue=one.partition,
        unit=SizeUnit.UNITS if several else SizeUnit.CORES,
        unit_cores=1 if several else 0,
        size_min=max(one.cores, 1),
        size_max=max(one.cores, 1),
        mode=ResizeMode.FIXED,
        mode_source="no step of the job is adopted",
        time_ns=one.limit_ns,
        manager=state.manager.name,
    )


def _resizable_spec(state: State, job: Job) -> JobSpec:
    """Return the submission with the sizes and the mode that its agents allow."""
    assert job.allocation is not None, "the manager owns it"
    total = sum(len(cpus) for cpus in job.allocation.cpus.values())
    used = [node_id for node_id in job.ranks if job.allocation.cpus.get(node_id)]
    spec = replace(
        fixed_spec(state, job.allocation.seen),
        unit=SizeUnit.UNITS if len(used) > 1 else SizeUnit.CORES,
        unit_cores=1 if len(used) > 1 else 0,
        size_min=max(total, 1),
        size_max=max(total, 1),
    )
    adopted = [state.nodes[node_id].adopted.get(job.job_id) for node_id in used]
    known = [one for one in adopted if one is not None]
    if app := next((one.app for one in known if one.app), ""):
        spec = replace(spec, app=app)
    if len(used) != 1 or len(known) != 1:
        several = "jobs of Slurm on several nodes keep their cores"
        return replace(spec, mode_source=several) if len(used) > 1 else spec
    mode = known[0].mode
    if mode not in _RESIZED:
        return replace(spec, mode_source=f"srun --wattfold={mode.value}")
    return replace(
        spec,
        kind=JobKind.MALLEABLE,
        mode=mode,
        size_min=1,
        mode_source=f"srun --wattfold={mode.value}",
    )
