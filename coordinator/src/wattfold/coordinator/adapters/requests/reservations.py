"""Reservations where they come in: checked, and with nodes and times of their own."""

from __future__ import annotations

import math
import pwd

from wattfold.contract.ids import NodeId, valid_name
from wattfold.contract.local_time import local, moment
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.clock import AHEAD_S, Clock
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.possible import check_possible
from wattfold.coordinator.core.model.job import KEEPS_STATES, Job
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.reservation import RESERVATIONS_MAX, SLACK_NS, Reservation
from wattfold.coordinator.core.rules.nodes.reservation_events import without_right
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

REASON_LENGTH_MAX = 200
USERS_MAX = 256
LATE_S = 60.0
"""A start may lie so far in the past: it was now when it was asked for."""
NAMED_MAX = 10
"""Names that a sentence lists."""


def reservation_of(request: pb.ReserveRequest, state: State, clock: Clock) -> Reservation:
    """Return the requested reservation. Raises InvalidRequestError if it is not possible."""
    name, reason = request.name, " ".join(request.reason.split())
    if not valid_name(name):
        raise InvalidRequestError(f"reservation {name[:70]!r}: use 1-63 of A-Z a-z 0-9 . _ -")
    if name in state.reservations:
        raise InvalidRequestError(
            f"reservation {name} already exists; use another name, or cancel it first"
        )
    if len(state.reservations) >= RESERVATIONS_MAX:
        raise InvalidRequestError(f"the limit of {RESERVATIONS_MAX} reservations is reached")
    if len(reason) > REASON_LENGTH_MAX or not reason.isprintable():
        raise InvalidRequestError(
            f"a reason must be one line of at most {REASON_LENGTH_MAX} printable characters"
        )
    _check_whose(request, state)
    start_ns, end_ns = _times(request, clock)
    nodes = _nodes(request, state, start_ns, end_ns, clock)
    return Reservation(
        name=name,
        nodes=nodes,
        start_ns=start_ns,
        end_ns=end_ns,
        users=tuple(dict.fromkeys(request.users)),
        queue=request.queue,
        maintenance=request.maintenance,
        end_jobs=request.end_jobs,
        reason=reason,
        when=_when(clock.wall_s(start_ns), clock.wall_s(end_ns)),
    )


def check_reservation(spec: JobSpec, state: State, now_ns: int) -> None:
    """Refuse a job that can never run in the reservation that it names."""
    if not spec.reservation:
        return
    one = state.reservations.get(spec.reservation)
    if one is None:
        raise InvalidRequestError(
            f"no reservation {spec.reservation!r}; {known_reservations(state)}"
        )
    refused = one.refusal(spec.user, spec.queue)
    if refused:
        raise InvalidRequestError(refused)
    takes_ns, left_ns = spec.limit_ns or spec.time_ns, one.end_ns - max(one.start_ns, now_ns)
    if takes_ns > left_ns + SLACK_NS:
        what = "time limit" if spec.limit_ns else "estimate"
        raise InvalidRequestError(
            f"its {what} is {takes_ns / 1e9:.0f} s, but only {left_ns / 1e9:.0f} s of {one} "
            "remain; a job must end before its reservation"
        )
    nodes = [state.nodes[n] for n in one.nodes if n in state.nodes]
    features = {node.node_id: node.all_features for node in nodes}
    try:
        check_possible(spec, [node.spec for node in nodes if node.spec], features)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"in reservation {one.name}: {error}") from error


def known_reservations(state: State) -> str:
    """Return the names of the reservations, for people."""
    names = sorted(state.reservations)
    more = " ..." if len(names) > NAMED_MAX else ""
    return f"there are: {', '.join(names[:NAMED_MAX])}{more}" if names else "there are none"


def reservation_message(state: State, one: Reservation, clock: Clock) -> pb.Reservation:
    """Return a reservation with the jobs on its nodes."""
    others = {job.job_id for job in without_right(state, one) if job.ranks}
    there = {
        job.job_id: job
        for node_id in one.nodes
        if node_id in state.nodes
        for job in state.on_node(node_id)
        if job.ranks
    }
    return pb.Reservation(
        name=one.name,
        node_ids=one.nodes,
        start_at_s=clock.wall_s(one.start_ns),
        end_at_s=clock.wall_s(one.end_ns),
        users=one.users,
        queue=one.queue,
        maintenance=one.maintenance,
        end_jobs=one.end_jobs,
        reason=one.reason,
        begun=one.name in state.begun,
        job_ids=[job_id for job_id in there if job_id not in others],
        other_job_ids=[job_id for job_id in there if job_id in others],
    )


