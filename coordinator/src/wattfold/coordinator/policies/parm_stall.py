"""Beyond the paper: what a change of size costs, seen by the decision that makes it.

PARM chooses as if a resize were free and pays for it afterwards (Eq. 20, 21, charged to every job
it resizes), so two choices of nearly the same worth can make jobs change to and fro. Here an option
of another size than the present one loses the share of its remaining time that the stall takes:

    s' = s * remaining / (remaining + stall),   remaining = (1 - done) * t[j, n, p]

The stall is that of the job alone, doubled as the paper charges it. That a decision stalls all the
jobs it resizes as long as the slowest of them cannot be said of one option, so it is not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.policies.parm_options import Floats, Ints, Options

KEPT_MIN = 1e-6
"""Least share of its speedup an option keeps: values stay above zero at a job's end."""


def stalls_s(sizes: Ints, size_now: int, data_mb: float, link_mb_per_s: float) -> Floats:
    """Seconds a job loses by changing to each size; zero for its own. Sizes are nodes."""
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


def stalled(options: Options, stall_s: Floats, done: float) -> Options:
    """The options with what their stalls leave of their speedups; ``done`` is a share, 0..1."""
    remaining_s = (1.0 - done) * options.total_s
    together_s = np.maximum(remaining_s + stall_s, np.finfo(np.float64).tiny)
    kept = np.where(stall_s > 0, np.maximum(remaining_s / together_s, KEPT_MIN), 1.0)
    return replace(options, speedup=options.speedup * kept)
