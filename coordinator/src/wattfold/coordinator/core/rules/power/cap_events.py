"""Answers about leases and caps, as changes of the state: the ledger charges read-back values."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.ids import ZoneName
from wattfold.contract.plausible import power_uw_max
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node import GIVEN_BACK, Node, NodeSpec
from wattfold.coordinator.core.power.charge import originals_uw
from wattfold.coordinator.core.rules.power import admission
from wattfold.coordinator.core.state.state import State

_HELD_WINDOWS = 5
"""Number of averaging windows for which the charge of a cap that is held again stays.

An agent needs two windows to detect that a cap is not held. After a restart of the agent or a pause
of the load, the charge must not fall in between.
"""
_WINDOW_NS_MIN = 1_000_000_000


def lease_renewed(state: State, event: reports.LeaseRenewed, now_ns: int) -> list[act.Action]:
    """Record a granted lease, for which caps above the floor hold, and the caps read with it."""
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
    """Retry soon. The bound `lease_until_ns` already counts the lost lease as granted."""
    node = state.nodes[event.node_id]
    if event.request_id == node.lease_request:
        node.lease_request = ""
        node.lease_next_ns = now_ns + state.settings.retry_ns // 4
        node.leave_from_ns = seen_by_ns(state, now_ns)
        node.message = f"lease not renewed: {event.reason}"
    return []


def caps_answered(state: State, event: reports.CapsAnswered, now_ns: int) -> list[act.Action]:
    """Record the answer to a command: the ledger charges the read-back caps in any case."""
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
    """Record caps of a node that is not admitted; it may be admitted after its windows."""
    windows_ns = [zone.window_ns for zone in node.spec.zones] if node.spec else []
    wait_ns = max([*windows_ns, *(reading.settles_in_ns for reading in caps), 1])
    for reading in caps:
        node.read_uw[reading.zone] = reading.cap_uw
        if reading.error:
            wait_ns = max(wait_ns, state.settings.retry_ns)
            node.message = f"{reading.zone}: {reading.error}"
    node.unleased = node.unleased and any(reading.error for reading in caps)
    node.caps_retry_ns = now_ns + wait_ns


def caps_unconfirmed(state: State, event: reports.CapsUnconfirmed, now_ns: int) -> list[act.Action]:
    """Mark caps without an answer as lost: both values may hold until a renewal reads them."""
    node = state.nodes[event.node_id]
    if event.request_id == node.caps_request:
        node.caps_request, node.lease_next_ns = "", now_ns
        node.leave_from_ns = seen_by_ns(state, now_ns)
        node.caps_retry_ns = now_ns + state.settings.retry_ns
        state.ledger.lose(node.node_id, seen_by_ns(state, now_ns))
    return []


def caps_not_held(state: State, event: reports.CapsNotHeld, now_ns: int) -> list[act.Action]:
    """Charge zones that draw more than their caps with their maximum power."""
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
    """Charge a zone that exceeds its cap with at least its maximum cap: powers are means.

    The charge is limited to the possible power of the zone, so that a false reading does not
    throttle other nodes.
    """
    zones = [zone for zone in spec.zones if powers_uw.get(zone.name)]
    node.not_held_uw = {
        z.name: min(max(powers_uw[z.name], z.cap_uw_max), power_uw_max(z.cap_uw_max)) for z in zones
    }
    windows_ns = [max(zone.window_ns, _WINDOW_NS_MIN) for zone in spec.zones]
    settled_ns = now_ns + _HELD_WINDOWS * max(windows_ns, default=_WINDOW_NS_MIN)
    state.ledger.overdraw(node.node_id, node.not_held_uw, settled_ns)


def read_left(state: State, node: Node, caps: tuple[reports.ZoneReading, ...], now_ns: int) -> None:
    """Record zones of a node without enforcement, charged up to their original limits."""
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
    """Record the caps of zones."""
    windows = {zone.name: zone.window_ns for zone in node.spec.zones} if node.spec else {}
    for reading in caps:
        settles_ns = max(reading.settles_in_ns, windows.get(reading.zone, 0))
        settled_ns = now_ns + settles_ns
        state.ledger.confirm(node.node_id, reading.zone, reading.cap_uw, settled_ns, now_ns)


def doubt(state: State, node: Node, now_ns: int) -> None:
    """Charge a node whose caps are unknown with its maximum power until they are read.

    A node that may have left is charged with its original limits, which may be higher.
    """
    if node.spec is None:
        return
    most_uw = {zone.name: zone.cap_uw_max for zone in node.spec.zones if zone.can_cap}
    if node.unleased:
        told_uw = originals_uw(node, node.spec)
        most_uw = {name: max(uw, told_uw[name]) for name, uw in most_uw.items()}
    state.ledger.doubt(node.node_id, most_uw, now_ns)


def longest_lease_ns(state: State) -> int:
    """Return how long from now a lease can hold that was granted or requested until now."""
    return state.lease_ns + state.command_timeout_ns + state.settings.lease_slack_ns


def seen_by_ns(state: State, now_ns: int) -> int:
    """Return the time from which an answer includes every command that failed by now.

    A lost command arrives within the time-out of a command, or never. The read-back may be up to
    two time-outs old: first contact requests the caps, then the processes.
    """
    return now_ns + 3 * state.command_timeout_ns
