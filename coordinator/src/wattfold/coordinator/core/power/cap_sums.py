"""The caps of every node and their sums. If the caps do not fit, a scale reduces them.

The contribution of each node is stored and updated only for touched nodes. `cap_targets` computes
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.model.node import NodeSpec
from wattfold.coordinator.core.power.charge import CAP_STEP_UW, clipped_uw

Caps = dict[ZoneName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCaps:
    """Caps and charges of a node, in microwatts. ``taken_uw`` applies if caps cannot be set now."""

    caps: Caps | None = None
    """None: no caps are to be set."""
    scalable: bool = False
    taken_uw: int = 0
    outside_uw: int = 0
    """Possible power of a node that stays outside the ledger."""
    entering_uw: int = 0
    """Possible power of a node that waits for admission; its charge will be ``taken_uw``."""
    fixed_uw: int = 0
    dynamic_uw: int = 0
    protected: bool = False
    """Whether its caps are lowered only when those of all other nodes are at their minimum."""
    raised: Caps = field(default_factory=dict)
    """DRAM and GPU zones that are above their default caps, with these default caps."""


_NOTHING = NodeCaps()


class CapSums:
    """Caps by node, and their sums over the nodes; all powers in microwatts."""

    def __init__(self) -> None:
        self.waiting_uw: dict[NodeId, int] = {}
        """Power that the ledger needs before the caps of a node can be raised, by node."""
        self.held_uw: dict[NodeId, int] = {}
        """Power by which the caps of a node are above their targets, for the limit of the fall."""
        self._nodes: dict[NodeId, NodeCaps] = {}
        self._taken_uw = self._fixed_uw = self.dynamic_uw = self._protected_uw = 0
        self._outside_uw = self._entering_uw = 0
        self._scale: dict[bool, tuple[int, int]] = {}
        """(available, requested) power for jobs if the requested power does not fit.

        By whether nodes are protected; without an entry, the nodes get what they request.
        """

    def put(self, node_id: NodeId, wanted: NodeCaps) -> None:
        """Replace the contribution of a node."""
        before = self._nodes.get(node_id, _NOTHING)
        self._nodes[node_id] = wanted
        self._taken_uw += wanted.taken_uw - before.taken_uw
        self._outside_uw += wanted.outside_uw - before.outside_uw
        self._entering_uw += wanted.entering_uw - before.entering_uw
        self._fixed_uw += wanted.fixed_uw - before.fixed_uw
        self.dynamic_uw += wanted.dynamic_uw - before.dynamic_uw
        for one, sign in ((wanted, 1), (before, -1)):
            self._protected_uw += sign * one.dynamic_uw if one.protected else 0

    def drop(self, node_id: NodeId) -> None:
        """Remove a node."""
        self.put(node_id, _NOTHING)
        self._nodes.pop(node_id, None)
        self.waiting_uw.pop(node_id, None)
        self.held_uw.pop(node_id, None)

    @property
    def scaled(self) -> bool:
        """Whether caps are scaled down because the requested power does not fit."""
        return bool(self._scale)

    @property
    def drawn_outside_uw(self) -> int:
        """Possible power of the nodes without an account."""
        return self._outside_uw + self._entering_uw

    def needed_uw(self, accepted_outside_uw: int) -> int:
        """Return the power that no cap can lower: floors, base power, and nodes outside."""
        outside_uw = max(self._outside_uw - accepted_outside_uw, 0)
        return self._taken_uw + self._fixed_uw + outside_uw

    def node_dynamic_uw(self, node_id: NodeId) -> int:
        """Return the power of the jobs of a node above its floors, as planned."""
        return self._nodes.get(node_id, _NOTHING).dynamic_uw

    def rescale(self, budget_uw: int, accepted_outside_uw: int) -> bool:
        """Compute the scale. Return whether it changed, and with it the caps of all nodes."""
        room_uw = max(budget_uw - self.needed_uw(accepted_outside_uw), 0)
        before, self._scale = self._scale, {}
        for protected, dynamic_uw in (
            (True, self._protected_uw),
            (False, self.dynamic_uw - self._protected_uw),
        ):
            if dynamic_uw > room_uw:
                self._scale[protected] = room_uw, dynamic_uw
            room_uw = max(room_uw - dynamic_uw, 0)
        return self._scale != before

    def in_order(
        self, nodes: Collection[NodeId], position: Callable[[NodeId], int]
    ) -> list[NodeId]:
        """Return the nodes with caps in order of processing: nodes that obey, then the others."""
        if not nodes:
            return []
        wanted = [n for n in nodes if n in self._nodes and self._nodes[n].caps is not None]
        return sorted(wanted, key=lambda n: (not self._nodes[n].scalable, position(n)))

    def caps(self, spec: NodeSpec) -> Caps:
        """Return the target caps of all zones of a node, scaled if necessary."""
        node = self._nodes[spec.node_id]
        assert node.caps is not None
        scale = self._scale.get(node.protected)
        if scale is None or not node.scalable:
            return node.caps
        room_uw, dynamic_uw = scale
        scaled = dict(node.caps)
        for zone in spec.packages:
            part_uw = (scaled[zone.name] - zone.floor_uw) * room_uw // dynamic_uw
            scaled[zone.name] = clipped_uw(zone, zone.floor_uw + part_uw)
        for name, standing_uw in node.raised.items():
            part_uw = (scaled[name] - standing_uw) * room_uw // dynamic_uw
            scaled[name] = standing_uw + part_uw // CAP_STEP_UW * CAP_STEP_UW
        return scaled
