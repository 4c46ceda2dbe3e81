"""Totals of a simulated run whose nodes sleep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SleepCounts:
    """Totals of a run."""

    boots: int = 0
    failed: int = 0
    node_ns: int = 0
    """Time of all nodes, and below of the nodes that are not asleep."""
    awake_ns: int = 0
    waited_ns: int = 0
    """Time that jobs waited for boots."""
