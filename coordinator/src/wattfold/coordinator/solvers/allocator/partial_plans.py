"""Partial plans as columns of arrays, and the removal of dominated partial plans."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(slots=True, kw_only=True, eq=False)
class States:
    """Partial plans, one per column."""

    used: Floats
    lost: Floats
    value: Floats
    left: dict[int, Floats] = field(default_factory=dict)
    """Number of jobs of each class in progress that still have its base."""

    def picked(self, keep: Ints64 | Bools) -> States:
        """Return some of the partial plans."""
        return States(
            used=self.used[:, keep],
            lost=self.lost[keep],
            value=self.value[keep],
            left={job: left[keep] for job, left in self.left.items()},
        )


def reachable(used: Floats, limit: Floats, amounts: list[Floats]) -> Floats:
    """Return the largest reachable use within each limit, in whole steps from the current use."""
    if not amounts or not limit.size:
        return limit
    step = np.gcd.reduce(np.concatenate(amounts, axis=1).astype(np.int64), axis=1)
    step = np.maximum(step, 1)
    reachable: Floats = used + np.floor((limit - used) / step) * step
    return reachable


def unbeaten(states: States, prices: Floats) -> Ints64:
    """Return the indices of the partial plans that no other plan dominates, ascending.

    A dominating plan has as many undecided jobs, takes as much of every resource except the
    cheapest and no more of that, and is worth no less.
    """
    size = states.lost.size
    if not prices.size:
        prices, states = np.zeros(1), replace(states, used=np.zeros((1, size)))
    fine = int(np.argmin(prices))
    keys = [*states.left.values(), *np.delete(states.used, fine, axis=0)]
    order = np.lexsort((-states.value, states.used[fine], *keys))
    changed = np.zeros(size, dtype=np.bool_)
    for key in keys:
        changed[1:] |= np.diff(key[order]) != 0
    # Ranks instead of values: integers separate groups exactly.
    _, rank = np.unique(states.value, return_inverse=True)
    height = np.cumsum(changed) * size + rank[order]
    best = np.maximum.accumulate(height)
    first = np.r_[True, height[1:] > best[:-1]]
    return np.sort(order[first])
