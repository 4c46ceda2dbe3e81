"""Leaves out options no optimal plan needs, and cuts off plans that do not fit. All in integers.

An option that alone exceeds a limit is in no plan.
Within one job, an option that takes at least as much of every resource as another and is worth no
more can be replaced by it in any plan. At equal cost and value the first stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.problem import Ints32, Problem

Ints64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverCut:
    """At most ``at_most`` of these options can be chosen together. Holds for every valid plan."""

    options: Ints64
    at_most: int


def worthwhile(problem: Problem) -> Ints64:
    """Indices of the options worth keeping, ascending.

    Takes the sum over jobs of the square of their options.
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


def cover_cuts(problem: Problem, choice: Ints32) -> list[CoverCut]:
    """One cut for each limit a choice exceeds, which rules it out; none when it is valid.

    The fewest of its options that alone exceed the limit cannot all be chosen, nor can any of them
    be replaced by an option of its job that takes as much. Unlike the limit itself the cut has
    coefficients of one, so a solver's rounding cannot blur it.
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
    # Of two equal options each is no worse than the other: only the earlier one counts.
    ties = better & better.T
    beaten = better & (~ties | np.triu(ties, k=1))
    return np.asarray(~beaten.any(axis=0), dtype=np.bool_)
