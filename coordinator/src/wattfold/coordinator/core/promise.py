"""What a job that waits is promised: a start, and where the policy keeps room for it."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId


@dataclass(frozen=True, slots=True)
class Promise:
    """A start in coordinator time. ``nodes``: those it is to have; empty where they are counted."""

    start_ns: int
    nodes: tuple[NodeId, ...] = ()
