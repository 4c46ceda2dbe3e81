"""How events about nodes change the state: contact, admission, leases, caps."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import adoption, job_events, leave, requeue
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.blocked import note_lack
from wattfold.coordinator.core.charge import node_fixed_uw, originals_uw
from wattfold.coordinator.core.job import Job, JobState
from wattfold.coordinator.core.node import (
    FORGOTTEN,
    GIVEN_BACK,
    Duty,
    Node,
    NodeSpec,
    NodeState,
)
from wattfold.coordinator.core.state import State

_HELD_WINDOWS = 5
"""An agent needs two to find that a cap is not held: one that was started again, or a load that
came back, must not be charged less in between."""
_WINDOW_NS_MIN = 1_000_000_000
_JOB_DIGITS_MAX = 12


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
    windows_ns = [zone.window_ns for zone in event.spec.zones]
    state.longest_window_ns = max(state.longest_window_ns, *windows_ns, 0)
    node.lease_request, node.lease_next_ns, node.caps_request = "", now_ns, ""
    node.dead_zones.clear()
    node.foreign.clear()
    note_lack(state, node)
    powers_uw = {caps.zone: caps.not_held_uw for caps in event.caps if caps.not_held_uw}
    _overdraw(state, node, event.spec, powers_uw, now_ns)
    node.original_uw = {caps.zone: caps.original_uw for caps in event.caps if caps.original_uw}
    if node.admitted:
        leave.met(state, node, event.left)
        if not event.left and node.duty not in GIVEN_BACK:
            node.unleased = False
        _count_fixed(state, node, event.spec)
        (read_left if event.left else _read_caps)(state, node, event.caps, now_ns)
        node.state, node.message = NodeState.UP, ""
    else:
        node.read_uw = {caps.zone: caps.cap_uw for caps in event.caps}
        if node.duty is Duty.UNPOWERED:
            leave.set_duty(state, node, Duty.RETURNED)
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
    if node.duty in FORGOTTEN:
        _refuse(node, "it was forgotten; `wattfold node resume` takes it in again")
        return
    fixed = node_fixed_uw(node, spec, state.settings.dram_cap_uw)
    others_uw = state.index.fixed_uw
    if not spec.packages:
        _refuse(node, "it has no power zone that can be capped")
    elif others_uw + fixed > state.ledger.limit_uw:
        _refuse(
            node,
            f"its base power and floors of {fixed / 1e6:.1f} W do not fit: the budget is "
            f"{state.ledger.limit_uw / 1e6:.1f} W and other nodes need {others_uw / 1e6:.1f} W",
        )
    else:
        _open_account(state, node, spec)


def recount_fixed(state: State) -> None:
    """Adds up anew what the admitted nodes are charged with at the least."""
    for node in state.nodes.values():
        if node.admitted and node.spec is not None:
            _count_fixed(state, node, node.spec)


def _count_fixed(state: State, node: Node, spec: NodeSpec) -> None:
    state.index.set_fixed(node.node_id, leave.least_uw(state, node, spec))


def _refuse(node: Node, reason: str) -> None:
    node.state, node.message = NodeState.REFUSED, reason


def _open_account(state: State, node: Node, spec: NodeSpec) -> None:
    charges_uw = _charges(spec, node.read_uw)
    most_uw = sum(max(cap, node.not_held_uw.get(name, 0)) for name, cap in charges_uw.items())
    if spec.base_power_uw + most_uw > state.ledger.room_uw:
        node.state = NodeState.CONNECTING
        node.message = "waits until the other nodes have made room for it"
        return
    state.ledger.open(node.node_id, spec.base_power_uw, charges_uw)
    state.ledger.overdraw(node.node_id, node.not_held_uw, 0)
    node.admitted, node.state, node.message = True, NodeState.UP, ""
    node.read_uw = {}
    state.index.unadmitted.pop(node.node_id, None)
    _count_fixed(state, node, spec)
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
    # Known ones first: a stray is adopted only on cores that none of them is on.
    for reading in sorted(processes, key=lambda reading: _stray(state, node, reading)):
        job = state.jobs.get(reading.job_id)
        if job is None:
            _keep_number(state, reading.job_id)
        if not reading.running:
            ended = ev.ProcessEnded(node_id=node.node_id, process=reading)
            out += job_events.process_ended(state, ended, now_ns)
        elif job is None:
            node.foreign[reading.job_id] = reading.cpus
            node.message = f"runs {reading.job_id}, which this journal does not know"
        elif requeue.earlier(job, node.node_id, reading.attempt):
            out += _end_earlier(state, node, job, reading)
        elif _stray(state, node, reading):
            out += _take_stray(state, node, job, reading, now_ns)
        else:
            _adopt(job, node.node_id, reading)
            launch = ev.JobLaunched(node_id=node.node_id, job_id=job.job_id, pid=reading.pid)
            out += job_events.launched(state, launch, now_ns)
    there = {reading.job_id for reading in processes if not _of_earlier(state, node, reading)}
    for job in state.on_node(node.node_id):
        if job.job_id not in there:
            out += _missing(state, job, node, now_ns)
    return out


def _of_earlier(state: State, node: Node, reading: ev.ProcessReading) -> bool:
    job = state.jobs.get(reading.job_id)
    return job is not None and requeue.earlier(job, node.node_id, reading.attempt)


def _end_earlier(
    state: State, node: Node, job: Job, reading: ev.ProcessReading
) -> list[act.Action]:
    """Ends what is left of an attempt that was given up; until then the job is not started."""
    node.foreign[job.job_id] = reading.cpus
    state.index.touch(node.node_id)
    if job.state is JobState.STARTING and not job.ranks:
        state.index.displace(job)
        job.state, job.target = JobState.PENDING, None
        job.reason = f"a process of an earlier attempt is still on {node.node_id}"
    # Of a node that was forgotten nothing is ended before an operator resumes it.
    if node.duty in FORGOTTEN:
        return []
    return [job_events.end_process(state, job, node, reading.attempt)]


def _adopt(job: Job, node_id: NodeId, reading: ev.ProcessReading) -> None:
    rank = job.ranks[node_id]
    job.attempt = max(job.attempt, reading.attempt)
    rank.stopped, rank.stopping = reading.suspended, False
    rank.held, rank.moving_to, rank.signalled, rank.retry_ns = reading.cpus, None, False, 0
    rank.resident, rank.unsure = reading.resident, False
    if job.reach:
        rank.pe_map = b""  # What came of a map on its way is not known: it is sent again.


def _keep_number(state: State, job_id: JobId) -> None:
    """No job gets the number of one that another journal has given and a node still knows."""
    if job_id.isascii() and job_id.isdecimal() and len(job_id) <= _JOB_DIGITS_MAX:
        state.submissions = max(state.submissions, int(job_id))


def _stray(state: State, node: Node, reading: ev.ProcessReading) -> bool:
    """Whether a process is none that the core has started, or has given up."""
    job = state.jobs.get(reading.job_id)
    rank = job.ranks.get(node.node_id) if job else None
    return rank is None or rank.end is not None or _of_earlier(state, node, reading)


def _take_stray(
    state: State, node: Node, job: Job, reading: ev.ProcessReading, now_ns: int
) -> list[act.Action]:
    """Ends a process of a job that is over for good; any other may be one we have acknowledged."""
    node.foreign[job.job_id] = reading.cpus
    ours = job.ranks or adoption.forgotten(state, job)
    if ours and (job.final or job.state is JobState.ENDING):
        # Of a node that was forgotten nothing is ended before an operator resumes it.
        return [] if node.duty in FORGOTTEN else [job_events.end_process(state, job, node)]
    state.index.touch(node.node_id)
    elsewhere = f"it is on other nodes: {', '.join(job.ranks)}"
    reason = elsewhere if job.ranks else "it is of another journal"
    if adoption.unstarted(job):
        reason = adoption.adopt(state, job, now_ns)
        if not reason:
            # More attempts than this journal knows of, which is a backup.
            job.attempt = max(job.attempt, reading.attempt)
    if reason:
        told = "which this journal has not started; it goes on, its cores are given to nobody"
        node.message = f"runs {job.job_id}, {told}: {reason}"
        if adoption.unstarted(job):
            job.reason = f"not started, a process of it runs on {node.node_id}: {reason}"
        return []
    out: list[act.Action] = []
    for rank in job.ranks.values():
        pid = reading.pid if rank.node_id == node.node_id else 0
        launch = ev.JobLaunched(node_id=rank.node_id, job_id=job.job_id, pid=pid)
        out += job_events.launched(state, launch, now_ns)
    return out


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
    if node.caps_request or node.lease_request:
        node.leave_from_ns = seen_by_ns(state, now_ns)
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
            rank.signalled = rank.stopping = False
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
            if node.unleased:
                continue  # Nothing lowers its limits any more.
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
    why = f"its node {node.node_id} was taken out of the configuration"
    out = lose_jobs(state, node, why, now_ns)
    state.ledger.close(node.node_id)
    del state.nodes[node.node_id]
    state.index.drop_node(node.node_id)
    state.cap_sums.drop(node.node_id)
    return out


def lose_jobs(state: State, node: Node, why: str, now_ns: int) -> list[act.Action]:
    """What ran on a node counts as lost. Answers with what that means for other nodes."""
    out: list[act.Action] = []
    for job in state.on_node(node.node_id):
        state.index.show_job(job.job_id)
        rank = job.ranks.get(node.node_id)
        if rank is not None and rank.end is None:
            out += job_events.process_ended(
                state,
                ev.ProcessEnded(node_id=node.node_id, process=_lost(job, node, why)),
                now_ns,
            )
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
        attempt=job.attempt,
    )


def lease_renewed(state: State, event: ev.LeaseRenewed, now_ns: int) -> list[act.Action]:
    """Caps above the floor hold for a lease from now; what is enforced was read on the way."""
    node = state.nodes[event.node_id]
    if event.request_id != node.lease_request:
        return []
    node.lease_request, node.leased = "", True
    if node.duty not in GIVEN_BACK:
        node.unleased = False
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
        node.leave_from_ns = seen_by_ns(state, now_ns)
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
        node.leave_from_ns = seen_by_ns(state, now_ns)
        node.caps_retry_ns = now_ns + state.settings.retry_ns
        state.ledger.lose(node.node_id, seen_by_ns(state, now_ns))
    return []


def caps_not_held(state: State, event: ev.CapsNotHeld, now_ns: int) -> list[act.Action]:
    """A node was measured: zones that draw more than their caps are charged with their most."""
    node = state.nodes.get(event.node_id)
    if node is None or node.spec is None:
        return []
    before_uw = node.not_held_uw
    _overdraw(state, node, node.spec, dict(event.powers_uw), now_ns)
    if node.not_held_uw != before_uw:
        state.plan_needed = "cap not held" if node.not_held_uw else "cap held again"
    if node.admitted:
        _count_fixed(state, node, node.spec)
    else:
        admit(state, node)
    return []


def _overdraw(
    state: State, node: Node, spec: NodeSpec, powers_uw: dict[ZoneName, int], now_ns: int
) -> None:
    """Measured powers are means: what is charged is not below the highest cap either."""
    zones = [zone for zone in spec.zones if powers_uw.get(zone.name)]
    node.not_held_uw = {z.name: max(powers_uw[z.name], z.cap_uw_max) for z in zones}
    windows_ns = [max(zone.window_ns, _WINDOW_NS_MIN) for zone in spec.zones]
    settled_ns = now_ns + _HELD_WINDOWS * max(windows_ns, default=_WINDOW_NS_MIN)
    state.ledger.overdraw(node.node_id, node.not_held_uw, settled_ns)


def read_left(state: State, node: Node, caps: tuple[ev.ZoneReading, ...], now_ns: int) -> None:
    """Takes in what zones hold that nobody enforces: up to their original limits they may draw."""
    told_uw = originals_uw(node, node.spec) if node.spec else {}
    held = [
        replace(reading, cap_uw=max(reading.cap_uw, told_uw.get(reading.zone, 0)))
        for reading in caps
        if not reading.error
    ]
    failed = [reading for reading in caps if reading.error and reading.cap_uw]
    _read_caps(state, node, (*held, *failed), now_ns)


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
