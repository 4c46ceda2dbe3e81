"""Orders of operators about nodes (drain, resume, leave, forget) and the result of a leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.node import (
    FORGOTTEN,
    GIVEN_BACK,
    IN_SERVICE,
    Duty,
    Node,
    NodeState,
)
from wattfold.coordinator.core.model.node_power import PowerOrder
from wattfold.coordinator.core.power.charge import node_fixed_uw
from wattfold.coordinator.core.rules.jobs import found_processes, job_ends, requeue
from wattfold.coordinator.core.rules.nodes import leave, sleep
from wattfold.coordinator.core.rules.power import admission, budget_events, cap_events
from wattfold.coordinator.core.state.state import State

_POWER = {
    NodeOrder.SLEEP: PowerOrder.SLEEP,
    NodeOrder.WAKE: PowerOrder.WAKE,
    NodeOrder.DECIDE: PowerOrder.NONE,
}
_FORGET = (NodeOrder.FORGET_UNPOWERED, NodeOrder.FORGET_OUTSIDE)


def refusal(node: Node, order: NodeOrder) -> str:
    """Return why an order does not apply to a node in its current state, or an empty string."""
    resume = f"`wattfold node resume {node.node_id}` returns it to service"
    if order is NodeOrder.DRAIN and node.duty not in IN_SERVICE:
        return f"the node is {_where(node)} and has no jobs to drain; {resume}"
    if order is NodeOrder.LEAVE and node.duty in FORGOTTEN:
        return f"it is {_where(node)}; {resume}"
    if order is NodeOrder.LEAVE and not node.admitted:
        return "the node is outside the ledger, so it has no charged power to release"
    if order is NodeOrder.FORGET_UNPOWERED and node.reachable:
        out = node.duty is Duty.LEFT
        return "the node answers, so it has power: " + (
            "switch it off, or declare its power to be outside this budget (--outside-budget)"
            if out
            else "release it first with `wattfold node leave`"
        )
    if order is NodeOrder.FORGET_OUTSIDE:
        return _not_out(node)
    return sleep.refusal(node, order)


def announced_conflict(state: State, node: Node, order: NodeOrder) -> str:
    """Return which announced budget an order would make impossible, or an empty string.

    The power of a node that was declared as outside the budget is not part of the minimum of an
    announced budget. After a resume it is. A leave has its own check, when it is carried out.
    """
    if order is not NodeOrder.RESUME or node.duty is not Duty.OUTSIDE or node.spec is None:
        return ""
    own_uw = node_fixed_uw(node, node.spec, state.settings.dram_cap_uw)
    need_uw = budget_events.minimum_uw(state) + own_uw
    for ahead in state.announced:
        if ahead.budget_uw < need_uw:
            return (
                f"announced budget {ahead.number} of {ahead.budget_uw / 1e6:.1f} W could not be "
                f"kept: with this node, the nodes need at least {need_uw / 1e6:.1f} W. Resume it "
                "once a higher budget is in force, or after "
                f"`wattfold budget cancel {ahead.number}`"
            )
    return ""


def _where(node: Node) -> str:
    return "removed from the ledger" if node.duty in FORGOTTEN else f"released ({node.duty.value})"


def _not_out(node: Node) -> str:
    """Return why the power of a node cannot be declared as outside the budget."""
    if node.duty is Duty.LEFT or node.duty is Duty.OUTSIDE:
        return ""
    if node.reachable:
        return "the node answers and has not left; release it first with `wattfold node leave`"
    if node.state is NodeState.SILENT:
        return (
            "its lease may still be valid; wait until the node is down, or use --no-power "
            "if it has no power"
        )
    return ""


def ordered(state: State, event: ev.NodeOrdered, now_ns: int) -> list[act.Action]:
    """Apply an order. An order that no longer applies is dropped; its sender saw the state."""
    node = state.nodes.get(event.node_id)
    if node is None or refusal(node, event.order):
        return []
    if announced_conflict(state, node, event.order):
        return []
    if event.order in _POWER:
        node.power_order = _POWER[event.order]
        if event.order is not NodeOrder.DECIDE:
            sleep.ordered(state, node, event.order)
        node.boot_failed = node.boot_failed and event.order is NodeOrder.SLEEP
        state.plan_needed = f"node {event.order.value}"
        if event.order is NodeOrder.SLEEP:
            _put_back(state, node)
        return []
    node.duty_reason = event.reason
    state.plan_needed = f"node {event.order.value}"
    if event.order is NodeOrder.RESUME:
        return _resume(state, node, now_ns)
    if event.order in _FORGET:
        return _forget(state, node, event, now_ns)
    duty = Duty.DRAINING if event.order is NodeOrder.DRAIN else Duty.LEAVING
    if node.duty not in GIVEN_BACK:
        leave.set_duty(state, node, duty)
        _put_back(state, node)
    return []


def spare_kept(state: State, event: ev.SpareNodesKept, now_ns: int) -> list[act.Action]:
    """Keep a number of nodes without a job awake."""
    del now_ns
    state.keep_awake, state.plan_needed = event.nodes, "nodes kept awake"
    return []


def _put_back(state: State, node: Node) -> None:
    """Requeue jobs on a node that have not been launched yet."""
    for job in state.on_node(node.node_id):
        if job.state is JobState.STARTING and not job.ranks:
            requeue.unplaced(state, job, f"node {node.node_id} {node.closed}")


def _resume(state: State, node: Node, now_ns: int) -> list[act.Action]:
    """Return a node to service. A removed node is admitted like a new node, when it fits."""
    forgotten = node.duty in FORGOTTEN
    leave.set_duty(state, node, Duty.SERVING)
    if not forgotten:
        # A renewal returns a released node to service and reads its caps.
        node.lease_next_ns = now_ns
        return []
    node.state, node.message = NodeState.CONNECTING, ""
    admission.admit(state, node)
    return _end_strays(state, node) if node.reachable else []


def _end_strays(state: State, node: Node) -> list[act.Action]:
    """End foreign processes of known jobs that ended or left the node; others keep their cores."""
    ended = []
    for job_id in node.foreign:
        job = state.jobs.get(job_id)
        if job is None or job.spec.manager:
            continue
        if job.final or node.node_id not in job.ranks:
            ended.append(job_ends.end_process(state, job, node, attempt=0))
    return ended


def _forget(state: State, node: Node, event: ev.NodeOrdered, now_ns: int) -> list[act.Action]:
    """Remove a node from the ledger by an operator's order; its processes are lost."""
    unpowered = event.order is NodeOrder.FORGET_UNPOWERED
    account = state.ledger.accounts.get(node.node_id)
    # First, so that jobs that lose an attempt here do not restart on this node.
    node.duty = Duty.UNPOWERED if unpowered else Duty.OUTSIDE
    _put_back(state, node)
    why = (
        f"its node {node.node_id} was removed from the ledger: {event.reason or 'no reason given'}"
    )
    out = found_processes.lose_jobs(state, node, why, now_ns)
    if unpowered:
        node.read_uw = {}
        node.foreign.clear()
    elif account is not None:
        node.read_uw = {name: zone.charge_uw for name, zone in account.zones.items()}
    state.ledger.close(node.node_id)
    sleep.forgotten(state, node)
    node.admitted = node.leased = False
    node.unleased = node.unleased and not unpowered
    node.caps_request = node.lease_request = ""
    node.dead_zones.clear()
    node.state = NodeState.REFUSED if node.reachable else NodeState.DOWN
    node.message = ""
    state.index.set_fixed(node.node_id, 0)
    state.index.unadmitted[node.node_id] = node
    leave.set_duty(state, node, node.duty)
    return out


