"""How events about nodes change the state: contact, admission, leases, caps."""

from __future__ import annotations

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import job_events
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.node import Node, NodeSpec, NodeState
from wattfold.coordinator.core.reconcile import next_request
from wattfold.coordinator.core.state import State
from wattfold.coordinator.core.targets import fixed_uw


def connected(state: State, event: ev.NodeConnected, now_ns: int) -> list[act.Action]:
    """An agent is back, or there for the first time: takes its truth over."""
    node = state.nodes.get(event.spec.node_id)
    if node is None:
        return []
    outside = _outside(state, node, event.spec)
    if outside:
        lose_contact(state, node, now_ns)
        node.message = outside
        return []
    _renew_account(state, node, event)
    node.spec, node.reachable, node.leased = event.spec, True, False
    node.lease_request, node.lease_next_ns, node.caps_request = "", now_ns, ""
    node.dead_zones.clear()
    node.foreign.clear()
    if node.admitted:
        state.index.set_fixed(node.node_id, fixed_uw(event.spec, state.settings.dram_cap_uw))
        _read_caps(state, node, event.caps, now_ns)
        node.state, node.message = NodeState.UP, ""
    else:
        node.read_uw = {caps.zone: caps.cap_uw for caps in event.caps}
        admit(state, node)
    out = _take_processes(state, node, event.processes, now_ns)
    state.plan_needed = "node connected"
    return out


def _outside(state: State, node: Node, spec: NodeSpec) -> str:
    """What is wrong with a node that came back without the cores its jobs are on."""
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None and not rank.occupied <= spec.cpus:
            return (
                f"came back with the cores {spec.cpus}, but job {job.job_id} is on "
                f"{rank.occupied}: restart its agent with the cores it had"
            )
    return ""


def _renew_account(state: State, node: Node, event: ev.NodeConnected) -> None:
    """Charges a node anew that came back with other zones or another base power."""
    account = state.ledger.accounts.get(node.node_id)
    if account is None or node.spec is None or node.spec == event.spec:
        return
    read_uw = {reading.zone: reading.cap_uw for reading in event.caps}
    charges_uw = _charges(event.spec, read_uw)
    state.ledger.reopen(node.node_id, event.spec.base_power_uw, charges_uw)


def admit(state: State, node: Node) -> None:
    """Takes a node into the ledger if its floor fits the budget, now or when room was made.

    It is charged with the caps last read of it, which may be above its floor.
    """
    spec = node.spec
    if spec is None or not node.reachable:
        return
    fixed = fixed_uw(spec, state.settings.dram_cap_uw)
    others_uw = state.index.fixed_uw
    if not spec.packages:
        _refuse(node, "it has no power zone that can be capped")
    elif others_uw + fixed > state.ledger.budget_uw:
        _refuse(
            node,
            f"its base power and floors of {fixed / 1e6:.1f} W do not fit: the budget is "
            f"{state.ledger.budget_uw / 1e6:.1f} W and other nodes need {others_uw / 1e6:.1f} W",
        )
    else:
        _open_account(state, node, spec)


def recount_fixed(state: State) -> None:
    """Adds up anew what the admitted nodes are charged with at the least."""
    for node in state.nodes.values():
        if node.admitted and node.spec is not None:
            fixed = fixed_uw(node.spec, state.settings.dram_cap_uw)
            state.index.set_fixed(node.node_id, fixed)


def _refuse(node: Node, reason: str) -> None:
    node.state, node.message = NodeState.REFUSED, reason


def _open_account(state: State, node: Node, spec: NodeSpec) -> None:
    charges_uw = _charges(spec, node.read_uw)
    if spec.base_power_uw + sum(charges_uw.values()) > state.ledger.room_uw:
        node.state = NodeState.CONNECTING
        node.message = "waits until the other nodes have made room for it"
        return
    state.ledger.open(node.node_id, spec.base_power_uw, charges_uw)
    node.admitted, node.state, node.message = True, NodeState.UP, ""
    node.read_uw = {}
    state.index.unadmitted.pop(node.node_id, None)
    state.index.set_fixed(node.node_id, fixed_uw(spec, state.settings.dram_cap_uw))
    state.index.touch(node.node_id)
    state.plan_needed = "node admitted"


def _charges(spec: NodeSpec, read_uw: dict[ZoneName, int]) -> dict[ZoneName, int]:
    return {
        zone.name: read_uw.get(zone.name, zone.cap_uw_max) if zone.can_cap else zone.cap_uw_max
        for zone in spec.zones
    }


