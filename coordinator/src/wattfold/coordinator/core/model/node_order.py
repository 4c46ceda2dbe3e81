"""Orders of operators about nodes, as an event."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from wattfold.contract.ids import NodeId


class NodeOrder(enum.Enum):
    """Orders about nodes. The two orders that remove a node state why it needs no charge."""

    DRAIN = "drain"
    RESUME = "resume"
    LEAVE = "leave"
    FORGET_UNPOWERED = "forget-unpowered"
    FORGET_OUTSIDE = "forget-outside"
    SLEEP = "sleep"
    WAKE = "wake"
    DECIDE = "decide"
    """Plans decide again whether it sleeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrdered:
    """An order for a node: to drain, leave, return to service, be removed, sleep or wake."""

    node_id: NodeId
    order: NodeOrder
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareNodesKept:
    """An operator keeps this number of nodes without a job awake; 0 = plans decide alone."""

    nodes: int
