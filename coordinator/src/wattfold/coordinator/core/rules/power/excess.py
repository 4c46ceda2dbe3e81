"""Causes why committed power exceeds the budget, as texts.

The sum may exceed the budget while a lowered budget is within its deadline, after a zone exceeded
its cap, or if the minimum power of the nodes is above the budget. Each cause names its nodes and
their charge in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator

from wattfold.coordinator.core.model.node import GIVEN_BACK, Node, NodeState
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.coordinator.core.power.ledger import NodeAccount
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power
from wattfold.coordinator.core.state.state import State

_NAMES_MAX = 5


def excess_cause(state: State) -> str:
    """Return the causes, longest-lasting first."""
    found = unaccounted_power(state)
    causes = list(_causes(state))
    if found.counted_uw:
        names = ", ".join(found.nodes[:_NAMES_MAX])
        causes.append(
            f"nodes outside the ledger ({names}) may draw {found.counted_uw / 1e6:.1f} W more"
        )
    return "; ".join(causes) or "the caps of the nodes are not lowered yet"


def _causes(state: State) -> Iterator[str]:
    floors_uw = sum(_floor_uw(state, node) for node in state.nodes.values() if node.admitted)
    if floors_uw > state.ledger.budget_uw:
        yield f"the floors of the nodes alone need {floors_uw / 1e6:.1f} W"
    groups: dict[str, list[tuple[Node, int]]] = {}
    for node_id, account in state.ledger.accounts.items():
        node = state.nodes[node_id]
        above_uw = account.charge_uw - _floor_uw(state, node)
        if above_uw > 0 and (what := _what_holds(node, account)):
            groups.setdefault(what, []).append((node, above_uw))
    for what in (_RELEASED, _UNHEARD, _SILENT, _OVER_CAPS, _REFUSED, _LOWERED):
        if held := groups.get(what):
            names = ", ".join(node.node_id for node, _ in held[:_NAMES_MAX])
            more = f" and {len(held) - _NAMES_MAX} more" if len(held) > _NAMES_MAX else ""
            total_uw = sum(above_uw for _, above_uw in held)
            yield f"{what} ({names}{more}) may draw {total_uw / 1e6:.1f} W above their floors"


_RELEASED = "released nodes with their original limits"
_UNHEARD = "nodes that do not answer and have limits that no lease ends"
_SILENT = "nodes that do not answer and may still have a lease"
_OVER_CAPS = "nodes that draw more than their caps"
_REFUSED = "nodes that refused their caps"
_LOWERED = "nodes whose caps are being lowered"


def _what_holds(node: Node, account: NodeAccount) -> str:
    """Return why the charge of a node is above its floors, if the plan is not the only cause."""
    zones = account.zones.values()
    if node.duty in GIVEN_BACK or (node.unleased and node.reachable):
        return _RELEASED
    if node.unleased:
        return _UNHEARD
    if node.state is NodeState.SILENT:
        return _SILENT
    if any(zone.overdraw_uw for zone in zones):
        return _OVER_CAPS
    if node.dead_zones:
        return _REFUSED
    lowered = any(zone.settling or zone.uncertain_uw or zone.pending_uw for zone in zones)
    return _LOWERED if lowered else ""


def _floor_uw(state: State, node: Node) -> int:
    return fixed_uw(node.spec, state.settings.dram_cap_uw) if node.spec else 0
