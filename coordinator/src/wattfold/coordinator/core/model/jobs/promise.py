"""The planned start of a waiting job and the resources reserved for it."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId

KEPT = 500
"""Default number of jobs of a queue with planned starts."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A planned start in coordinator time. ``nodes`` are reserved; empty = only numbers count.

    A node is listed once for each unit that it holds.
    """

    start_ns: int
    nodes: tuple[NodeId, ...] = ()
