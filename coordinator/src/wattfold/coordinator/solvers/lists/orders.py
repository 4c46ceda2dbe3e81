"""Orders in which jobs are put into a list."""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.solvers.lists.arrays import Arrays, Floats, Ints
from wattfold.coordinator.solvers.lists.problem import UNLIMITED_UW, Problem

FIFO_DEPTH, WALLTIME_DEPTH = 10, 400
"""For so many jobs room is kept by PBS's rules, by submission and by walltime, in the paper."""


def weighted_area(arrays: Arrays) -> Ints:
    """Weighted shortest area first: run time x expected wait x the largest share of a resource.

    Smith's rule for objective (2): what a job holds of the whole machine and for how long, over
    what a second of its waiting costs. Ties go by submission, then by number.
    """
    problem = arrays.problem
    wait = arrays.ewt_ns / arrays.weight
    return _by(problem, _rank(problem).astype(np.float64) * wait * _share(arrays))


def by_submission(arrays: Arrays) -> Ints:
    """First come, first served, the heavier before."""
    return _by(arrays.problem, -arrays.weight)


def by_walltime(arrays: Arrays) -> Ints:
    """Shortest first, by how long they are expected to run; the heavier before."""
    lasts_ns = arrays.duration_ns[arrays.option_from[:-1]]
    return _by(arrays.problem, -arrays.weight, lasts_ns.astype(np.float64))


def _by(problem: Problem, *keys: Floats) -> Ints:
    """By the first of these, then the next, then by submission and number."""
    submit_ns = np.array([job.submit_ns for job in problem.jobs], dtype=np.int64)
    numbers = np.arange(len(submit_ns))
    return np.lexsort((numbers, submit_ns, *reversed(keys))).astype(np.int64)


def _rank(problem: Problem) -> Ints:
    ranks = [job.rank_ns or job.options[0].duration_ns for job in problem.jobs]
    return np.array(ranks, dtype=np.int64)


def _share(arrays: Arrays) -> Floats:
    """Of each job the largest share of what there is of a resource, or of the power."""
    demand = arrays.demand[arrays.option_from[:-1]]
    total = np.maximum(arrays.capacity.sum(axis=0), 1)
    shares = (arrays.amounts * arrays.units[:, None] / total).max(axis=1, initial=0.0)
    budget_uw = max((one.power_uw for one in arrays.problem.budgets), default=UNLIMITED_UW)
    if budget_uw < UNLIMITED_UW:
        drawn = arrays.units * arrays.unit_uw.min(axis=1, initial=2**60) / max(budget_uw, 1)
        shares = np.maximum(shares, drawn)
    return shares[demand]  # type: ignore[no-any-return]
