"""Processes that nodes run of jobs the core has as waiting: adopted where that fits, never ended.

Such a job was started once, or its process would not be there: what started it was forgotten with
the end of a journal, or was decided otherwise when another version replayed it. A process waits
among the ``foreign`` ones of its node, whose cores nobody gets, until all of its job was seen.
"""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.coordinator.core.blocked import note_lack
from wattfold.coordinator.core.job import Assignment, Job, JobSpec, JobState, Share, SizeUnit
from wattfold.coordinator.core.job_units import counted, misshapen
from wattfold.coordinator.core.node import Node
from wattfold.coordinator.core.rank import Rank
from wattfold.coordinator.core.spread import Spread
from wattfold.coordinator.core.state import State

WAITING = (JobState.HELD, JobState.PENDING)


def unstarted(job: Job) -> bool:
    """Whether the core knows of no process of a job that has not ended."""
    return not job.ranks and (job.state in WAITING or job.state is JobState.STARTING)


def forgotten(state: State, job: Job) -> bool:
    """Whether its start can have been forgotten: with a restart since its submission.

    If not, a process under its name is another job's, of another journal.
    """
    return job.epoch < state.epoch


def astray(state: State, job_id: JobId) -> list[Node]:
    """Nodes that run a process of a job which it does not have as its own."""
    return [node for node in state.nodes.values() if job_id in node.foreign]


def adopt(state: State, job: Job, now_ns: int) -> str:
    """Gives an unstarted job the processes found of it; why not, where it does not fit them.

    Its cap is the floor, which takes no power from anybody; the next plan chooses another one.
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
    """The same for a job that had one process, which has ended; False where it may have more."""
    if _processes(job.spec) != 1 or astray(state, job.job_id) not in ([], [node]):
        return False
    job.ranks[node.node_id] = Rank(node_id=node.node_id, held=CpuSet(), launching=True)
    job.state = JobState.STARTING
    state.index.place(job)
    return True


def _processes(spec: JobSpec) -> int:
    """How many nodes it has a process on, 0 = not known before it is started."""
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
        # All of its units tell that all of its processes were found.
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
    least, most = job.spec.least_size, job.spec.size_max
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
