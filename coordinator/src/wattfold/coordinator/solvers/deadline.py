"""One deadline for everything that happens in a planning round: solvers in turn, loading, building.

A solver is given what is left at its turn, not a share that was set aside for it: what the ones
before took in excess, or spent on loading a library, is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]
"""Nanoseconds that only grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment of a clock."""

    at_ns: int
    clock: Clock

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.perf_counter_ns) -> Deadline:
        """So many seconds from now."""
        return cls(at_ns=clock() + round(seconds * 1e9), clock=clock)

    @property
    def left_s(self) -> float:
        """Seconds left; 0 when it has passed."""
        return max(self.at_ns - self.clock(), 0) / 1e9
