"""GLPK's integer search, repeated until its plan is valid in integers.

A plan that exceeds a limit by rounding is excluded by an inequality that holds for every valid
plan. Its coefficients are 1. Then the search is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator import glpk_engine
from wattfold.coordinator.solvers.allocator.glpk_engine import Ending, IntegerAnswer
from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays
from wattfold.coordinator.solvers.allocator.presolve import cover_cuts
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationProblem,
    Ints32,
    no_choice,
    objective_of,
)

Ints64 = NDArray[np.int64]

ATTEMPTS = 64
"""Maximum number of searches of a problem; before each search the last invalid plan is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckedAnswer:
    """GLPK's answer, its plan if it is valid, and the arrays with the added cuts."""

    answer: IntegerAnswer
    choice: Ints32 | None
    arrays: LinearArrays
    cuts: int


def search(
    problem: AllocationProblem,
    arrays: LinearArrays,
    columns: Ints64,
    gap: float,
    left_s: Callable[[], float],
) -> CheckedAnswer:
    """Search over some columns, the others at zero. Every attempt calls ``left_s`` first."""
    cuts_made = 0
    for _ in range(ATTEMPTS):
        answer = glpk_engine.search(arrays, columns, gap, left_s())
        if not answer.found:
            return CheckedAnswer(answer=answer, choice=None, arrays=arrays, cuts=cuts_made)
        choice = no_choice(problem)
        choice[problem.job_of[answer.chosen]] = answer.chosen
        cuts = cover_cuts(problem, choice)
        if not cuts:
            # GLPK's own objective includes the deviations of its almost-integers.
            answer = replace(answer, objective=objective_of(problem, choice))
            return CheckedAnswer(answer=answer, choice=choice, arrays=arrays, cuts=cuts_made)
        cuts_made += len(cuts)
        for cut in cuts:
            arrays = arrays.with_row(cut.options, cut.at_most)
    detail = f"{ATTEMPTS} plans in a row overstepped a limit by rounding"
    failed = replace(answer, ending=Ending.FAILED, found=False, detail=detail)
    return CheckedAnswer(answer=failed, choice=None, arrays=arrays, cuts=cuts_made)
