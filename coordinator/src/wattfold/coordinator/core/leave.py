"""A node is given back: when it may get its original limits, what that costs, how it ends.

Original limits are charged before the command goes out, as every raise is, and stay charged until
somebody forgets the node. The command is repeated until it is answered; nothing that would take the
node in again (a lease, a cap) is sent to it meanwhile, or may still be on its way.
"""

from __future__ import annotations

from wattfold.coordinator.core.charge import given_back_uw, node_fixed_uw, originals_uw
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.node import GIVEN_BACK, Duty, Node, NodeSpec, NodeState
from wattfold.coordinator.core.state import State


def least_uw(state: State, node: Node, spec: NodeSpec) -> int:
    """Charge of an admitted node without jobs, microwatts."""
    if node.duty in GIVEN_BACK:
        return given_back_uw(node, spec)
    return node_fixed_uw(node, spec, state.settings.dram_cap_uw)


def lasting_uw(state: State) -> int:
    """What resumed nodes out of reach hold above their floors, of limits that were given back.

    No lease ends these, so no budget that needs them lowered can be kept before they are back.
    """
    return sum(
        max(given_back_uw(node, node.spec) - least_uw(state, node, node.spec), 0)
        for node in state.nodes.values()
        if node.unleased and not node.reachable and node.admitted and node.spec is not None
    )


def set_duty(state: State, node: Node, duty: Duty) -> None:
    """The duty of a node is another one, and with it the least it is charged with."""
    node.duty = duty
    if duty in GIVEN_BACK:
        node.unleased = True
    state.index.note_duty(node)
    state.index.touch(node.node_id)
    if node.admitted and node.spec is not None:
        state.index.set_fixed(node.node_id, least_uw(state, node, node.spec))


def jobs_there(state: State, node: Node) -> list[Job]:
    """Jobs with a process on a node, or about to have one, in order of submission."""
    found = []
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank.end is None if rank is not None else not job.ranks:
            found.append(job)
    return found


def obstacle(state: State, node: Node) -> str:
    """Why a node cannot be given back now, for people; empty if it can."""
    if not node.reachable or node.state is not NodeState.UP or node.spec is None:
        return "the node is not up and reachable"
    jobs = [job.job_id for job in jobs_there(state, node)]
    jobs += [job_id for job_id in node.foreign if job_id not in jobs]
    if jobs:
        return f"jobs on the node must end first: {', '.join(jobs[:10])}"
    need_uw = state.ledger.increase_uw(node.node_id, originals_uw(node, node.spec))
    free_uw = state.ledger.free_uw
    if need_uw <= free_uw:
        return ""
    return (
        f"restoring its original limits needs {need_uw / 1e6:.1f} W more; "
        f"{free_uw / 1e6:.1f} W of the budget are free"
    )


def reserve_uw(state: State, node: Node) -> int:
    """Charge of an idle node to keep room for because it is to leave; 0 if it can never fit."""
    spec = node.spec
    if node.duty is not Duty.LEAVING or spec is None or not node.usable or not node.reachable:
        return 0
    if node.foreign or jobs_there(state, node):
        return 0
    back_uw = given_back_uw(node, spec)
    others_uw = state.index.fixed_uw - least_uw(state, node, spec) + state.ledger.outside_uw
    return back_uw if others_uw + back_uw <= state.ledger.limit_uw else 0


def due(state: State, node: Node, now_ns: int) -> bool:
    """Whether the command to leave is to be sent now."""
    if node.duty not in (Duty.LEAVING, Duty.RESTORING) or obstacle(state, node):
        return False
    quiet = not (node.caps_request or node.lease_request or node.dead_zones)
    return quiet and now_ns >= max(node.leave_from_ns, node.caps_retry_ns)


def met(state: State, node: Node, left: bool) -> None:
    """An agent that was told to leave says whether it has."""
    if node.duty in GIVEN_BACK:
        set_duty(state, node, Duty.LEFT if left else Duty.LEAVING)
