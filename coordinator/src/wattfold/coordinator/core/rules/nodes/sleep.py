"""Nodes that sleep: orders, steps, and the charge of a node without power.

A node without power is *dark*: its account is one amount, without zones, because no agent holds
caps there. The amount of a boot is charged before the boot is ordered, and no later budget lowers
it. So a boot must fit every announced budget, as the original limits of a leaving node must.

Every step is repeated until a report confirms it. So the program that switches the power must give
the same result if it is called again.
"""

from __future__ import annotations

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.node import IN_SERVICE, Node, NodeState
from wattfold.coordinator.core.model.node_power import SLEEPING, PowerState
from wattfold.coordinator.core.power.charge import node_fixed_uw
from wattfold.coordinator.core.rules.nodes import leave
from wattfold.coordinator.core.state.state import State

_STARTING = frozenset({*SLEEPING, PowerState.BOOTING})


def refusal(node: Node, order: NodeOrder) -> str:
    """Return why an order does not apply to a node in its power state, or an empty string."""
    if order is NodeOrder.SLEEP:
        if node.duty not in IN_SERVICE:
            return f"it is {node.duty.value}; only a node in service can sleep"
        if node.power is PowerState.BOOTING:
            return "it boots; order it to sleep once it is up"
        if node.power is PowerState.AWAKE and node.state is not NodeState.UP:
            return f"it is {node.state.value}; only a node that is up can fall asleep"
    if order is NodeOrder.LEAVE and node.dark:
        return (
            f"it is {node.power.value} and has no limits to restore; wake it first with "
            f"`wattfold node wake {node.node_id}`, or remove it with `wattfold node forget`"
        )
    return ""


def ordered(state: State, node: Node, order: NodeOrder) -> None:
    """Record an order to sleep or to wake. An order that is already carried out changes nothing."""
    if order is NodeOrder.SLEEP:
        node.wakes_next = False
        if node.power is PowerState.AWAKE:
            _set(state, node, PowerState.TIRED)
        elif node.power is PowerState.CALLED:
            _set(state, node, PowerState.ASLEEP)
    elif node.power is PowerState.TIRED:
        _set(state, node, PowerState.AWAKE)
    elif node.power is PowerState.ASLEEP:
        _set(state, node, PowerState.CALLED)
    elif node.power is PowerState.FALLING:
        # The suspension may be under way. The node starts again after it.
        node.wakes_next = True


def _set(state: State, node: Node, power: PowerState) -> None:
    node.power = power
    state.index.note_power(node)
    state.index.touch(node.node_id)
    state.plan_needed = f"node {power.value}"


def boot_uw(state: State, node: Node) -> int:
    """Return the charge of a node during its boot, in microwatts: never below its idle charge."""
    spec, dram_cap_uw = node.spec, state.settings.dram_cap_uw
    idle_uw = node_fixed_uw(node, spec, dram_cap_uw) if spec else 0
    return max(state.settings.sleep.boot_uw, idle_uw)


def _needed_uw(state: State, node: Node) -> int:
    return boot_uw(state, node) - state.ledger.accounts[node.node_id].charge_uw


def _least_after_uw(state: State, node: Node) -> int:
    return state.index.fixed_uw + state.ledger.outside_uw + _needed_uw(state, node)


def _booting(state: State) -> int:
    nodes = state.index.switching.values()
    return sum(node.dark and node.power not in SLEEPING for node in nodes)


def obstacle(state: State, node: Node) -> str:
    """Return why an ordered change has not begun, or an empty string."""
    if node.power is PowerState.TIRED:
        jobs = [job.job_id for job in leave.jobs_there(state, node)]
        jobs += [job_id for job_id in node.foreign if job_id not in jobs]
        if jobs:
            return f"jobs on the node must end first: {', '.join(jobs[:10])}"
        return "" if node.state is NodeState.UP else "the node is not up and reachable"
    if node.power is not PowerState.CALLED:
        return ""
    least_uw = _least_after_uw(state, node)
    for ahead in state.announced:
        if ahead.budget_uw < least_uw:
            return (
                f"announced budget {ahead.number} of {ahead.budget_uw / 1e6:.1f} W could not be "
                f"kept: during the boot, the nodes need at least {least_uw / 1e6:.1f} W"
            )
    booting, most = _booting(state), state.settings.sleep.boots_max
    if booting >= most:
        return f"{booting} nodes boot already, and at most {most} may boot at once"
    need_uw, ledger = _needed_uw(state, node), state.ledger
    if not ledger.fits(need_uw):
        return f"its boot needs {need_uw / 1e6:.1f} W more; {ledger.shortage(need_uw)}"
    return ""


def reserve_uw(state: State, node: Node) -> int:
    """Return the charge to reserve for a dark node: that of its boot if the boot is next.

    Caps of running jobs are lowered for it. A boot that can never fit reserves nothing.
    """
    charge_uw = state.ledger.accounts[node.node_id].charge_uw
    if node.power is not PowerState.CALLED or _booting(state) >= state.settings.sleep.boots_max:
        return charge_uw
    called = [one for one in state.index.switching.values() if one.power is PowerState.CALLED]
    if node is not called[0]:
        return charge_uw
    least_uw = _least_after_uw(state, node)
    limits_uw = [state.ledger.limit_uw, *(ahead.budget_uw for ahead in state.announced)]
    return boot_uw(state, node) if least_uw <= min(limits_uw) else charge_uw


