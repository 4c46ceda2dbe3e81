"""Orders of jobs for lists."""

from __future__ import annotations

import numpy as np

from wattfold.coordinator.solvers.lists.arrays import Arrays, Floats, Ints
from wattfold.coordinator.solvers.lists.problem import UNLIMITED_UW, QueueProblem

FIFO_DEPTH, WALLTIME_DEPTH = 10, 400
"""Numbers of jobs with reserved places under PBS's rules, by submission and walltime (paper)."""


def weighted_area(arrays: Arrays) -> Ints:
    """Return the order by weighted area: run time x expected wait x largest resource share.

    This is Smith's rule for objective (2): the share of the whole machine that a job holds times
    its duration, over the cost of a second of its wait. Ties are broken by submission, then by
    number.
    """
    problem = arrays.problem
    wait = arrays.ewt_ns / arrays.weight
    return _by(problem, _rank(problem).astype(np.float64) * wait * _share(arrays))


def by_submission(arrays: Arrays) -> Ints:
    """Return the order first come, first served, with heavier jobs first."""
    return _by(arrays.problem, -arrays.weight)


def by_walltime(arrays: Arrays) -> Ints:
    """Return the order of expected run times, shortest first, with heavier jobs first."""
    lasts_ns = arrays.duration_ns[arrays.option_from[:-1]]
    return _by(arrays.problem, -arrays.weight, lasts_ns.astype(np.float64))


def _by(problem: QueueProblem, *keys: Floats) -> Ints:
    """Sort by these keys in turn, then by submission and number."""
    submit_ns = np.array([job.submit_ns for job in problem.jobs], dtype=np.int64)
    numbers = np.arange(len(submit_ns))
    return np.lexsort((numbers, submit_ns, *reversed(keys))).astype(np.int64)


def _rank(problem: QueueProblem) -> Ints:
    ranks = [job.rank_ns or job.options[0].duration_ns for job in problem.jobs]
    return np.array(ranks, dtype=np.int64)


def _share(arrays: Arrays) -> Floats:
    """Return the largest share of each job in any resource or in the power."""
    demand = arrays.demand[arrays.option_from[:-1]]
    total = np.maximum(arrays.capacity.sum(axis=0), 1)
    shares = (arrays.amounts * arrays.units[:, None] / total).max(axis=1, initial=0.0)
    budget_uw = max((one.power_uw for one in arrays.problem.budgets), default=UNLIMITED_UW)
    if budget_uw < UNLIMITED_UW:
        drawn = arrays.units * arrays.unit_uw.min(axis=1, initial=2**60) / max(budget_uw, 1)
        shares = np.maximum(shares, drawn)
    return shares[demand]  # type: ignore[no-any-return]
