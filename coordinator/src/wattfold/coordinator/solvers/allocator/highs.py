"""PARM's ILP by HiGHS through scipy: a second exact method, as an alternative to GLPK.

Dominated options are dropped first (`presolve`). HiGHS works in floating point with a feasibility
tolerance, so every plan is checked in integers. A plan that exceeds a limit by rounding is excluded
by an inequality that holds for every valid plan, and the search is repeated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array, diags_array

from wattfold.coordinator.solvers.allocator import greedy
from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays, arrays_of
from wattfold.coordinator.solvers.allocator.presolve import cover_cuts, worthwhile
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    Ints32,
    Solution,
    gap_of,
    no_choice,
    objective_of,
    one_job,
    without_solution,
)

Floats = NDArray[np.float64]

TRIES = 64
TOLERANCE = 1e-6
"""Smallest relative gap that a proof in floating point can establish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighsOptions:
    """Target gap and time limit of the search."""

    gap: float = 0.0
    time_limit_s: float = 15.0


def solve(problem: AllocationProblem, options: HighsOptions | None = None) -> Solution:
    """Return the best plan within the requested gap."""
    options = options or HighsOptions()
    began_ns = time.perf_counter_ns()
    reason = greedy.why_infeasible(problem)
    if reason:
        return _without(problem, AllocationOutcome.INFEASIBLE, began_ns, reason)
    kept = worthwhile(problem)
    part = problem.restricted_to(kept)
    if np.any(problem.must_run & (np.diff(part.starts()) == 0)):
        reason = "no option of a job that must run fits"
        return _without(problem, AllocationOutcome.INFEASIBLE, began_ns, reason)
    if not kept.size:
        return _solution(problem, no_choice(problem), 0.0, options, began_ns, 0)
    arrays = _scaled(arrays_of(part))
    build_ns = time.perf_counter_ns() - began_ns
    for _ in range(TRIES):
        left_s = options.time_limit_s - (time.perf_counter_ns() - began_ns) / 1e9
        answer = _search(arrays, options.gap, max(left_s, 0.01))
        if answer.x is None:
            outcome = {1: AllocationOutcome.TIME_LIMIT_NO_SOLUTION, 2: AllocationOutcome.INFEASIBLE}
            ended = outcome.get(answer.status, AllocationOutcome.FAILED)
            return _without(problem, ended, began_ns, str(answer.message))
        choice = _choice(part, answer.x)
        cuts = cover_cuts(part, choice)
        if not cuts:
            whole = no_choice(problem)
            whole[choice >= 0] = kept[choice[choice >= 0]]
            bound = -float(answer.mip_dual_bound)
            return _solution(problem, whole, bound, options, began_ns, build_ns)
        for cut in cuts:
            arrays = arrays.with_row(cut.options, cut.at_most)
    return _without(
        problem, AllocationOutcome.FAILED, began_ns, "every plan oversteps a limit by rounding"
    )


def warm_up() -> None:
    """Load all modules that are loaded at first use."""
    solve(one_job())


def _scaled(arrays: LinearArrays) -> LinearArrays:
    """Return the arrays with amounts over their limits, so that all rows have a similar scale."""
    per = np.maximum(arrays.row_upper, 1.0)
    return replace(
        arrays,
        matrix=csc_array(diags_array(1.0 / per) @ arrays.matrix),
        row_lower=arrays.row_lower / per,
        row_upper=arrays.row_upper / per,
    )


def _search(arrays: LinearArrays, gap: float, time_limit_s: float) -> Any:
    return milp(
        c=-arrays.gain,
        integrality=np.ones(arrays.gain.size),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(arrays.matrix, arrays.row_lower, arrays.row_upper),
        options={"mip_rel_gap": gap, "time_limit": time_limit_s},
    )


def _choice(problem: AllocationProblem, x: Floats) -> Ints32:
    choice = no_choice(problem)
    taken = np.flatnonzero(x > 0.5)
    choice[problem.job_of[taken]] = taken
    return choice


def _solution(
    problem: AllocationProblem,
    choice: Ints32,
    bound: float,
    options: HighsOptions,
    began_ns: int,
    build_ns: int,
) -> Solution:
    objective = objective_of(problem, choice)
    gap = gap_of(objective, bound)
    proven = gap <= max(options.gap, TOLERANCE)
    return Solution(
        outcome=AllocationOutcome.OPTIMAL if proven else AllocationOutcome.FEASIBLE,
        choice=choice,
        objective=objective,
        bound=max(bound, objective),
        gap=gap,
        build_ns=build_ns,
        solve_ns=time.perf_counter_ns() - began_ns - build_ns,
    )


def _without(
    problem: AllocationProblem, outcome: AllocationOutcome, began_ns: int, detail: str
) -> Solution:
    spent_ns = time.perf_counter_ns() - began_ns
    return without_solution(problem, outcome, solve_ns=spent_ns, detail=detail)
