"""The optimum by trying every plan. For problems of a few jobs."""

from itertools import product

import numpy as np

from wattfold.coordinator.solvers.problem import Problem, check_choice, objective_of


def best_objective(problem: Problem) -> float | None:
    """Eq. 1 of the best valid plan; None when there is none."""
    starts = problem.starts().tolist()
    options = [[-1, *range(starts[j], starts[j + 1])] for j in range(problem.job_count)]
    best: float | None = None
    for plan in product(*options):
        choice = np.asarray(plan, dtype=np.int32)
        if not check_choice(problem, choice):
            value = objective_of(problem, choice)
            best = value if best is None else max(best, value)
    return best
