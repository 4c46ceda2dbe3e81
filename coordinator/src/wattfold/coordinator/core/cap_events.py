"""How answers about leases and caps change the state: what is charged is what was read back."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import ZoneName
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import admission, reports
from wattfold.coordinator.core.charge import originals_uw
from wattfold.coordinator.core.node import GIVEN_BACK, Node, NodeSpec
from wattfold.coordinator.core.state import State

_HELD_WINDOWS = 5
"""An agent needs two to find that a cap is not held: one that was started again, or a load that
came back, must not be charged less in between."""
_WINDOW_NS_MIN = 1_000_000_000


def lease_renewed(state: State, event: reports.LeaseRenewed, now_ns: int) -> list[act.Action]:
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
        read_caps(state, node, event.caps, now_ns)
    return []


def lease_unconfirmed(
    state: State, event: reports.LeaseUnconfirmed, now_ns: int
) -> list[act.Action]:
    """Asked again soon; the bound of `lease_until_ns` already counts the lost one as granted."""
    node = state.nodes[event.node_id]
    if event.request_id == node.lease_request:
        node.lease_request = ""
        node.lease_next_ns = now_ns + state.settings.retry_ns // 4
        node.leave_from_ns = seen_by_ns(state, now_ns)
        node.message = f"lease not renewed: {event.reason}"
    return []


def caps_answered(state: State, event: reports.CapsAnswered, now_ns: int) -> list[act.Action]:
    """The answer to a command: the ledger charges what was read back, asked for or not."""
    node = state.nodes[event.node_id]
    if event.request_id != node.caps_request:
        return []
    node.caps_request = ""
    if not node.admitted:
        _strangers_caps(state, node, event.caps, now_ns)
        return []
    read_caps(state, node, event.caps, now_ns)
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
    caps: tuple[reports.ZoneReading, ...],
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


def caps_unconfirmed(state: State, event: reports.CapsUnconfirmed, now_ns: int) -> list[act.Action]:
    """No answer: both values may hold until a renewal of the lease has read them."""
    node = state.nodes[event.node_id]
    if event.request_id == node.caps_request:
        node.caps_request, node.lease_next_ns = "", now_ns
        node.leave_from_ns = seen_by_ns(state, now_ns)
        node.caps_retry_ns = now_ns + state.settings.retry_ns
        state.ledger.lose(node.node_id, seen_by_ns(state, now_ns))
    return []


def caps_not_held(state: State, event: reports.CapsNotHeld, now_ns: int) -> list[act.Action]:
    """A node was measured: zones that draw more than their caps are charged with their most."""
    node = state.nodes.get(event.node_id)
    if node is None or node.spec is None:
        return []
    before_uw = node.not_held_uw
    overdraw(state, node, node.spec, dict(event.powers_uw), now_ns)
    if node.not_held_uw != before_uw:
        state.plan_needed = "cap not held" if node.not_held_uw else "cap held again"
    if node.admitted:
        admission.count_fixed(state, node, node.spec)
    else:
        admission.admit(state, node)
    return []


def overdraw(
    state: State, node: Node, spec: NodeSpec, powers_uw: dict[ZoneName, int], now_ns: int
) -> None:
    """Measured powers are means: what is charged is not below the highest cap either."""
    zones = [zone for zone in spec.zones if powers_uw.get(zone.name)]
    node.not_held_uw = {z.name: max(powers_uw[z.name], z.cap_uw_max) for z in zones}
    windows_ns = [max(zone.window_ns, _WINDOW_NS_MIN) for zone in spec.zones]
    settled_ns = now_ns + _HELD_WINDOWS * max(windows_ns, default=_WINDOW_NS_MIN)
    state.ledger.overdraw(node.node_id, node.not_held_uw, settled_ns)


def read_left(state: State, node: Node, caps: tuple[reports.ZoneReading, ...], now_ns: int) -> None:
    """Takes in what zones hold that nobody enforces: up to their original limits they may draw."""
    told_uw = originals_uw(node, node.spec) if node.spec else {}
    held = [
        replace(reading, cap_uw=max(reading.cap_uw, told_uw.get(reading.zone, 0)))
        for reading in caps
        if not reading.error
    ]
    failed = [reading for reading in caps if reading.error and reading.cap_uw]
    read_caps(state, node, (*held, *failed), now_ns)


def read_caps(
    state: State,
    node: Node,
    caps: tuple[reports.ZoneReading, ...],
    now_ns: int,
) -> None:
    """Takes in what zones are held to."""
    windows = {zone.name: zone.window_ns for zone in node.spec.zones} if node.spec else {}
    for reading in caps:
        settles_ns = max(reading.settles_in_ns, windows.get(reading.zone, 0))
        settled_ns = now_ns + settles_ns
        state.ledger.confirm(node.node_id, reading.zone, reading.cap_uw, settled_ns, now_ns)


def longest_lease_ns(state: State) -> int:
    """How long from now a lease can hold that was granted or asked for until now."""
    return state.lease_ns + state.command_timeout_ns + state.settings.lease_slack_ns


def seen_by_ns(state: State, now_ns: int) -> int:
    """From when on an answer has seen every command that was given up by now.

    A lost command arrives within a command's time-out if at all. What is read back was read up to
    two of them before: first contact asks for the caps, then for the processes.
    """
    return now_ns + 3 * state.command_timeout_ns