def leave_answered(state: State, event: reports.LeaveAnswered, now_ns: int) -> list[act.Action]:
    """Record that the node has left, or which zones did not restore their limits."""
    node = state.nodes[event.node_id]
    if event.request_id != node.caps_request:
        return []
    node.caps_request = ""
    cap_events.read_left(state, node, event.caps, now_ns)
    if node.duty is not Duty.RESTORING:
        return []
    failed = [f"{reading.zone}: {reading.error}" for reading in event.caps if reading.error]
    node.message = (
        f"some original limits could not be restored: {'; '.join(failed)}" if failed else ""
    )
    if failed:
        node.caps_retry_ns = now_ns + state.settings.retry_ns
    else:
        leave.set_duty(state, node, Duty.LEFT)
    return []


def leave_failed(state: State, event: reports.LeaveFailed, now_ns: int) -> list[act.Action]:
    """Retry later. Limits that may have been restored stay charged until a later reading."""
    node = state.nodes[event.node_id]
    if event.request_id != node.caps_request:
        return []
    node.caps_request = ""
    node.caps_retry_ns = now_ns + state.settings.retry_ns
    node.message = f"the node has not left yet: {event.reason}"
    state.ledger.lose(node.node_id, cap_events.seen_by_ns(state, now_ns))
    if event.refused and node.duty is Duty.RESTORING:
        # The node did not change: its leases continue until it can leave.
        node.lease_next_ns = now_ns
        leave.set_duty(state, node, Duty.LEAVING)
    return []


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    ev.NodeOrdered: ordered,
    ev.SpareNodesKept: spare_kept,
    reports.LeaveAnswered: leave_answered,
    reports.LeaveFailed: leave_failed,
    reports.PowerAnswered: sleep.answered,
}
