"""What a job is to have next, while it is restarted at another size: whether it still can.

What it is to have is nobody else's from the order on: see `restart`.
"""

from __future__ import annotations

from collections.abc import Mapping

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.attempt import ATTEMPTS_MAX
from wattfold.coordinator.core.charge import assigned_on_uw
from wattfold.coordinator.core.job import Assignment, Job, JobState
from wattfold.coordinator.core.node import Duty, Node, NodeSpec, NodeState
from wattfold.coordinator.core.state import State


def lacks(state: State, job: Job, wanted: Assignment) -> str:
    """Why a job cannot have what it was to be restarted with; empty if it can, soon at least."""
    for share in wanted.shares:
        node = state.nodes.get(share.node_id)
        if node is None or node.spec is None or not _serves(node):
            return f"node {share.node_id} is no longer available"
        if not share.cpus <= node.spec.cpus or not {*share.gpus} <= {*node.spec.gpus}:
            return (
                f"node {share.node_id} no longer has the cores or GPUs that were reserved for "
                f"job {job.job_id}"
            )
        if job.job_id in node.foreign:
            return f"a process of an earlier attempt still runs on {share.node_id}"
    return ""


def _serves(node: Node) -> bool:
    # One that is silent may be back in a moment.
    there = node.state in (NodeState.UP, NodeState.SILENT)
    return there and node.admitted and node.duty is Duty.SERVING


def firm(state: State, job: Job) -> bool:
    """Whether a job waits for nothing but its new cores: it is in no queue, and keeps them."""
    if job.state is not JobState.STARTING or job.ranks or job.target is None:
        return False
    last = job.attempts[-1] if job.attempts else None
    follows = last is not None and last.resized and last.number == job.attempt - 1
    return follows and not lacks(state, job, job.target)


def immovable(job: Job) -> str:
    """Why a running job cannot be restarted at another size now, for people; empty if it can."""
    if any(rank.end for rank in job.ranks.values()):
        return "some of its processes have ended"
    if job.attempt + job.spec.requeue_max >= ATTEMPTS_MAX:
        return f"the job keeps its size from attempt {job.attempt} of {ATTEMPTS_MAX} on"
    return ""


def kept_uw(job: Job, specs: Mapping[NodeId, NodeSpec], dram_cap_uw: int = 0) -> int:
    """Power above the floors that is kept for a job: for what it has, or what it has next."""
    both = (job.target, job.following)
    return max((assigned_on_uw(one, specs, dram_cap_uw) for one in both if one), default=0)


def restarts(job: Job, wanted: Assignment) -> bool:
    """Whether a job would have to be restarted for what a plan has for it: not for another cap."""
    return job.restarted and job.target is not None and wanted.shares != job.target.shares