def _floors(spec: NodeSpec) -> dict[ZoneName, int]:
    return {zone.name: zone.floor_uw for zone in spec.zones if zone.can_cap}


def _take_processes(
    state: State,
    node: Node,
    processes: tuple[ev.ProcessReading, ...],
    now_ns: int,
) -> list[act.Action]:
    """Brings the ranks of this node in line with the processes the agent has."""
    out: list[act.Action] = []
    for reading in processes:
        job = state.jobs.get(reading.job_id)
        if not reading.running:
            ended = ev.ProcessEnded(node_id=node.node_id, process=reading)
            out += job_events.process_ended(state, ended, now_ns)
        elif job is None:
            node.foreign[reading.job_id] = reading.cpus
            node.message = f"runs {reading.job_id}, which this journal does not know"
        elif node.node_id in job.ranks and job.ranks[node.node_id].end is None:
            _adopt(job, node.node_id, reading)
            launch = ev.JobLaunched(node_id=node.node_id, job_id=job.job_id, pid=reading.pid)
            out += job_events.launched(state, launch, now_ns)
        else:
            node.foreign[reading.job_id] = reading.cpus
            out.append(_end_stray(state, node, reading))
    there = {reading.job_id for reading in processes}
    for job in state.on_node(node.node_id):
        if job.job_id not in there:
            out += _missing(state, job, node, now_ns)
    return out


def _adopt(job: Job, node_id: NodeId, reading: ev.ProcessReading) -> None:
    rank = job.ranks[node_id]
    rank.held, rank.moving_to, rank.signalled, rank.retry_ns = reading.cpus, None, False, 0


def _end_stray(state: State, node: Node, reading: ev.ProcessReading) -> act.Action:
    """A process of a job that has ended for us meanwhile."""
    return act.Terminate(
        node_id=node.node_id,
        job_id=reading.job_id,
        request_id=next_request(state),
        cause=reading.job_id,
    )


def _missing(state: State, job: Job, node: Node, now_ns: int) -> list[act.Action]:
    rank = job.ranks.get(node.node_id)
    if rank is None or rank.end is not None:
        return []
    if rank.launching:
        rank.launching = False  # The command was lost: reconcile launches it again.
        if job.state is JobState.ENDING:
            return job_events.launch_failed(
                state,
                ev.LaunchFailed(
                    node_id=node.node_id,
                    job_id=job.job_id,
                    reason="cancelled before it started",
                    permanent=False,
                ),
                now_ns,
            )
    elif rank.running:
        why = f"its process on {node.node_id} vanished (node restarted?)"
        return job_events.process_ended(
            state,
            ev.ProcessEnded(node_id=node.node_id, process=_lost(job, node, why)),
            now_ns,
        )
    return []


def silent(state: State, event: ev.NodeSilent, now_ns: int) -> list[act.Action]:
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
    node.caps_request = node.lease_request = ""
    state.ledger.lose(node.node_id, seen_by_ns(state, now_ns))
    if was_known:
        node.state = NodeState.SILENT
        latest_ns = now_ns + longest_lease_ns(state)
        bound_ns = node.lease_until_ns or latest_ns
        node.lease_until_ns = min(max(bound_ns, now_ns + 1), latest_ns)
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None:
            rank.signalled = False
    state.index.touch(node.node_id)


def longest_lease_ns(state: State) -> int:
    """How long from now a lease can hold that was granted or asked for until now."""
    return state.lease_ns + state.command_timeout_ns + state.settings.lease_slack_ns


def seen_by_ns(state: State, now_ns: int) -> int:
    """From when on an answer has seen every command that was given up by now.

    A lost command arrives within a command's time-out if at all. What is read back was read up to
    two of them before: first contact asks for the caps, then for the processes.
    """
    return now_ns + 3 * state.command_timeout_ns


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """What time alone changes: lowered caps count, leases of silent nodes end."""
    index = state.index
    freed = state.ledger.settle(now_ns)
    due = state.nodes if index.touched.everything else sorted(index.touched.nodes)
    for node in [state.nodes[node_id] for node_id in due if node_id in state.nodes]:
        if node.state is NodeState.SILENT and now_ns >= node.lease_until_ns and node.spec:
            node.state = NodeState.DOWN
            node.message = f"its lease has run out; {node.message}"
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
            admit(state, node)
    return out


