"""Resize costs as part of the decision, beyond the paper.

PARM chooses as if a resize were free and charges its cost afterwards (Eq. 20, 21, for every resized
job). So jobs may oscillate between two choices of nearly equal value. Here an option of another
size than the current size loses the share of its remaining time that the stall takes:

    s' = s * remaining / (remaining + stall),   remaining = (1 - done) * t[j, n, p]

The stall is the stall of this job alone, doubled as in the paper. In fact a decision stalls all its
resized jobs as long as the slowest of them, but this cannot be expressed for a single option.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.policies.parm.options import Floats, Ints, JobOptions

KEPT_MIN = 1e-6
"""Minimum share of its speedup that an option keeps, so values stay above zero near its end."""


def stalls_s(sizes: Ints, size_now: int, data_mb: float, link_mb_per_s: float) -> Floats:
    """Return the seconds that a job loses by changing to each size (in nodes); 0 for its own."""
    different, where = np.unique(sizes, return_inverse=True)
    lost = [
        charge_s(
            [
                Resize(
                    data_mb=data_mb,
                    nodes_from=size_now,
                    nodes_to=size,
                    link_mb_per_s=link_mb_per_s,
                )
            ]
        )
        for size in different.tolist()
    ]
    result: Floats = np.asarray(lost, dtype=np.float64)[where]
    return result


def stalled(options: JobOptions, stall_s: Floats, done: float) -> JobOptions:
    """Return the options with speedups reduced by their stalls; ``done`` is a share, 0..1."""
    remaining_s = (1.0 - done) * options.total_s
    together_s = np.maximum(remaining_s + stall_s, np.finfo(np.float64).tiny)
    kept = np.where(stall_s > 0, np.maximum(remaining_s / together_s, KEPT_MIN), 1.0)
    return replace(options, speedup=options.speedup * kept)
