"""The caps wanted on every node, scaled so that they fit what the nodes out of reach leave.

A plan fits its budget; scaling is for what happened since: a lower budget, a node lost. What every
node adds to the sums that decide on scaling is kept, and found anew for touched nodes only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.charge import clipped_uw, node_fixed_uw
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.leave import reserve_uw
from wattfold.coordinator.core.node import IN_SERVICE, Node, NodeSpec
from wattfold.coordinator.core.outside import counted_uw
from wattfold.coordinator.core.targets import zone_targets

if TYPE_CHECKING:
    from wattfold.coordinator.core.state import State

Caps = dict[ZoneName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One node. ``taken_uw`` is charged for a node whose caps cannot be chosen now."""

    caps: Caps | None = None
    """None: no caps are wanted there."""
    scalable: bool = False
    taken_uw: int = 0
    outside_uw: int = 0
    """May be drawn by a node outside the ledger that stays there."""
    entering_uw: int = 0
    """May be drawn by a node that is on its way into the ledger; ``taken_uw`` is what it will."""
    fixed_uw: int = 0
    dynamic_uw: int = 0


_NOTHING = _Entry()


class CapTargets:
    """Caps by node, and their sums over the nodes."""

    def __init__(self) -> None:
        self.waiting_uw: dict[NodeId, int] = {}
        """Nodes to be raised once the ledger has this much room."""
        self._entries: dict[NodeId, _Entry] = {}
        self._taken_uw = self._fixed_uw = self._dynamic_uw = 0
        self._outside_uw = self._entering_uw = 0
        self._scale: tuple[int, int] | None = None
        """(room, wanted) where less is left than the nodes want."""

    def update(self, state: State, nodes: Collection[NodeId]) -> bool:
        """Takes in what changed about some nodes; True if the caps of all others did as well."""
        for node_id in nodes:
            self._put(node_id, _entry(state, state.nodes[node_id]))
        drawn_uw = self._outside_uw + self._entering_uw
        state.ledger.outside_uw = max(drawn_uw - state.accepted_outside_uw, 0)
        for node_id, node in state.index.leaving.items():
            # Whether it will ever fit depends on all others.
            self._put(node_id, _entry(state, node))
        outside_uw = max(self._outside_uw - state.accepted_outside_uw, 0)
        left_uw = state.ledger.budget_uw - self._taken_uw - outside_uw
        room_uw = max(left_uw - self._fixed_uw, 0)
        before = self._scale
        self._scale = (room_uw, self._dynamic_uw) if self._dynamic_uw > room_uw else None
        return self._scale != before

    def drop(self, node_id: NodeId) -> None:
        """A node is gone."""
        self._put(node_id, _NOTHING)
        self._entries.pop(node_id, None)
        self.waiting_uw.pop(node_id, None)

    def _put(self, node_id: NodeId, entry: _Entry) -> None:
        before = self._entries.get(node_id, _NOTHING)
        self._entries[node_id] = entry
        self._taken_uw += entry.taken_uw - before.taken_uw
        self._outside_uw += entry.outside_uw - before.outside_uw
        self._entering_uw += entry.entering_uw - before.entering_uw
        self._fixed_uw += entry.fixed_uw - before.fixed_uw
        self._dynamic_uw += entry.dynamic_uw - before.dynamic_uw

    def in_order(self, state: State, nodes: Collection[NodeId]) -> list[NodeId]:
        """Those with caps in the order to go by: the nodes that obey, then the others."""
        order = state.index.node_order
        wanted = [n for n in nodes if n in self._entries and self._entries[n].caps is not None]
        return sorted(wanted, key=lambda n: (not self._entries[n].scalable, order(n)))

    def caps(self, spec: NodeSpec) -> Caps:
        """What every zone of a node should hold now, microwatts."""
        entry = self._entries[spec.node_id]
        assert entry.caps is not None
        if self._scale is None or not entry.scalable:
            return entry.caps
        room_uw, dynamic_uw = self._scale
        scaled = dict(entry.caps)
        for zone in spec.packages:
            part_uw = (scaled[zone.name] - zone.floor_uw) * room_uw // dynamic_uw
            scaled[zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
        return scaled


def _wanted(state: State, node_id: NodeId) -> list[Assignment]:
    """What jobs on a node are assigned, once a process of one is there.

    Not before: power is for programs that are there, and a launch may fail.
    """
    jobs = [job for job in state.on_node(node_id) if job.target is not None]
    if not any(node_id in job.ranks and job.ranks[node_id].running for job in jobs):
        return []
    return [job.target for job in jobs if job.target is not None]


def _entry(state: State, node: Node) -> _Entry:
    account = state.ledger.accounts.get(node.node_id)
    spec, dram_cap_uw = node.spec, state.settings.dram_cap_uw
    if node.usable and node.reachable and spec is not None and not node.dead_zones:
        caps = zone_targets(spec, _wanted(state, node.node_id), dram_cap_uw)
        return _Entry(
            caps=caps,
            scalable=True,
            fixed_uw=max(node_fixed_uw(node, spec, dram_cap_uw), reserve_uw(state, node)),
            dynamic_uw=sum(
                caps[zone.name] - zone.floor_uw
                for zone in spec.packages
                # Charged with the most it can draw: its cap adds nothing to that.
                if zone.name not in node.not_held_uw
            ),
        )
    if account is not None:
        floors = None
        if node.reachable and spec is not None and node.duty in IN_SERVICE:
            # A zone there does not obey: the others go down, and it is asked again.
            floors = {zone.name: zone.floor_uw for zone in spec.zones if zone.can_cap}
        return _Entry(caps=floors, taken_uw=account.charge_uw)
    drawn_uw = counted_uw(node)
    if node.awaits_room and spec is not None:
        fixed = node_fixed_uw(node, spec, dram_cap_uw)
        return _Entry(taken_uw=fixed, entering_uw=drawn_uw)
    return _Entry(outside_uw=drawn_uw)
