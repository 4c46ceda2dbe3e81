"""What a job that waits is promised: a start, and where the policy keeps room for it."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId

KEPT = 500
"""For so many jobs of a queue a start is kept where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A start in coordinator time. ``nodes``: those it is to have; empty where they are counted.

    Of a job of units a node is named once for each unit there.
    """

    start_ns: int
    nodes: tuple[NodeId, ...] = ()
