"""Release of a node: when it may restore its original limits, the cost, and the end.

Original limits are charged before the command is sent, like every raise. They stay charged until an
operator removes the node. No later budget lowers them, so they must fit every announced budget too.
The command is repeated until it is answered. No lease or cap, which would return the node to
service, is sent meanwhile or may still be pending.
"""

from __future__ import annotations

from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.node import GIVEN_BACK, Duty, Node, NodeSpec, NodeState
from wattfold.coordinator.core.power.charge import given_back_uw, node_fixed_uw, originals_uw
from wattfold.coordinator.core.state.state import State


def least_uw(state: State, node: Node, spec: NodeSpec) -> int:
    """Return the charge of an admitted node without jobs, in microwatts."""
    if node.dark:
        return state.ledger.accounts[node.node_id].charge_uw
    if node.duty in GIVEN_BACK:
        return given_back_uw(node, spec)
    return node_fixed_uw(node, spec, state.settings.dram_cap_uw)


def lasting_uw(state: State) -> int:
    """Return the power of unreachable resumed nodes above their floors, from original limits.

    No lease ends these limits. So a budget that needs them lowered cannot be met until these nodes
    are back.
    """
    return sum(_above_least_uw(state, node) for node in _unleased(state) if not node.reachable)


def _unleased(state: State) -> list[Node]:
    """Return admitted nodes that may hold original limits, not lowered by a lease since."""
    return [node for node in state.nodes.values() if node.unleased and node.admitted]


def _above_least_uw(state: State, node: Node) -> int:
    spec = node.spec
    return max(given_back_uw(node, spec) - least_uw(state, node, spec), 0) if spec else 0


def set_duty(state: State, node: Node, duty: Duty) -> None:
    """Set the administrative state of a node, and its minimum charge."""
    node.duty = duty
    if duty in GIVEN_BACK:
        node.unleased = True
    state.index.note_duty(node)
    state.index.touch(node.node_id)
    if node.admitted and node.spec is not None:
        state.index.set_fixed(node.node_id, least_uw(state, node, node.spec))


def jobs_there(state: State, node: Node) -> list[Job]:
    """Return jobs with a process on a node, or about to have one, in order of submission."""
    found = []
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank.end is None if rank is not None else not job.ranks:
            found.append(job)
    return found


def obstacle(state: State, node: Node) -> str:
    """Return why a node cannot be released now, or an empty string."""
    if not node.reachable or node.state is not NodeState.UP or node.spec is None:
        return "the node is not up and reachable"
    if conflict := _announced_conflict(state, node, node.spec):
        return conflict
    jobs = [job.job_id for job in jobs_there(state, node)]
    jobs += [job_id for job_id in node.foreign if job_id not in jobs]
    if jobs:
        return f"jobs on the node must end first: {', '.join(jobs[:10])}"
    ledger = state.ledger
    need_uw, free_uw = (
        ledger.increase_uw(node.node_id, originals_uw(node, node.spec)),
        ledger.free_uw,
    )
    # A repetition of the command changes nothing.
    if ledger.fits(need_uw) or (node.duty in GIVEN_BACK and need_uw <= free_uw):
        return ""
    if ledger.room_uw < 0:
        return (
            f"committed power is {-ledger.room_uw / 1e6:.1f} W above the limit of "
            f"{ledger.limit_uw / 1e6:.1f} W and must fall first"
        )
    return (
        f"restoring its original limits needs {need_uw / 1e6:.1f} W more; "
        f"{ledger.shortage(need_uw)}"
    )


def reserve_uw(state: State, node: Node) -> int:
    """Return the charge to reserve for an idle node that is to leave; 0 if it can never fit."""
    spec = node.spec
    if node.duty is not Duty.LEAVING or spec is None or not node.usable or not node.reachable:
        return 0
    if node.foreign or jobs_there(state, node):
        return 0
    fits = _least_after_uw(state, node, spec) <= state.ledger.limit_uw
    return given_back_uw(node, spec) if fits and not _announced_conflict(state, node, spec) else 0


def _least_after_uw(state: State, node: Node, spec: NodeSpec) -> int:
    """Return the minimum power of all nodes once this node has its original limits, in microwatts.

    The power of nodes outside the ledger is part of it.
    """
    others_uw = state.index.fixed_uw - least_uw(state, node, spec) + state.ledger.outside_uw
    return others_uw + given_back_uw(node, spec)


def _announced_conflict(state: State, node: Node, spec: NodeSpec) -> str:
    """Return which announced budget could not be met if the node left, or an empty string.

    Nodes that may hold original limits count with these, although the next lease lowers them: that
    lease may never come. A node that was ordered to leave is charged with its own limits already.
    """
    if node.duty in GIVEN_BACK or not state.announced:
        return ""
    unleased_uw = sum(_above_least_uw(state, one) for one in _unleased(state) if one is not node)
    need_uw = _least_after_uw(state, node, spec) + unleased_uw
    for ahead in state.announced:
        if ahead.budget_uw < need_uw:
            return (
                f"announced budget {ahead.number} of {ahead.budget_uw / 1e6:.1f} W could not be "
                "kept: with the original limits of this node restored, the nodes need at least "
                f"{need_uw / 1e6:.1f} W. It can leave once a higher budget is in force, or after "
                f"`wattfold budget cancel {ahead.number}`"
            )
    return ""


def due(state: State, node: Node, now_ns: int) -> bool:
    """Whether the command to leave must be sent now."""
    if node.duty not in (Duty.LEAVING, Duty.RESTORING) or obstacle(state, node):
        return False
    quiet = not (node.caps_request or node.lease_request or node.dead_zones)
    return quiet and now_ns >= max(node.leave_from_ns, node.caps_retry_ns)


def met(state: State, node: Node, left: bool) -> None:
    """Record whether a node that was ordered to leave has left."""
    if node.duty in GIVEN_BACK:
        set_duty(state, node, Duty.LEFT if left else Duty.LEAVING)
