"""Bounds from two scarce resources together on the count of a stage before the last stage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.stages import Stage

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

SLACK = 1e-9
"""Relative bound on the rounding error of summed losses."""


class Across:
    """The combination of two scarce resources that the last stage does not change.

    The last stage could still use up either resource, but not both with the same count. The use
    perpendicular to its direction must be right before, which restricts the count of earlier
    stages.
    """

    def __init__(self, stages: list[Stage], limit: Floats, prices: Floats) -> None:
        self._scale = 1.0 / np.maximum(limit, 1.0)
        last = stages[-1].amount[:, 0] * self._scale
        self._normal = np.array([last[1], -last[0]])
        self._normal /= max(float(np.abs(self._normal).max()), 1e-300)
        self._aim = float(self._normal @ (limit * self._scale))
        # Unused amounts cost at least their prices, and their total cost is at most the remaining
        # budget.
        per_loss = -self._normal * self._scale / prices
        self._low, self._high = min(per_loss.min(), 0.0), max(per_loss.max(), 0.0)
        self._least, self._most = np.zeros(len(stages) + 1), np.zeros(len(stages) + 1)
        for depth in range(len(stages) - 1, -1, -1):
            moved = self._normal @ (stages[depth].amount * self._scale[:, None])
            if stages[depth].at_most:
                moved = np.append(moved * stages[depth].at_most, 0.0)
            self._least[depth] = self._least[depth + 1] + moved.min(initial=np.inf)
            self._most[depth] = self._most[depth + 1] + moved.max(initial=-np.inf)

    @classmethod
    def of(cls, stages: list[Stage], limit: Floats, prices: Floats) -> Across | None:
        """Return None unless two resources have positive prices and the last stage is a count."""
        if limit.size != 2 or prices.min() <= 0 or not stages or not stages[-1].at_most:
            return None
        return cls(stages, limit, prices)

    def bounds(
        self, used: Floats, room: Floats, amount: Floats, loss: float, depth: int
    ) -> list[tuple[float, Floats]]:
        """Return pairs (rate, limit) for a count: count times rate is at most the limit."""
        if not np.isfinite(room).all():
            return []
        present = self._normal @ (used * self._scale[:, None])
        rate = float(self._normal @ (amount * self._scale))
        room = room * (1.0 + SLACK)
        above = self._aim + room * self._high - present - self._least[depth]
        below = present + self._most[depth] - self._aim - room * self._low
        rounding = 64 * 2.0**-53
        return [
            (rate + loss * self._high, above + rounding),
            (-rate - loss * self._low, below + rounding),
        ]
