"""Contact with nodes, and time without contact, as changes of the state.

Answers about leases and caps are in `cap_events`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node import (
    GIVEN_BACK,
    Duty,
    Node,
    NodeSpec,
    NodeState,
)
from wattfold.coordinator.core.rules.jobs import allocations, found_processes, managed_jobs, requeue
from wattfold.coordinator.core.rules.nodes import leave, sleep
from wattfold.coordinator.core.rules.power import admission, cap_events
from wattfold.coordinator.core.state.blocked import note_lack
from wattfold.coordinator.core.state.state import State

_UNHEARD = (
    "charged with its maximum power until it answers, or until it is removed with "
    "`wattfold node forget`"
)


def connected(state: State, event: reports.NodeConnected, now_ns: int) -> list[act.Action]:
    """Record the reported state of an agent at first contact or after silence."""
    node = state.nodes.get(event.spec.node_id)
    if node is None:
        return []
    outside = _lacking_cores(state, node, event.spec)
    if outside:
        lose_contact(state, node, now_ns)
        node.message = outside
        return []
    sleep.reported(state, node, now_ns)
    admission.renew_account(state, node, event)
    if node.spec != event.spec:
        state.index.nodes_changed(state.arrays)
    node.spec, node.reachable, node.leased = event.spec, True, False
    node.fault = event.fault
    windows_ns = [zone.window_ns for zone in event.spec.zones]
    state.longest_window_ns = max(state.longest_window_ns, *windows_ns, 0)
    node.lease_request, node.lease_next_ns, node.caps_request = "", now_ns, ""
    node.dead_zones.clear()
    node.foreign.clear()
    node.adopted.clear()
    note_lack(state, node)
    powers_uw = {caps.zone: caps.not_held_uw for caps in event.caps if caps.not_held_uw}
    cap_events.overdraw(state, node, event.spec, powers_uw, now_ns)
    node.original_uw = {caps.zone: caps.original_uw for caps in event.caps if caps.original_uw}
    if node.admitted:
        leave.met(state, node, event.left)
        if not event.left and node.duty not in GIVEN_BACK:
            node.unleased = False
        admission.count_fixed(state, node, event.spec)
        (cap_events.read_left if event.left else cap_events.read_caps)(
            state, node, event.caps, now_ns
        )
        node.state, node.message = NodeState.UP, ""
    else:
        # A released node may draw up to its original limits, short-term limits included. A lease
        # that ends lowers them only after the node has accepted a lease.
        node.unleased = event.left
        node.read_uw = {
            caps.zone: max(caps.cap_uw, caps.original_uw if event.left else 0)
            for caps in event.caps
        }
        if node.duty is Duty.UNPOWERED:
            leave.set_duty(state, node, Duty.RETURNED)
        admission.admit(state, node)
    out = found_processes.take_processes(state, node, event.processes, now_ns)
    managed_jobs.met(state, node, event.processes)
    state.plan_needed = "node connected"
    return out


def _lacking_cores(state: State, node: Node, spec: NodeSpec) -> str:
    """Return which cores of its jobs a returning node lacks, or an empty string."""
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None and not rank.occupied <= spec.cpus:
            return (
                f"returned with cores {spec.cpus}, but job {job.job_id} uses cores "
                f"{rank.occupied}; restart the agent with the previous cores"
            )
    return ""


def _floors(spec: NodeSpec) -> dict[ZoneName, int]:
    return {zone.name: zone.floor_uw for zone in spec.zones if zone.can_cap}


def launch_fault_reported(
    state: State, event: reports.LaunchFaultReported, now_ns: int
) -> list[act.Action]:
    """Close a node that cannot start processes to new jobs, or open it again."""
    del now_ns
    node = state.nodes.get(event.node_id)
    if node is None or node.fault == event.reason:
        return []
    node.fault = ""
    if event.reason:
        requeue.close_node(state, node, event.reason)
    else:
        state.index.touch(node.node_id)
        state.plan_needed = "node can start jobs again"
    return []


def adopted_jobs_seen(
    state: State, event: reports.AdoptedJobsSeen, now_ns: int
) -> list[act.Action]:
    """Reserve the cores of jobs of another owner. The core never ends these jobs."""
    del now_ns
    node = state.nodes.get(event.node_id)
    if node is None or not node.reachable:
        return []
    for job in event.jobs:
        managed_jobs.adopted(state, node, job)
    allocations.seat(state, node)
    note_lack(state, node)
    state.index.touch(node.node_id)
    state.plan_needed = "cores of adopted jobs changed"
    return []


def silent(state: State, event: reports.NodeSilent, now_ns: int) -> list[act.Action]:
    """Mark a node as silent. Its charge stays until its lease has surely run out."""
    node = state.nodes.get(event.node_id)
    if node is None:
        return []  # Its node was removed from the configuration meanwhile.
    if node.reachable or node.state is NodeState.CONNECTING:
        lose_contact(state, node, now_ns)
        node.message = event.reason
        state.plan_needed = "node silent"
    return []


def report_set_aside(state: State, event: reports.ReportSetAside, now_ns: int) -> list[act.Action]:
    """Mark a node with an unusable report as silent, charged with its maximum power."""
    node = state.nodes.get(event.node_id)
    if node is None:
        return []
    if node.reachable or node.state is NodeState.CONNECTING:
        lose_contact(state, node, now_ns)
        state.plan_needed = "node silent"
    node.message = event.reason
    cap_events.doubt(state, node, now_ns)
    return []


def begin_epoch(state: State, node: Node, now_ns: int) -> None:
    """Treat a node as silent at the start of a coordinator. Orders about its power are repeated."""
    sleep.lost_orders(node, now_ns + state.settings.retry_ns)
    lose_contact(state, node, now_ns)
    if node.state is not NodeState.REFUSED and not node.dark:
        node.message = "no contact since the coordinator started"


def lose_contact(state: State, node: Node, now_ns: int) -> None:
    """Forget the pending commands of a node. Its possible caps stay charged."""
    was_known = node.admitted and not node.dark
    node.reachable = node.leased = False
    if node.caps_request or node.lease_request:
        node.leave_from_ns = cap_events.seen_by_ns(state, now_ns)
    node.caps_request = node.lease_request = ""
    state.ledger.lose(node.node_id, cap_events.seen_by_ns(state, now_ns))
    if was_known:
        node.state = NodeState.SILENT
        latest_ns = now_ns + cap_events.longest_lease_ns(state)
        bound_ns = node.lease_until_ns or latest_ns
        node.lease_until_ns = min(max(bound_ns, now_ns + 1), latest_ns)
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None:
            rank.signalled = rank.stopping = False
    state.index.touch(node.node_id)


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """Apply the effect of time: lowered caps count, leases of silent nodes end."""
    index = state.index
    freed = state.ledger.settle(now_ns)
    due = state.nodes if index.touched.everything else sorted(index.touched.nodes)
    for node in [state.nodes[node_id] for node_id in due if node_id in state.nodes]:
        if node.state is NodeState.SILENT and now_ns >= node.lease_until_ns and node.spec:
            node.state = NodeState.DOWN
            if node.unleased:
                # Nothing lowers its limits any more.
                if node.duty not in GIVEN_BACK:
                    node.message = f"{_UNHEARD}; {node.message}"
                continue
            node.message = f"its lease has expired; {node.message}"
            settled_ns = {zone.name: now_ns + zone.window_ns for zone in node.spec.zones}
            # A zone that refuses its caps does not fall to its floor at the end of a lease.
            obeying = {n: uw for n, uw in _floors(node.spec).items() if n not in node.dead_zones}
            state.ledger.fall_to_floor(node.node_id, obeying, settled_ns)
            freed, state.plan_needed = True, "node down"
    out: list[act.Action] = []
    retired = sorted(index.retired, key=index.node_order)
    for node in [index.retired[node_id] for node_id in retired if index.retired[node_id].gone]:
        out += _remove(state, node, now_ns)
        freed = True
    for node in list(index.unadmitted.values()):
        if not node.reachable or node.caps_request:
            continue
        at_floor = 0 < node.caps_retry_ns <= now_ns
        if freed or at_floor:
            node.caps_retry_ns = 0 if at_floor else node.caps_retry_ns
            index.touch(node.node_id)
            admission.admit(state, node)
    return out


def _remove(state: State, node: Node, now_ns: int) -> list[act.Action]:
    """Remove a retired node from the ledger; its processes are lost."""
    why = f"its node {node.node_id} was removed from the configuration"
    out = found_processes.lose_jobs(state, node, why, now_ns)
    state.ledger.close(node.node_id)
    del state.nodes[node.node_id]
    state.index.drop_node(node.node_id)
    state.index.nodes_changed(state.arrays)
    state.cap_sums.drop(node.node_id)
    return out


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    reports.NodeConnected: connected,
    reports.NodeSilent: silent,
    reports.ReportSetAside: report_set_aside,
    reports.LaunchFaultReported: launch_fault_reported,
    reports.AdoptedJobsSeen: adopted_jobs_seen,
    **managed_jobs.HANDLERS,
}