def _remove(state: State, node: Node, now_ns: int) -> list[act.Action]:
    """Takes a retired node out of the ledger; what ran there is lost."""
    out: list[act.Action] = []
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None and rank.end is None:
            why = f"its node {node.node_id} was taken out of the configuration"
            out += job_events.process_ended(
                state,
                ev.ProcessEnded(node_id=node.node_id, process=_lost(job, node, why)),
                now_ns,
            )
    state.ledger.close(node.node_id)
    del state.nodes[node.node_id]
    state.index.drop_node(node.node_id)
    state.cap_targets.drop(node.node_id)
    return [action for action in out if getattr(action, "node_id", "") != node.node_id]


def _lost(job: Job, node: Node, why: str) -> ev.ProcessReading:
    rank = job.ranks[node.node_id]
    return ev.ProcessReading(
        job_id=job.job_id,
        running=False,
        pid=rank.pid,
        cpus=rank.held,
        lost=True,
        message=why,
    )


def lease_renewed(state: State, event: ev.LeaseRenewed, now_ns: int) -> list[act.Action]:
    """Caps above the floor hold for a lease from now; what is enforced was read on the way."""
    node = state.nodes[event.node_id]
    if event.request_id != node.lease_request:
        return []
    node.lease_request, node.leased = "", True
    node.lease_until_ns = now_ns + state.lease_ns + state.settings.lease_slack_ns
    node.lease_next_ns = now_ns + state.lease_ns // 3
    if node.lease_reads:
        _read_caps(state, node, event.caps, now_ns)
    return []


def lease_unconfirmed(state: State, event: ev.LeaseUnconfirmed, now_ns: int) -> list[act.Action]:
    """Asked again soon; the bound of `lease_until_ns` already counts the lost one as granted."""
    node = state.nodes[event.node_id]
    if event.request_id == node.lease_request:
        node.lease_request = ""
        node.lease_next_ns = now_ns + state.settings.retry_ns // 4
        node.message = f"lease not renewed: {event.reason}"
    return []


def caps_answered(state: State, event: ev.CapsAnswered, now_ns: int) -> list[act.Action]:
    """The answer to a command: the ledger charges what was read back, asked for or not."""
    node = state.nodes[event.node_id]
    if event.request_id != node.caps_request:
        return []
    node.caps_request = ""
    if not node.admitted:
        _strangers_caps(state, node, event.caps, now_ns)
        return []
    _read_caps(state, node, event.caps, now_ns)
    for reading in event.caps:
        if reading.error:
            node.caps_retry_ns = now_ns + state.settings.retry_ns
            node.message = f"{reading.zone}: {reading.error}"
            node.dead_zones.add(reading.zone)
            state.plan_needed = "zone failed"
        elif reading.zone in node.dead_zones:
            node.dead_zones.discard(reading.zone)
            node.message = ""
            state.plan_needed = "zone recovered"
    return []


def _strangers_caps(
    state: State,
    node: Node,
    caps: tuple[ev.ZoneReading, ...],
    now_ns: int,
) -> None:
    """A node was brought to its floor; it may be admitted once its windows have passed."""
    windows_ns = [zone.window_ns for zone in node.spec.zones] if node.spec else []
    wait_ns = max([*windows_ns, *(reading.settles_in_ns for reading in caps), 1])
    for reading in caps:
        node.read_uw[reading.zone] = reading.cap_uw
        if reading.error:
            wait_ns = max(wait_ns, state.settings.retry_ns)
            node.message = f"{reading.zone}: {reading.error}"
    node.caps_retry_ns = now_ns + wait_ns


def caps_unconfirmed(state: State, event: ev.CapsUnconfirmed, now_ns: int) -> list[act.Action]:
    """No answer: both values may hold until a renewal of the lease has read them."""
    node = state.nodes[event.node_id]
    if event.request_id == node.caps_request:
        node.caps_request, node.lease_next_ns = "", now_ns
        node.caps_retry_ns = now_ns + state.settings.retry_ns
        state.ledger.lose(node.node_id, seen_by_ns(state, now_ns))
    return []


def _read_caps(
    state: State,
    node: Node,
    caps: tuple[ev.ZoneReading, ...],
    now_ns: int,
) -> None:
    windows = {zone.name: zone.window_ns for zone in node.spec.zones} if node.spec else {}
    for reading in caps:
        settles_ns = max(reading.settles_in_ns, windows.get(reading.zone, 0))
        settled_ns = now_ns + settles_ns
        state.ledger.confirm(node.node_id, reading.zone, reading.cap_uw, settled_ns, now_ns)
