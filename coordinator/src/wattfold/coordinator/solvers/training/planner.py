"""The best plan found with a given effort: passes of the paper's greedy, then ruin and recreate.

The effort is counted and not timed, so equal problems have equal plans. It is what a machine with
numba does in about a tenth of a second for the largest sites; in plain Python much less is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.solvers.training.choice import Loops, loops
from wattfold.coordinator.solvers.training.layout import laid_out
from wattfold.coordinator.solvers.training.problem import Ints, Plan, Problem

GREEDY, SEARCHED = "randomised-greedy", "ruin-and-recreate"
PLAIN = 0.02
"""The share of the effort without numba."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to look."""

    passes: int = 100
    """Greedy passes at most (MaxIt)."""
    attempts: int = 10_000
    """Of ruin and recreate; 0 = the paper's search alone."""
    swap: float = 0.05
    """Probability with which a job of mean weight changes places with the next; one of twice the
    weight does so half as often."""
    deviating: float = 0.2
    """Probability with which another option than the preferred one is drawn."""
    seed: int = 1


def planned(
    problem: Problem,
    effort: Effort,
    loops_of: Callable[[], Loops] = loops,
    order: Ints | None = None,
) -> Plan:
    """The best plan. ``order``: of the jobs, in place of that by pressure."""
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
    return Plan(
        option=tuple(option.tolist()),
        node=tuple(node.tolist()),
        objective=float(value),
        maker=maker,
    )


def by_pressure(problem: Problem) -> Ints:
    """The jobs as Algorithm 1 sorts them; those that must run come first."""
    jobs = problem.jobs
    found: Ints = np.lexsort((np.arange(len(problem)), -jobs.pressure_s, ~jobs.must))
    return found
