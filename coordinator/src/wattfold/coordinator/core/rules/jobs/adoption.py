"""Adoption of running processes whose jobs wait in the core; they are never ended.

Such a job was started once, or its process would not exist. Its start is missing because the end of
the journal was lost, or because another version replayed the journal differently. Until all of the
job was seen, its processes are ``foreign`` processes of their nodes, with reserved cores.
"""

from __future__ import annotations

from wattfold.contract.command_digest import command_digest
from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.job_units import counted, misshapen
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.reports import ProcessReading
from wattfold.coordinator.core.state.blocked import note_lack
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit

UNSTARTED = (JobState.HELD, JobState.WAITING, JobState.PENDING)


def unstarted(job: Job) -> bool:
    """Whether the core knows no process of an open job."""
    return not job.ranks and (job.state in UNSTARTED or job.state is JobState.STARTING)


def forgotten(state: State, job: Job) -> bool:
    """Whether the start of a job may be missing, because of a restart since its submission.

    Otherwise a process with its name belongs to another job, from another journal.
    """
    return job.epoch < state.epoch


def another(job: Job, reading: ProcessReading) -> bool:
    """Whether a process with the name of a job belongs to a job of another coordinator."""
    spec = job.spec
    return reading.command_digest not in ("", command_digest(spec.argv, spec.cwd, spec.user))


def stranger(job_id: JobId) -> JobId:
    """Return the name, among foreign processes, of a process that has the number of another job.

    No job has this name, so the job with that number does not affect the process.
    """
    return JobId(f"{job_id} (of another coordinator)")


def astray(state: State, job_id: JobId) -> list[Node]:
    """Return the nodes that run a process of a job which is not one of its ranks."""
    return [node for node in state.nodes.values() if job_id in node.foreign]


def adopt(state: State, job: Job, now_ns: int) -> str:
    """Assign the found processes to an unstarted job. Return why this fails, or an empty string.

    The job gets the floor as cap, which takes no power from other jobs. The next plan chooses its
    cap.
    """
    if not forgotten(state, job):
        return "the process is older than the job, so it belongs to another journal"
    found = astray(state, job.job_id)
    shares = tuple(
        Share(
            node_id=node.node_id,
            cpus=node.foreign[job.job_id],
            memory_bytes=job.spec.amounts_on(len(node.foreign[job.job_id])).memory_bytes,
        )
        for node in found
    )
    reason = _misfit(state, job, shares)
    if reason:
        return reason
    floors_uw = [node.spec.package_floor_uw for node in found if node.spec]
    job.target = Assignment(
        job_id=job.job_id,
        size=counted(job.spec, shares),
        cap_uw=max(floors_uw, default=0),
        shares=shares,
    )
    for node in found:
        held = node.foreign.pop(job.job_id)
        job.ranks[node.node_id] = Rank(
            node_id=node.node_id,
            held=held,
            memory_bytes=job.spec.amounts_on(len(held)).memory_bytes,
        )
        note_lack(state, node)
    job.state, job.reason = JobState.STARTING, ""
    job.done_at_ns = now_ns
    state.index.place(job)
    return ""


def adopt_ended(state: State, job: Job, node: Node) -> bool:
    """Adopt an ended process as the end of its job; False if the job may have more processes."""
    if _processes(job.spec) != 1 or astray(state, job.job_id) not in ([], [node]):
        return False
    job.ranks[node.node_id] = Rank(node_id=node.node_id, held=CpuSet(), launching=True)
    job.state = JobState.STARTING
    state.index.place(job)
    return True


def _processes(spec: JobSpec) -> int:
    """Return the number of nodes with a process of a job; 0 = unknown before its start."""
    if spec.unit is SizeUnit.CORES or spec.spread is Spread.TOGETHER:
        return 1
    if spec.unit is SizeUnit.UNITS and spec.spread is Spread.ANY and spec.size_max > 1:
        return 0
    return spec.size_min if spec.size_min == spec.size_max else 0


def _misfit(state: State, job: Job, shares: tuple[Share, ...]) -> str:
    spec, wanted = job.spec, _processes(job.spec)
    if spec.gpus:
        return "its GPUs are unknown"
    if spec.unit is SizeUnit.UNITS:
        # If all units are there, all processes were found.
        if spec.size_min != spec.size_max:
            return f"its number of units, {spec.size_min} to {spec.size_max}, is unknown"
        if reason := misshapen(spec, spec.size_min, shares):
            return reason
        wanted = len(shares)
    if not wanted:
        return (
            f"its nodes are unknown: it may run on {job.spec.size_min} to {job.spec.size_max} nodes"
        )
    if wanted > 1 and job.spec.own_launcher:
        return "it is unknown which of its processes is the launcher"
    if len(shares) != wanted:
        return f"it was found on {len(shares)} of its {wanted} nodes"
    for share in shares:
        reason = _misplaced(state, job, share)
        if reason:
            return reason
    size = len(shares[0].cpus)
    least, most = job.spec.min_size, job.spec.size_max
    if job.spec.unit is SizeUnit.CORES and not least <= size <= most:
        return f"it runs on {size} cores but requested {least} to {most}"
    return ""


def _misplaced(state: State, job: Job, share: Share) -> str:
    spec = state.nodes[share.node_id].spec
    if spec is None or not share.cpus or not share.cpus <= spec.cpus:
        return f"its cores {share.cpus} are not all part of node {share.node_id}"
    others = [other for other in state.on_node(share.node_id) if share.node_id in other.ranks]
    alone = any(other.spec.alone for other in (job, *others))
    taken = state.occupied(share.node_id, but=job.job_id)
    if taken and (alone or not taken.isdisjoint(share.cpus)):
        return f"its cores {share.cpus} on {share.node_id} conflict with the cores in use, {taken}"
    return ""
