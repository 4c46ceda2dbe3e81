"""How contact with nodes, and time without it, change the state.

Answers about leases and caps are in `cap_events`.
"""

from __future__ import annotations

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import admission, cap_events, found_processes, leave, reports
from wattfold.coordinator.core.blocked import note_lack
from wattfold.coordinator.core.node import (
    GIVEN_BACK,
    Duty,
    Node,
    NodeSpec,
    NodeState,
)
from wattfold.coordinator.core.state import State


def connected(state: State, event: reports.NodeConnected, now_ns: int) -> list[act.Action]:
    """An agent is back, or there for the first time: takes its truth over."""
    node = state.nodes.get(event.spec.node_id)
    if node is None:
        return []
    outside = _outside(state, node, event.spec)
    if outside:
        lose_contact(state, node, now_ns)
        node.message = outside
        return []
    admission.renew_account(state, node, event)
    node.spec, node.reachable, node.leased = event.spec, True, False
    windows_ns = [zone.window_ns for zone in event.spec.zones]
    state.longest_window_ns = max(state.longest_window_ns, *windows_ns, 0)
    node.lease_request, node.lease_next_ns, node.caps_request = "", now_ns, ""
    node.dead_zones.clear()
    node.foreign.clear()
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
        node.read_uw = {caps.zone: caps.cap_uw for caps in event.caps}
        if node.duty is Duty.UNPOWERED:
            leave.set_duty(state, node, Duty.RETURNED)
        admission.admit(state, node)
    out = found_processes.take_processes(state, node, event.processes, now_ns)
    state.plan_needed = "node connected"
    return out


def _outside(state: State, node: Node, spec: NodeSpec) -> str:
    """What is wrong with a node that came back without the cores its jobs are on."""
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


def silent(state: State, event: reports.NodeSilent, now_ns: int) -> list[act.Action]:
    """An agent does not answer: charged as it was until its lease has surely run out."""
    node = state.nodes.get(event.node_id)
    if node is None:
        return []  # Taken out of the configuration meanwhile.
    if node.reachable or node.state is NodeState.CONNECTING:
        lose_contact(state, node, now_ns)
        node.message = event.reason
        state.plan_needed = "node silent"
    return []


def lose_contact(state: State, node: Node, now_ns: int) -> None:
    """Forgets what was under way with a node; what it may hold stays charged."""
    was_known = node.admitted
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
    """What time alone changes: lowered caps count, leases of silent nodes end."""
    index = state.index
    freed = state.ledger.settle(now_ns)
    due = state.nodes if index.touched.everything else sorted(index.touched.nodes)
    for node in [state.nodes[node_id] for node_id in due if node_id in state.nodes]:
        if node.state is NodeState.SILENT and now_ns >= node.lease_until_ns and node.spec:
            node.state = NodeState.DOWN
            if node.unleased:
                continue  # Nothing lowers its limits any more.
            node.message = f"its lease has expired; {node.message}"
            settled_ns = {zone.name: now_ns + zone.window_ns for zone in node.spec.zones}
            state.ledger.fall_to_floor(node.node_id, _floors(node.spec), settled_ns)
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
    """Takes a retired node out of the ledger; what ran there is lost."""
    why = f"its node {node.node_id} was removed from the configuration"
    out = found_processes.lose_jobs(state, node, why, now_ns)
    state.ledger.close(node.node_id)
    del state.nodes[node.node_id]
    state.index.drop_node(node.node_id)
    state.cap_sums.drop(node.node_id)
    return out
