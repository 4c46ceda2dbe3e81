"""What there is to say of nodes that drain, leave or are outside the sum, and of jobs there."""

from __future__ import annotations

import logging

from wattfold.contract.log_text import line
from wattfold.coordinator.core import leave
from wattfold.coordinator.core.blocked import free_amounts
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.node import Duty, Node, NodeSpec
from wattfold.coordinator.core.outside import draw_uw, outside
from wattfold.coordinator.core.reservation_events import without_right
from wattfold.coordinator.core.state import State
from wattfold.v1 import coordinator_pb2 as pb

log = logging.getLogger("wattfold.coordinator")

DUTIES: dict[Duty, pb.NodeDuty] = {duty: getattr(pb, f"NODE_DUTY_{duty.name}") for duty in Duty}


def add_duty(message: pb.Node, state: State, node: Node) -> None:
    """The orders an operator has given about a node, and what it draws outside the ledger."""
    message.duty = DUTIES[node.duty]
    message.duty_reason = node.duty_reason
    message.outside_uw = draw_uw(node)
    if node.duty in (Duty.LEAVING, Duty.RESTORING) and node.admitted:
        message.waits_for = leave.obstacle(state, node)


def add_amounts(message: pb.Node, state: State, node: Node, spec: NodeSpec) -> None:
    """Memory, GPUs and features of a node, and what of them no job has."""
    message.memory_bytes, message.memory_mechanism = spec.memory_bytes, spec.memory_mechanism
    message.gpus.extend(spec.gpus)
    message.gpu_model, message.gpu_access = spec.gpu_model, spec.gpu_access
    message.features.extend(node.all_features)
    if node.takes_jobs:
        free = free_amounts(state, node, spec)
        message.free_memory_bytes = free.memory_bytes
        message.free_gpus.extend(free.gpus)


def add_reservations(message: pb.Node, state: State, node: Node) -> None:
    """What the node is kept for, the first to begin first, and who is there all the same."""
    found = [one for one in state.reservations.values() if node.node_id in one.nodes]
    for one in sorted(found, key=lambda one: one.start_ns):
        message.reservations.append(f"{one}: {one.reason}" if one.reason else str(one))
    for one in found:
        there = without_right(state, one) if one.name in state.begun else ()
        message.overstaying_job_ids.extend(job.job_id for job in there if node.node_id in job.ranks)


def add_outside(message: pb.Power, state: State) -> None:
    """What may be drawn beside the ledger."""
    found = outside(state)
    message.outside_uw, message.outside_accepted_uw = found.drawn_uw, found.accepted_uw
    message.over_uw = found.over_uw
    message.outside_node_ids.extend(found.nodes)
    message.unheard_node_ids.extend(found.unheard)


def outside_statements(state: State) -> list[str]:
    """What jobs cannot have because nodes outside the sum may draw it, for people."""
    found = outside(state)
    if not found.counted_uw:
        return []
    return [
        f"{found.counted_uw / 1e6:.1f} W are reserved for nodes outside the ledger "
        f"({', '.join(found.nodes[:5])}); see `wattfold power`."
    ]


def start_statements(job: Job, now_ns: int) -> list[str]:
    """When a job that waits is expected to start, for people."""
    if job.state is not JobState.PENDING or not job.expected_start_ns:
        return []
    left_s = max(job.expected_start_ns - now_ns, 0) / 1e9
    if job.start_promised:
        return [
            f"Start planned in {left_s:.0f} s; earlier if other jobs end early; later only "
            "if they exceed their estimates or if nodes or power are lost."
        ]
    return [f"Expected to start in {left_s:.0f} s if earlier jobs end as estimated."]


def attempt_statements(job: Job) -> list[str]:
    """What there is to say of the starts of a job, for people."""
    said = [f"Attempt {before.number} ended: {before.why}." for before in job.attempts]
    unit = job.spec.unit.value
    if job.following is not None or (job.ordered_ns >= 0 and job.target is not None):
        said.append(
            "It is being restarted at another size. Its current resources stay assigned "
            "until all of its processes have ended, and its next resources are reserved."
        )
    if job.size_asked and not job.final:
        said.append(
            f"Its size was set to {job.size_asked} {unit}; `wattfold resize {job.job_id} "
            "auto` lets the policy choose again."
        )
    losses = sum(before.lost for before in job.attempts)
    if job.spec.requeue_max and not job.final:
        left = job.spec.requeue_max - losses
        said.append(
            f"Attempt {job.attempt}; Wattfold restarts the job up to {left} more "
            f"time{'s' * (left != 1)} after the loss of a node."
        )
    return said


def ending_reason(state: State, job: Job) -> str:
    """Why a job that is to end has not, and what would end it; empty if it is on its way."""
    if job.state is not JobState.ENDING:
        return ""
    away = [
        rank.node_id
        for rank in job.ranks.values()
        if rank.end is None and not state.nodes[rank.node_id].reachable
    ]
    if not away:
        return ""
    why = state.nodes[away[0]].message or "no answer"
    return (
        f"waits for {', '.join(away)}: {why}. The job ends when the node answers again. "
        f"`wattfold cancel --force {job.job_id}` gives up its processes there; `wattfold "
        f"node forget --no-power {away[0]}` removes a node that is off"
    )


class OutsideLog:
    """One line when the power drawn outside the sum takes it over the budget, and one when not."""

    def __init__(self) -> None:
        self._over_uw = 0

    def look(self, state: State) -> None:
        """Called after every batch of events."""
        ledger = state.ledger
        if ledger.committed_uw + ledger.outside_uw <= ledger.budget_uw and not self._over_uw:
            return
        found = outside(state)
        if found.over_uw > self._over_uw:
            advice = (
                "nodes outside the ledger draw power; switch them off, raise the budget, or "
                "accept their power (wattfold budget set WATTS --accept-outside)"
            )
            told = line(
                "over_budget",
                over_w=f"{found.over_uw / 1e6:.1f}",
                budget_w=f"{ledger.budget_uw / 1e6:.1f}",
                committed_w=f"{ledger.committed_uw / 1e6:.1f}",
                outside_w=f"{found.counted_uw / 1e6:.1f}",
                nodes=",".join(found.nodes),
                advice=advice,
            )
            log.error(told)
        elif not found.over_uw:
            log.warning(line("over_budget_ended", budget_w=f"{ledger.budget_uw / 1e6:.1f}"))
        self._over_uw = found.over_uw
