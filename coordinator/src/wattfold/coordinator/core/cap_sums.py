"""The caps of every node and their sums, from which a scale follows where they do not fit.

What every node adds is kept, and put anew for touched nodes only; `cap_targets` says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.charge import CAP_STEP_UW, clipped_uw
from wattfold.coordinator.core.node import NodeSpec

Caps = dict[ZoneName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCaps:
    """One node, microwatts. ``taken_uw`` is charged where caps cannot be chosen now."""

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
    raised: Caps = field(default_factory=dict)
    """Zones beside the packages that are above their standing caps, and these."""


_NOTHING = NodeCaps()


class CapSums:
    """Caps by node, and their sums over the nodes; all powers in microwatts."""

    def __init__(self) -> None:
        self.waiting_uw: dict[NodeId, int] = {}
        """Nodes to be raised once the ledger has this much room."""
        self._nodes: dict[NodeId, NodeCaps] = {}
        self._taken_uw = self._fixed_uw = self._dynamic_uw = 0
        self._outside_uw = self._entering_uw = 0
        self._scale: tuple[int, int] | None = None
        """(room, wanted) where less is left than the nodes want."""

    def put(self, node_id: NodeId, wanted: NodeCaps) -> None:
        """What a node adds is this from now on."""
        before = self._nodes.get(node_id, _NOTHING)
        self._nodes[node_id] = wanted
        self._taken_uw += wanted.taken_uw - before.taken_uw
        self._outside_uw += wanted.outside_uw - before.outside_uw
        self._entering_uw += wanted.entering_uw - before.entering_uw
        self._fixed_uw += wanted.fixed_uw - before.fixed_uw
        self._dynamic_uw += wanted.dynamic_uw - before.dynamic_uw

    def drop(self, node_id: NodeId) -> None:
        """A node is gone."""
        self.put(node_id, _NOTHING)
        self._nodes.pop(node_id, None)
        self.waiting_uw.pop(node_id, None)

    @property
    def drawn_outside_uw(self) -> int:
        """What nodes without an account may draw."""
        return self._outside_uw + self._entering_uw

    def rescale(self, budget_uw: int, accepted_outside_uw: int) -> bool:
        """Finds the scale; True if it is another one, and the caps of all nodes with it."""
        outside_uw = max(self._outside_uw - accepted_outside_uw, 0)
        left_uw = budget_uw - self._taken_uw - outside_uw
        room_uw = max(left_uw - self._fixed_uw, 0)
        before = self._scale
        self._scale = (room_uw, self._dynamic_uw) if self._dynamic_uw > room_uw else None
        return self._scale != before

    def in_order(
        self, nodes: Collection[NodeId], position: Callable[[NodeId], int]
    ) -> list[NodeId]:
        """Those with caps in the order to go by: the nodes that obey, then the others."""
        if not nodes:
            return []
        wanted = [n for n in nodes if n in self._nodes and self._nodes[n].caps is not None]
        return sorted(wanted, key=lambda n: (not self._nodes[n].scalable, position(n)))

    def caps(self, spec: NodeSpec) -> Caps:
        """What every zone of a node should hold now."""
        node = self._nodes[spec.node_id]
        assert node.caps is not None
        if self._scale is None or not node.scalable:
            return node.caps
        room_uw, dynamic_uw = self._scale
        scaled = dict(node.caps)
        for zone in spec.packages:
            part_uw = (scaled[zone.name] - zone.floor_uw) * room_uw // dynamic_uw
            scaled[zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
        for name, standing_uw in node.raised.items():
            part_uw = (scaled[name] - standing_uw) * room_uw // dynamic_uw
            scaled[name] = standing_uw + part_uw // CAP_STEP_UW * CAP_STEP_UW
        return scaled
