"""The best plan found with a given effort: passes of the paper's greedy, then ruin and recreate.

The effort is counted and not timed, so equal problems have equal plans. With numba a machine needs
about a tenth of a second for the largest sites. In plain Python the effort is much smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.solvers.training.choice import Loops, loops
from wattfold.coordinator.solvers.training.layout import laid_out
from wattfold.coordinator.solvers.training.problem import Ints, TrainingPlan, TrainingProblem

GREEDY, SEARCHED = "randomised-greedy", "ruin-and-recreate"
PLAIN = 0.02
"""Share of the effort without numba."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEffort:
    """Effort of the search."""

    passes: int = 100
    """Maximum number of greedy passes (MaxIt)."""
    attempts: int = 10_000
    """Number of attempts of ruin and recreate; 0 = only the paper's search."""
    swap: float = 0.05
    """Probability that a job of mean weight changes places with the next.

    It is inversely proportional to the weight.
    """
    deviating: float = 0.2
    """Probability of drawing another option than the preferred option."""
    seed: int = 1


def planned(
    problem: TrainingProblem,
    effort: TrainingEffort,
    loops_of: Callable[[], Loops] = loops,
    order: Ints | None = None,
) -> TrainingPlan:
    """Return the best plan. ``order`` of the jobs replaces the order by pressure."""
    count, chosen = len(problem), loops_of()
    listed = by_pressure(problem) if order is None else order
    at, ints, reals = laid_out(problem, listed, chosen.row, swap=effort.swap, seed=effort.seed)
    share = 1.0 if chosen.fast else PLAIN
    tried = max(int(effort.passes * share), 1)
    value, maker = chosen.constructed(at, ints, reals, tried, effort.deviating), GREEDY
    attempts = int(effort.attempts * share)
    if attempts and count and problem.gpus:
        better = chosen.improved(at, ints, reals, attempts, value)
        value, maker = better, SEARCHED if better < value else maker
    option, node = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    option[listed] = ints[at.best_option : at.best_option + count]
    node[listed] = ints[at.best_host : at.best_host + count]
    return TrainingPlan(
        option=tuple(option.tolist()),
        node=tuple(node.tolist()),
        objective=float(value),
        maker=maker,
    )


def by_pressure(problem: TrainingProblem) -> Ints:
    """Return the jobs in the order of Algorithm 1; must-run jobs come first."""
    jobs = problem.jobs
    found: Ints = np.lexsort((np.arange(len(problem)), -jobs.pressure_s, ~jobs.must))
    return found
