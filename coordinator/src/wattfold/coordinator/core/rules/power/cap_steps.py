"""Commands that lower and raise the caps of nodes towards their targets.

Caps are lowered at once, unless a limit of the fall holds them and nothing needs their power. They
are raised only within the room of the ledger: a node that does not
fit the limit waits for all of its caps. If only the ramp limit is short, the caps of all nodes that
wait rise by the same share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.node import IN_SERVICE, Duty, Node
from wattfold.coordinator.core.power.cap_sums import Caps
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.coordinator.core.power.ramp import Division
from wattfold.coordinator.core.state.state import State


def _settable(state: State, node: Node, now_ns: int) -> bool:
    return (
        node.reachable
        and node.duty in IN_SERVICE
        and node.node_id in state.ledger.accounts
        and not node.caps_request
        and now_ns >= node.caps_retry_ns
    )


def _send_caps(
    state: State,
    node: Node,
    caps: Caps,
    cause: str,
) -> act.Action:
    state.ledger.send(node.node_id, caps)
    return _set_caps(state, node, caps, cause)


def _set_caps(
    state: State,
    node: Node,
    caps: Caps,
    cause: str,
) -> act.Action:
    # A lease that is answered later may have read the caps before this command arrived.
    node.caps_request, node.lease_reads = state.next_request(), False
    return act.SetCaps(
        node_id=node.node_id,
        caps=tuple(sorted(caps.items())),
        request_id=node.caps_request,
        cause=cause,
    )


def lower(state: State, capped: Collection[NodeId], now_ns: int, cause: str) -> list[act.Action]:
    """Lower caps that are above their targets: at once, or as the limit of the fall permits."""
    out: list[act.Action] = []
    held = state.cap_sums.held_uw
    lower = _lower_caps(state, held.keys() | set(capped) if held else capped, now_ns)
    for node_id in capped if held else ():
        held.pop(node_id, None)
    if not lower:
        return out
    needs_uw = {
        node_id: _fall_uw(state, node_id, caps)
        for node_id, caps in lower.items()
        if state.ledger.ramp.fall.rate_uw_per_s and _obeys(state, node_id)
    }
    needed_uw = sum(needs_uw.values())
    part_uw = needed_uw
    if needed_uw and _fall_can_wait(state):
        part_uw = state.ledger.ramp.fall.part_uw(-state.ledger.ordered_uw, needed_uw)
    division = Division(needed_uw=needed_uw, granted_uw=part_uw)
    for node_id, caps in lower.items():
        if part_uw < needed_uw and (need_uw := needs_uw.get(node_id, 0)):
            caps = _lower_part(state, node_id, caps, division.share_uw(need_uw))
            fall_uw = _fall_uw(state, node_id, caps)
            division.take(need_uw, fall_uw)
            held[node_id] = need_uw - fall_uw
        else:
            held.pop(node_id, None)
        if caps:
            out.append(_send_caps(state, state.nodes[node_id], caps, cause))
    return out


def _lower_caps(state: State, node_ids: Collection[NodeId], now_ns: int) -> dict[NodeId, Caps]:
    """Return the caps to lower of the nodes that can be reached now."""
    found: dict[NodeId, Caps] = {}
    for node_id in state.cap_sums.in_order(node_ids, state.index.node_order):
        node = state.nodes[node_id]
        if not _settable(state, node, now_ns) or node.spec is None:
            continue
        zones = state.ledger.accounts[node_id].zones
        lower = {
            name: cap
            for name, cap in state.cap_sums.caps(node.spec).items()
            if zones[name].too_high(cap, now_ns)
            # A zone that did not obey is sent the cap again, to find out whether it obeys now.
            or (name in node.dead_zones and cap <= zones[name].confirmed_uw)
        }
        if lower:
            found[node_id] = lower
    return found


def _obeys(state: State, node_id: NodeId) -> bool:
    """Whether all caps of a node are known and in force, so that lowering them can wait."""
    zones = state.ledger.accounts[node_id].zones.values()
    return not (state.nodes[node_id].dead_zones or any(zone.uncertain_uw for zone in zones))


def _fall_can_wait(state: State) -> bool:
    """Whether nothing needs the power: no lower limit, no waiting cap and no waiting node."""
    sums, free_uw = state.cap_sums, state.ledger.budget_free_uw
    if state.ledger.room_uw < 0 or state.emergency is not None or sums.scaled:
        return False
    if state.index.leaving or state.index.switching or state.index.unadmitted:
        return False
    return all(need_uw <= free_uw for need_uw in sums.waiting_uw.values())


def _fall_uw(state: State, node_id: NodeId, caps: Caps) -> int:
    zones = state.ledger.accounts[node_id].zones
    return sum(max(zones[name].confirmed_uw - cap_uw, 0) for name, cap_uw in caps.items())


def _lower_part(state: State, node_id: NodeId, caps: Caps, share_uw: int) -> Caps:
    """Return the caps that a share of their fall leaves, rounded up."""
    zones = state.ledger.accounts[node_id].zones
    need_uw = max(_fall_uw(state, node_id, caps), 1)
    found: Caps = {}
    for name, cap_uw in caps.items():
        confirmed_uw = zones[name].confirmed_uw
        left_uw = confirmed_uw - (confirmed_uw - cap_uw) * share_uw // need_uw
        left_uw = -(-left_uw // CAP_STEP_UW) * CAP_STEP_UW
        if max(left_uw, cap_uw) < confirmed_uw:
            found[name] = max(left_uw, cap_uw)
    return found


def next_fall_ns(state: State) -> int:
    """Return when the ramp limit permits the next fall of held caps; 0 = none is held."""
    fall = state.ledger.ramp.fall
    needed_uw = sum(state.cap_sums.held_uw.values())
    return fall.next_ns(-state.ledger.ordered_uw, needed_uw) if needed_uw else 0


def lower_strangers(
    state: State, nodes: Iterable[Node], now_ns: int, cause: str
) -> list[act.Action]:
    """Lower nodes that are not admitted to their floors, so that they can be admitted."""
    out: list[act.Action] = []
    for node in nodes:
        idle = node.reachable and not node.caps_request and now_ns >= node.caps_retry_ns
        if node.admitted or not idle or node.spec is None or node.duty is Duty.OUTSIDE:
            continue
        lower = {
            zone.name: zone.floor_uw
            for zone in node.spec.zones
            if zone.can_cap and node.read_uw.get(zone.name, 0) > zone.floor_uw
        }
        if lower:
            out.append(_set_caps(state, node, lower, cause))
    return out


def raise_caps(
    state: State, capped: Collection[NodeId], now_ns: int, cause: str
) -> list[act.Action]:
    """Raise caps within the available room; a node without room waits until there is enough."""
    out: list[act.Action] = []
    waiting, ledger = state.cap_sums.waiting_uw, state.ledger
    if not waiting and not capped:
        return out
    higher = _higher(state, capped, now_ns)
    for node_id in capped if waiting else ():
        waiting.pop(node_id, None)
    if not (higher or waiting):
        return out
    needs_uw = {node_id: ledger.increase_uw(node_id, caps) for node_id, caps in higher.items()}
    ready = _within(waiting | needs_uw, ledger.budget_free_uw)
    needed_uw = sum(ready.values())
    part_uw = ledger.ramp.rise.part_uw(ledger.possible_uw, needed_uw)
    if part_uw or not needed_uw:
        higher |= _higher(state, ready.keys() - higher.keys(), now_ns)
    division = Division(needed_uw=needed_uw, granted_uw=part_uw)
    for node_id in state.cap_sums.in_order(higher, state.index.node_order):
        caps = higher[node_id]
        waiting.pop(node_id, None)
        need_uw = ledger.increase_uw(node_id, caps)
        if part_uw < needed_uw and node_id in ready:
            caps = _part(state, node_id, caps, division.share_uw(need_uw))
            division.take(need_uw, ledger.increase_uw(node_id, caps))
        if caps and ledger.may_raise(node_id, caps):
            need_uw -= ledger.increase_uw(node_id, caps)
            out.append(_send_caps(state, state.nodes[node_id], caps, cause))
        else:
            waiting[node_id] = need_uw
        _note_rise(state.nodes[node_id], need_uw if node_id in ready else 0)
    return out


def rising_uw(state: State) -> int:
    """Return the power that caps wait for because of the ramp limit, in microwatts."""
    return sum(node.rising_uw for node in state.nodes.values())


def next_rise_ns(state: State) -> int:
    """Return when the ramp limit permits the next rise of the caps that wait for it; 0 = none."""
    ledger = state.ledger
    if not ledger.ramp.rise.rate_uw_per_s:
        return 0
    needed_uw = sum(_within(state.cap_sums.waiting_uw, ledger.budget_free_uw).values())
    return ledger.ramp.rise.next_ns(ledger.possible_uw, needed_uw) if needed_uw else 0


def _higher(state: State, node_ids: Collection[NodeId], now_ns: int) -> dict[NodeId, Caps]:
    """Return the caps to raise of the nodes that can be raised now."""
    found: dict[NodeId, Caps] = {}
    for node_id in state.cap_sums.in_order(node_ids, state.index.node_order):
        node = state.nodes[node_id]
        if not node.leased or not _settable(state, node, now_ns) or node.spec is None:
            continue
        zones = state.ledger.accounts[node_id].zones
        higher = {
            name: cap
            for name, cap in state.cap_sums.caps(node.spec).items()
            if cap > zones[name].confirmed_uw and cap != zones[name].asked_uw
        }
        if higher:
            found[node_id] = higher
        else:
            _note_rise(node, 0)
    return found


def _within(needs_uw: Mapping[NodeId, int], free_uw: int) -> dict[NodeId, int]:
    """Return the needs that the limit leaves room for, one by one."""
    return {node_id: need_uw for node_id, need_uw in needs_uw.items() if need_uw <= free_uw}


def _part(state: State, node_id: NodeId, caps: Caps, share_uw: int) -> Caps:
    """Return the caps to which a share of their rise suffices, rounded down."""
    zones = state.ledger.accounts[node_id].zones
    need_uw = max(state.ledger.increase_uw(node_id, caps), 1)
    found: Caps = {}
    for name, cap_uw in caps.items():
        charge_uw = zones[name].charge_uw
        if cap_uw > charge_uw:
            part_uw = charge_uw + (cap_uw - charge_uw) * share_uw // need_uw
            cap_uw = part_uw // CAP_STEP_UW * CAP_STEP_UW
        if cap_uw > zones[name].confirmed_uw and cap_uw != zones[name].asked_uw:
            found[name] = cap_uw
    return found


def _note_rise(node: Node, rising_uw: int) -> None:
    if node.rising_uw != rising_uw:
        node.rising_uw = rising_uw
