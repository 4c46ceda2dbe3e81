"""Totals of a simulated run whose nodes sleep."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass(slots=True)
class SleepCounts:
    """Totals of a run, and the nodes that are awake after each instant.

    A node that falls asleep is awake until it sleeps. A node that boots is awake, too.
    """

    boots: int = 0
    failed: int = 0
    node_ns: int = 0
    """Time of all nodes, and below of the nodes that are not asleep."""
    awake_ns: int = 0
    asleep_uw_ns: int = 0
    """Energy of nodes that sleep, and below of nodes that boot, in microwatt nanoseconds."""
    boot_uw_ns: int = 0
    awake: array[int] = field(default_factory=lambda: array("q"))
    """One entry for each entry of the series of the run."""

    def pass_time(
        self, span_ns: int, nodes: int, asleep: int, asleep_uw: int, boot_uw: int
    ) -> None:
        """Count a time in which ``asleep`` of all nodes slept.

        ``asleep_uw`` and ``boot_uw`` are the powers of all nodes that slept and that booted.
        """
        self.node_ns += nodes * span_ns
        self.awake_ns += (nodes - asleep) * span_ns
        self.asleep_uw_ns += asleep_uw * span_ns
        self.boot_uw_ns += boot_uw * span_ns
