"""Makes the state follow its targets: compares what is confirmed with what is wanted and sends the
next steps that are safe now.

It is level-triggered: it looks at the state, not at what changed, so a lost answer, a restart or
a late node need no special case. The order of a transition comes out of two rules.

- A cap is lowered at any time; it is raised only into room that the ledger has, and the ledger
  frees a lowered cap only when it was read back and its averaging window has passed.
- A core is given away only when nobody else may still be running on it.
"""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core.job import Assignment, Job, JobState, Rank, SizeUnit
from wattfold.coordinator.core.node import Node, NodeSpec
from wattfold.coordinator.core.state import State
from wattfold.coordinator.core.targets import clipped_uw, fixed_uw, zone_targets


def reconcile(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """The steps to take now, lowering first. Marks them as under way in the state."""
    out: list[act.Action] = []
    out += _leases(state, now_ns, cause)
    targets = _cap_targets(state)
    out += _lower(state, targets, now_ns, cause)
    out += _lower_strangers(state, now_ns, cause)
    for job in state.placed():
        if job.state is JobState.ENDING:
            out += _terminate(state, job, cause)
        elif job.target is not None:
            out += _masks(state, job, now_ns, cause)
            out += _launches(state, job, now_ns, cause)
    out += _raise(state, targets, now_ns, cause)
    return out


def next_request(state: State) -> str:
    """A request id that is unique over epochs."""
    state.requests += 1
    return f"{state.epoch}-{state.requests}"


def assignments_on(state: State, node_id: NodeId) -> list[Assignment]:
    """Targets of the placed jobs that have cores on a node."""
    return [
        job.target for job in state.placed() if job.target is not None and job.target.on(node_id)
    ]


def _leases(state: State, now_ns: int, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for node in state.nodes.values():
        # Without a lease, a node that is not admitted stays at or falls to its floor.
        free = node.reachable and node.admitted and not node.lease_request
        if free and now_ns >= node.lease_next_ns:
            node.lease_request = next_request(state)
            node.lease_reads = not node.caps_request
            # Until answered it may be granted as late as the command times out.
            latest_ns = now_ns + state.command_timeout_ns + state.lease_ns
            node.lease_until_ns = max(
                node.lease_until_ns,
                latest_ns + state.settings.lease_slack_ns,
            )
            out.append(
                act.RenewLease(
                    node_id=node.node_id,
                    duration_ns=state.lease_ns,
                    request_id=node.lease_request,
                    cause=cause,
                ),
            )
    return out


Targets = dict[NodeId, dict[ZoneName, int]]


def _cap_targets(state: State) -> Targets:
    """Caps wanted on the nodes in reach, scaled so that they fit what the others leave.

    A plan fits its budget; scaling is for what happened since: a lower budget, a node lost.
    """
    reach: list[tuple[Node, NodeSpec]] = []
    floors: Targets = {}
    left_uw = state.ledger.budget_uw
    for node in state.nodes.values():
        account = state.ledger.accounts.get(node.node_id)
        if node.usable and node.reachable and node.spec is not None and not node.dead_zones:
            reach.append((node, node.spec))
        elif account is not None:
            left_uw -= account.charge_uw
            if node.reachable and node.spec is not None:
                # A zone there does not obey: the others go down, and it is asked again.
                floors[node.node_id] = {z.name: z.floor_uw for z in node.spec.zones if z.can_cap}
        elif node.awaits_room and node.spec is not None:
            left_uw -= fixed_uw(node.spec, state.settings.dram_cap_uw)
    wanted = {
        node.node_id: zone_targets(
            spec,
            assignments_on(state, node.node_id),
            state.settings.dram_cap_uw,
        )
        for node, spec in reach
    }
    return _scale(state, reach, wanted, left_uw) | floors


def _scale(
    state: State,
    reach: list[tuple[Node, NodeSpec]],
    wanted: Targets,
    left_uw: int,
) -> Targets:
    floors_uw = dynamic_uw = 0
    for node, spec in reach:
        fixed = fixed_uw(spec, state.settings.dram_cap_uw)
        floors_uw += fixed
        for zone in spec.packages:
            dynamic_uw += wanted[node.node_id][zone.name] - zone.floor_uw
    room_uw = max(left_uw - floors_uw, 0)
    if dynamic_uw <= room_uw:
        return wanted
    for node, spec in reach:
        for zone in spec.packages:
            above_uw = wanted[node.node_id][zone.name] - zone.floor_uw
            part_uw = above_uw * room_uw // dynamic_uw
            wanted[node.node_id][zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
    return wanted


def _settable(state: State, node: Node, now_ns: int) -> bool:
    return (
        node.reachable
        and node.node_id in state.ledger.accounts
        and not node.caps_request
        and now_ns >= node.caps_retry_ns
    )


def _send_caps(
    state: State,
    node: Node,
    caps: dict[ZoneName, int],
    cause: str,
) -> act.Action:
    state.ledger.send(node.node_id, caps)
    return _set_caps(state, node, caps, cause)


def _set_caps(
    state: State,
    node: Node,
    caps: dict[ZoneName, int],
    cause: str,
) -> act.Action:
    # A lease answered from now on may have read the caps before this command came.
    node.caps_request, node.lease_reads = next_request(state), False
    return act.SetCaps(
        node_id=node.node_id,
        caps=tuple(sorted(caps.items())),
        request_id=node.caps_request,
        cause=cause,
    )


def _lower(state: State, targets: Targets, now_ns: int, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for node_id, caps in targets.items():
        node = state.nodes[node_id]
        if not _settable(state, node, now_ns):
            continue
        zones = state.ledger.accounts[node_id].zones
        lower = {
            name: cap
            for name, cap in caps.items()
            if zones[name].too_high(cap, now_ns)
            # A zone that did not obey is asked again, to learn whether it does now.
            or (name in node.dead_zones and cap <= zones[name].confirmed_uw)
        }
        if lower:
            out.append(_send_caps(state, node, lower, cause))
    return out


def _lower_strangers(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Brings nodes that are not admitted to their floors, with which they can be."""
    out: list[act.Action] = []
    for node in state.nodes.values():
        idle = node.reachable and not node.caps_request and now_ns >= node.caps_retry_ns
        if node.admitted or not idle or node.spec is None:
            continue
        lower = {
            zone.name: zone.floor_uw
            for zone in node.spec.zones
            if zone.can_cap and node.read_uw.get(zone.name, 0) > zone.floor_uw
        }
        if lower:
            out.append(_set_caps(state, node, lower, cause))
    return out


def _raise(state: State, targets: Targets, now_ns: int, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for node_id, caps in targets.items():
        node = state.nodes[node_id]
        if not node.leased or not _settable(state, node, now_ns):
            continue
        zones = state.ledger.accounts[node_id].zones
        higher = {
            name: cap
            for name, cap in caps.items()
            if cap > zones[name].confirmed_uw and cap != zones[name].asked_uw
        }
        if higher and state.ledger.may_raise(node_id, higher):
            out.append(_send_caps(state, node, higher, cause))
    return out


def _terminate(state: State, job: Job, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for rank in job.ranks.values():
        alive = rank.end is None and (rank.running or rank.launching)
        if alive and not rank.signalled and state.nodes[rank.node_id].reachable:
            rank.signalled = True
            out.append(
                act.Terminate(
                    node_id=rank.node_id,
                    job_id=job.job_id,
                    request_id=next_request(state),
                    cause=cause,
                ),
            )
    return out


def _masks(state: State, job: Job, now_ns: int, cause: str) -> list[act.Action]:
    out: list[act.Action] = []
    for rank in job.ranks.values():
        idle = rank.running and rank.moving_to is None and now_ns >= rank.retry_ns
        if not idle or job.target is None or not state.nodes[rank.node_id].reachable:
            continue
        step = _mask_step(rank.held, job.target.on(rank.node_id))
        if step is None or not _free(state, rank.node_id, job, step - rank.held):
            continue
        rank.moving_to = step
        out.append(
            act.SetMask(
                node_id=rank.node_id,
                job_id=job.job_id,
                cpus=step,
                request_id=next_request(state),
                cause=cause,
            ),
        )
    return out


def _mask_step(held: CpuSet, wanted: CpuSet) -> CpuSet | None:
    """The next mask on the way from one to another: first give, then take. None = there."""
    if held == wanted or not wanted:
        return None
    stay = held & wanted
    if held - wanted and stay:
        return stay
    return wanted


def _free(state: State, node_id: NodeId, job: Job, cpus: CpuSet) -> bool:
    return cpus.isdisjoint(state.occupied(node_id, but=job.job_id))


def _launches(state: State, job: Job, now_ns: int, cause: str) -> list[act.Action]:
    if job.state is not JobState.STARTING or job.target is None:
        return []
    if not job.ranks:
        ready = all(
            state.nodes[s.node_id].usable
            and state.nodes[s.node_id].reachable
            and _free(state, s.node_id, job, s.cpus)
            for s in job.target.shares
        )
        if not ready:
            return []
        for share in job.target.shares:
            job.ranks[share.node_id] = Rank(node_id=share.node_id, held=share.cpus)
    return [
        _launch(state, job, rank, position, cause)
        for position, rank in enumerate(job.ranks.values())
        if _due(state, rank, now_ns)
    ]


def _due(state: State, rank: Rank, now_ns: int) -> bool:
    fresh = not (rank.launching or rank.running or rank.end)
    return fresh and now_ns >= rank.retry_ns and state.nodes[rank.node_id].reachable


def _launch(state: State, job: Job, rank: Rank, position: int, cause: str) -> act.Action:
    rank.launching = True
    spec = state.nodes[rank.node_id].spec
    most = len(rank.held)
    if job.spec.unit is SizeUnit.CORES and job.resizable and spec:
        most = min(job.spec.size_max, len(spec.cpus))
    return act.Launch(
        node_id=rank.node_id,
        job_id=job.job_id,
        spec=job.spec,
        cpus=rank.held,
        launch_cpus=most,
        rank=position,
        ranks=len(job.ranks),
        request_id=next_request(state),
        cause=cause,
    )