def steps(state: State, now_ns: int, cause: str) -> list[act.Action]:
    """Return the orders about power that are due, and charge a boot before it is ordered."""
    out: list[act.Action] = []
    for node in list(state.index.switching.values()):
        _look_at_time(state, node, now_ns)
        ramps = node.power is PowerState.CALLED and now_ns < state.boots_from_ns
        if ramps or now_ns < node.power_retry_ns:
            continue
        if node.power in (PowerState.TIRED, PowerState.CALLED) and not obstacle(state, node):
            _begin(state, node, now_ns)
        if node.power not in (PowerState.FALLING, PowerState.BOOTING):
            continue
        if not node.power_request:
            node.power_request = state.next_request()
            out.append(_switch(state, node, cause))
    return out


def _switch(state: State, node: Node, cause: str) -> act.SwitchPower:
    on, settings = node.power is PowerState.BOOTING, state.settings.sleep
    return act.SwitchPower(
        node_id=node.node_id,
        on=on,
        within_ns=settings.boot_ns if on else settings.suspend_ns,
        request_id=node.power_request,
        cause=cause,
    )


def _begin(state: State, node: Node, now_ns: int) -> None:
    node.power_since_ns, node.power_retry_ns = now_ns, 0
    if node.power is PowerState.TIRED:
        _set(state, node, PowerState.FALLING)
        return
    settings = state.settings.sleep
    if settings.ramp_uw:
        state.boots_from_ns = now_ns + _needed_uw(state, node) * NS_PER_S // settings.ramp_uw
    darken(state, node, boot_uw(state, node))
    _set(state, node, PowerState.BOOTING)
    node.boots += 1
    if settings.boots_a_day:
        node.booted_ns = (*node.booted_ns, now_ns)[-settings.boots_a_day :]


def darken(state: State, node: Node, charge_uw: int) -> None:
    """Charge a node without an agent with one amount, in microwatts."""
    # The sum may be above a limit that was just lowered, and falls with a node that is off.
    state.ledger.reopen(node.node_id, charge_uw, {})
    node.dark, node.unleased, node.state = True, False, NodeState.DOWN
    node.lease_until_ns = 0
    node.dead_zones.clear()
    node.not_held_uw = {}
    state.index.set_fixed(node.node_id, charge_uw)
    state.index.touch(node.node_id)


def _look_at_time(state: State, node: Node, now_ns: int) -> None:
    """Give up a boot that is late. The node is switched off, and charged until it is off."""
    if node.power is not PowerState.BOOTING or now_ns < boot_ends_ns(state, node):
        return
    node.failed_boots, node.boot_failed = node.failed_boots + 1, True
    node.message = f"did not report within {state.settings.sleep.boot_ns / 1e9:.0f} s of its start"
    node.power_request, node.power_retry_ns, node.power_since_ns = "", 0, now_ns
    _set(state, node, PowerState.FALLING)


def boot_ends_ns(state: State, node: Node) -> int:
    """Return when a boot has failed."""
    return node.power_since_ns + state.settings.sleep.boot_ns


def next_ns(state: State, node: Node) -> list[int]:
    """Return the times at which something about the power of a node is due."""
    times = [node.power_retry_ns]
    if node.power is PowerState.BOOTING:
        times.append(boot_ends_ns(state, node))
    return times


def answered(state: State, event: reports.PowerAnswered, now_ns: int) -> list[act.Action]:
    """Record the result of an order about power.

    A suspended node counts as asleep only if its agent does not answer either. Otherwise the order
    is repeated.
    """
    node = state.nodes[event.node_id]
    if not node.power_request or event.request_id != node.power_request:
        return []
    node.power_request = ""
    settings = state.settings
    if event.error:
        node.message = event.error
        node.power_retry_ns = now_ns + 10 * settings.retry_ns
    elif node.power is PowerState.BOOTING:
        # The node reports by itself. The order is repeated only if it was lost.
        node.power_retry_ns = boot_ends_ns(state, node)
    elif node.power is PowerState.FALLING and node.reachable:
        node.message = "was reported without power, but its agent answers"
        node.power_retry_ns = now_ns + 10 * settings.retry_ns
    elif node.power is PowerState.FALLING:
        _fell_asleep(state, node)
    state.index.touch(node.node_id)
    return []


def _fell_asleep(state: State, node: Node) -> None:
    boot_failed = node.dark
    darken(state, node, state.settings.sleep.asleep_uw)
    node.caps_request = node.lease_request = ""
    if not boot_failed:
        node.message = ""
    _set(state, node, PowerState.CALLED if node.wakes_next else PowerState.ASLEEP)
    node.wakes_next = False


def lost_orders(node: Node, again_ns: int = 0) -> None:
    """Forget an order whose answer can no longer arrive, so that it is repeated at this time."""
    node.power_request, node.power_retry_ns = "", again_ns


def reported(state: State, node: Node, now_ns: int) -> None:
    """Release the charge of a dark node that answers; it is admitted like a new node.

    The node may answer although it was to sleep. Its power is then outside the ledger until it is
    admitted, as for every node that appears.
    """
    if not node.dark:
        return
    state.ledger.close(node.node_id)
    node.dark = node.admitted = node.boot_failed = False
    node.state = NodeState.CONNECTING
    state.index.unadmitted[node.node_id] = node
    state.index.set_fixed(node.node_id, 0)
    if node.power is PowerState.BOOTING:
        node.boot_took_ns, node.awake_since_ns = now_ns - node.power_since_ns, now_ns
    if node.power in _STARTING:
        lost_orders(node)
        _set(state, node, PowerState.AWAKE)


def forgotten(state: State, node: Node) -> None:
    """End the power state of a node that an operator removes."""
    node.dark = node.wakes_next = False
    lost_orders(node)
    _set(state, node, PowerState.AWAKE)