def _check_whose(request: pb.ReserveRequest, state: State) -> None:
    """Check that the reservation names existing accounts or a queue, or is for maintenance."""
    if request.maintenance and (request.users or request.queue):
        raise InvalidRequestError(
            "a maintenance window admits no jobs; omit the accounts and the queue"
        )
    if not (request.maintenance or request.users or request.queue):
        raise InvalidRequestError(
            "no job could use the reservation; give its accounts or queue (--users, "
            "--queue), or make it a maintenance window (--maintenance)"
        )
    if len(request.users) > USERS_MAX:
        raise InvalidRequestError(f"{len(request.users)} accounts exceed the limit of {USERS_MAX}")
    for user in request.users:
        try:
            pwd.getpwnam(user)
        except (KeyError, ValueError) as error:
            raise InvalidRequestError(
                f"account {user[:70]!r} does not exist on this machine"
            ) from error
    if request.queue and request.queue not in state.queues:
        there = f"there are: {', '.join(state.queues)}"
        known = there if state.queues else "this site has no queues"
        raise InvalidRequestError(f"no queue {request.queue!r}; {known}")


def _times(request: pb.ReserveRequest, clock: Clock) -> tuple[int, int]:
    """Return start and end in coordinator time."""
    now_ns = clock.now_ns()
    now_s = clock.wall_s(now_ns)
    start_s, end_s = request.start_at_s or now_s, request.end_at_s
    if not all(math.isfinite(s) and s < now_s + AHEAD_S for s in (start_s, end_s)):
        raise InvalidRequestError("start and end must be within the next ten years")
    if start_s < now_s - LATE_S:
        raise InvalidRequestError(f"the start is {now_s - start_s:.0f} s ago; give a future time")
    start_ns = max(clock.time_ns(start_s), now_ns)
    end_ns = clock.time_ns(end_s)
    if end_ns < start_ns + NS_PER_S:
        raise InvalidRequestError(
            f"the end, {moment(end_s)}, must be at least one second after "
            f"the start, {moment(clock.wall_s(start_ns))}"
        )
    return start_ns, end_ns


def _nodes(
    request: pb.ReserveRequest, state: State, start_ns: int, end_ns: int, clock: Clock
) -> tuple[NodeId, ...]:
    if bool(request.node_ids) == bool(request.count):
        raise InvalidRequestError("give either the nodes or their number")
    taken = {
        node_id: one
        for one in state.reservations.values()
        if one.meets(start_ns, end_ns)
        for node_id in one.nodes
    }
    if request.count:
        return _chosen(request, state, taken, start_ns, clock)
    if request.features:
        raise InvalidRequestError("features need a number of nodes; give --count, not --nodes")
    nodes = tuple(dict.fromkeys(NodeId(node_id) for node_id in request.node_ids))
    unknown = [node_id for node_id in nodes if node_id not in state.nodes]
    if unknown:
        there = ", ".join(sorted(state.nodes)[:NAMED_MAX])
        raise InvalidRequestError(f"no node {unknown[0]!r}; there are: {there}")
    for node_id in nodes:
        if node_id in taken:
            raise InvalidRequestError(f"node {node_id} is already reserved: {taken[node_id]}")
    return nodes


def _chosen(
    request: pb.ReserveRequest,
    state: State,
    taken: dict[NodeId, Reservation],
    start_ns: int,
    clock: Clock,
) -> tuple[NodeId, ...]:
    """Return ``count`` nodes: preferably in service, and with few jobs at the start."""
    able = [
        node
        for node in state.nodes.values()
        if node.spec is not None and {*request.features} <= {*node.all_features}
    ]
    which = f" with {', '.join(request.features)}" if request.features else ""
    if request.count > len(able):
        raise InvalidRequestError(
            f"{request.count} nodes{which} are requested, but there are only {len(able)}"
        )
    left = [node for node in able if node.node_id not in taken]
    if request.count > len(left):
        names = sorted({str(taken[node.node_id]) for node in able if node.node_id in taken})
        raise InvalidRequestError(
            f"{request.count} nodes{which} are requested, but only {len(left)} of "
            f"{len(able)} are free of other reservations: {'; '.join(names)}"
        )
    now_ns = clock.now_ns()

    def order(node: Node) -> tuple[bool, int]:
        staying = [j for j in state.on_node(node.node_id) if _stays(j, now_ns, start_ns)]
        return not (node.usable and node.takes_jobs), len(staying)

    best = {node.node_id for node in sorted(left, key=order)[: request.count]}
    return tuple(node_id for node_id in state.nodes if node_id in best)


def _stays(job: Job, now_ns: int, start_ns: int) -> bool:
    """Whether a job is expected to run beyond a time."""
    if job.state in KEEPS_STATES or job.limit_at_ns < 0:
        total_s = job.target.expected_total_s if job.target else 0.0
        return now_ns + round(total_s * (1 - job.done_by(now_ns)) * 1e9) > start_ns
    return job.limit_at_ns > start_ns


def _when(start_s: float, end_s: float) -> str:
    """Return an interval by the calendar of this machine, for people."""
    start, end = local(start_s), local(end_s)
    same_day = start.date() == end.date()
    until = end.timetz().isoformat("seconds") if same_day else moment(end_s)
    return f"from {moment(start_s)} to {until}"
