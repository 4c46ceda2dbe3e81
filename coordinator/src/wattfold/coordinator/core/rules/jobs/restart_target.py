"""Checks of the next assignment of a job that is restarted at another size.

From the order on, no other job gets this assignment: see `restart`.
"""

from __future__ import annotations

from collections.abc import Mapping

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.attempt import ATTEMPTS_MAX
from wattfold.coordinator.core.model.node import Duty, Node, NodeSpec, NodeState
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.core.rules.nodes.decided_sleep import waits_for_boot
from wattfold.coordinator.core.state.state import State


def lacks(state: State, job: Job, wanted: Assignment) -> str:
    """Return why a job cannot get its next assignment; empty if it can, now or soon."""
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
    # A silent node may be back in a moment.
    there = node.state in (NodeState.UP, NodeState.SILENT)
    return there and node.admitted and node.duty is Duty.SERVING and not node.fault


def firm(state: State, job: Job) -> bool:
    """Whether a job outside the queue only waits for its new cores or a boot, and keeps them."""
    if job.state is not JobState.STARTING or job.ranks or job.target is None:
        return False
    last = job.attempts[-1] if job.attempts else None
    follows = last is not None and last.resized and last.number == job.attempt - 1
    return (follows and not lacks(state, job, job.target)) or waits_for_boot(state, job)


def immovable(job: Job) -> str:
    """Return why a running job cannot be restarted at another size now, or an empty string."""
    if any(rank.end for rank in job.ranks.values()):
        return "some of its processes have ended"
    if job.attempt + job.spec.requeue_max >= ATTEMPTS_MAX:
        return f"the job keeps its size from attempt {job.attempt} of {ATTEMPTS_MAX} on"
    return ""


def kept_uw(job: Job, specs: Mapping[NodeId, NodeSpec], dram_cap_uw: int = 0) -> int:
    """Return the power above the floors reserved for a job: the maximum of both assignments."""
    both = (job.target, job.following)
    return max((assigned_on_uw(one, specs, dram_cap_uw) for one in both if one), default=0)


def restarts(job: Job, wanted: Assignment) -> bool:
    """Whether a change by a plan requires a restart of the job. A change of the cap does not."""
    return job.restarted and job.target is not None and wanted.shares != job.target.shares
