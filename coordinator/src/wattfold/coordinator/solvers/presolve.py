"""Leaves out options that no optimal plan needs.

Within one job, an option that takes at least as much of every resource as another and is worth no
more can be replaced by it in any plan. At equal cost and value the first stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.problem import Problem

Ints64 = NDArray[np.int64]


def undominated(problem: Problem) -> Ints64:
    """Indices of the options worth keeping, ascending.

    O(sum of squares of the options a job has).
    """
    costs = np.stack([coefficients for coefficients, _ in problem.limits()])
    starts = problem.starts()
    keep = np.ones(problem.option_count, dtype=np.bool_)
    for job in range(problem.job_count):
        first, end = int(starts[job]), int(starts[job + 1])
        if end - first > 1:
            keep[first:end] = _undominated_of_job(costs[:, first:end], problem.value[first:end])
    return np.flatnonzero(keep)


def _undominated_of_job(costs: Ints64, value: NDArray[np.float64]) -> NDArray[np.bool_]:
    # better[i, k]: option i is no worse than option k in every respect.
    no_dearer = np.all(costs[:, :, None] <= costs[:, None, :], axis=0)
    better = np.asarray(no_dearer & (value[:, None] >= value[None, :]), dtype=np.bool_)
    # Of two equal options each is no worse than the other: only the earlier one counts.
    ties = better & better.T
    beaten = better & (~ties | np.triu(ties, k=1))
    return np.asarray(~beaten.any(axis=0), dtype=np.bool_)
