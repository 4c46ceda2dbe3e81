"""A common deadline for a planning round: all solvers, loading and building.

A solver gets the time that is left at its turn, not a share reserved for it. Time that previous
solvers took in excess, or for loading a library, is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]
"""Monotonic time in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A time of a clock."""

    at_ns: int
    clock: Clock

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.perf_counter_ns) -> Deadline:
        """Return the deadline in ``seconds`` from now."""
        return cls(at_ns=clock() + round(seconds * 1e9), clock=clock)

    @property
    def left_s(self) -> float:
        """Seconds left; 0 after the deadline."""
        return max(self.at_ns - self.clock(), 0) / 1e9
