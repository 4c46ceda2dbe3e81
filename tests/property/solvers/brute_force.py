"""The optimum by exhaustive search, for problems of a few jobs."""

from itertools import product

import numpy as np

from wattfold.coordinator.solvers.allocator.problem import (
    AllocationProblem,
    check_choice,
    objective_of,
)


def best_objective(problem: AllocationProblem) -> float | None:
    """Objective of Eq. 1 of the best valid plan; None if no plan is valid."""
    starts = problem.starts().tolist()
    options = [[-1, *range(starts[j], starts[j + 1])] for j in range(problem.job_count)]
    best: float | None = None
    for plan in product(*options):
        choice = np.asarray(plan, dtype=np.int32)
        if not check_choice(problem, choice):
            value = objective_of(problem, choice)
            best = value if best is None else max(best, value)
    return best
