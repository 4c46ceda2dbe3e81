"""Removal of options that no optimal plan needs, and cuts against invalid plans. All in integers.

An option that alone exceeds a limit is in no plan. Within a job, option A dominates option B if A
takes at most as much of every resource and is worth at least as much. A can then replace B in any
plan. At equal cost and value the first stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.problem import AllocationProblem, Ints32

Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverCut:
    """At most ``at_most`` of these options can be chosen together. Holds for every valid plan."""

    options: Ints64
    at_most: int


def worthwhile(problem: AllocationProblem) -> Ints64:
    """Return the indices of the options worth keeping, ascending.

    The time is the sum over jobs of the square of their numbers of options.
    """
    capacities = problem.limits()
    costs = np.stack([coefficients for coefficients, _ in capacities])
    limits = np.asarray([limit for _, limit in capacities], dtype=np.int64)
    keep = np.asarray(np.all(costs <= limits[:, None], axis=0), dtype=np.bool_)
    starts = problem.starts()
    for job in range(problem.job_count):
        possible = starts[job] + np.flatnonzero(keep[starts[job] : starts[job + 1]])
        if possible.size > 1:
            keep[possible] = _undominated_of_job(costs[:, possible], problem.value[possible])
    return np.flatnonzero(keep)


def cover_cuts(problem: AllocationProblem, choice: Ints32) -> list[CoverCut]:
    """Return a cut for each limit that a choice exceeds; the cuts exclude it. Empty if it is valid.

    The largest of its options that together exceed the limit cannot all be chosen. This remains
    true if an option is replaced by an option of its job that takes at least as much. Unlike the
    limit, the cut has coefficients of 1, so a solver's rounding cannot blur it.
    """
    cuts = []
    chosen = choice[choice >= 0].astype(np.int64)
    for coefficients, limit in problem.limits():
        taken = coefficients[chosen]
        if int(taken.sum()) <= limit:
            continue
        order = np.argsort(-taken, kind="stable")
        count = int(np.argmax(np.cumsum(taken[order]) > limit)) + 1
        cover = chosen[order[:count]]
        least = np.full(problem.job_count, np.iinfo(np.int64).max, dtype=np.int64)
        least[problem.job_of[cover]] = coefficients[cover]
        members = np.flatnonzero(coefficients >= least[problem.job_of])
        cuts.append(CoverCut(options=members, at_most=count - 1))
    return cuts


def _undominated_of_job(costs: Ints64, value: NDArray[np.float64]) -> NDArray[np.bool_]:
    # better[i, k]: option i is no worse than option k in every respect.
    no_dearer = np.all(costs[:, :, None] <= costs[:, None, :], axis=0)
    better = np.asarray(no_dearer & (value[:, None] >= value[None, :]), dtype=np.bool_)
    # Two equal options are each no worse than the other: only the earlier one counts.
    ties = better & better.T
    beaten = better & (~ties | np.triu(ties, k=1))
    return np.asarray(~beaten.any(axis=0), dtype=np.bool_)
