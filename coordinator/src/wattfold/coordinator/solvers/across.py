"""What two scarce resources say together about a count that is decided before the last one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.stages import Stage

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

SLACK = 1e-9
"""Relative; what adding up losses may be off by, and more."""


class Across:
    """Of two scarce resources the combination that the last stage does not change.

    Looked at one by one either could still be used up by the last stage, but not by the same
    count. What stands across to it has to be right before, which pins the stage before down.
    """

    def __init__(self, stages: list[Stage], limit: Floats, prices: Floats) -> None:
        self._scale = 1.0 / np.maximum(limit, 1.0)
        last = stages[-1].amount[:, 0] * self._scale
        self._normal = np.array([last[1], -last[0]])
        self._normal /= max(float(np.abs(self._normal).max()), 1e-300)
        self._aim = float(self._normal @ (limit * self._scale))
        # What may stay unused costs at least its price, and all of it at most the budget left.
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
        """None where there are not two resources with a price each, or no count comes last."""
        if limit.size != 2 or prices.min() <= 0 or not stages or not stages[-1].at_most:
            return None
        return cls(stages, limit, prices)

    def bounds(
        self, used: Floats, room: Floats, amount: Floats, loss: float, depth: int
    ) -> list[tuple[float, Floats]]:
        """Of a count: pairs of a rate and what count times rate may be at most."""
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
