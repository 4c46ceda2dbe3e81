"""GLPK's integer search, repeated until its plan holds in integers.

A plan that oversteps a limit by rounding is cut off by an inequality with coefficients of one that
holds for every valid plan, and the search goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers import glpk_engine
from wattfold.coordinator.solvers.glpk_engine import Ending, IntegerAnswer
from wattfold.coordinator.solvers.linear_arrays import LinearArrays
from wattfold.coordinator.solvers.presolve import cover_cuts
from wattfold.coordinator.solvers.problem import Ints32, Problem, no_choice, objective_of

Ints64 = NDArray[np.int64]

ATTEMPTS = 64
"""Searches of one problem, the last overstepping plan cut off before each next one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckedAnswer:
    """GLPK's answer, the valid plan in it if there is one, and the arrays with the cuts made."""

    answer: IntegerAnswer
    choice: Ints32 | None
    arrays: LinearArrays
    cuts: int


def search(
    problem: Problem,
    arrays: LinearArrays,
    columns: Ints64,
    gap: float,
    left_s: Callable[[], float],
) -> CheckedAnswer:
    """Searches over some columns, the others at zero. ``left_s`` is asked before every attempt."""
    cuts_made = 0
    for _ in range(ATTEMPTS):
        answer = glpk_engine.search(arrays, columns, gap, left_s())
        if not answer.found:
            return CheckedAnswer(answer=answer, choice=None, arrays=arrays, cuts=cuts_made)
        choice = no_choice(problem)
        choice[problem.job_of[answer.chosen]] = answer.chosen
        cuts = cover_cuts(problem, choice)
        if not cuts:
            # GLPK's own figure includes what its almost-integers are off by.
            answer = replace(answer, objective=objective_of(problem, choice))
            return CheckedAnswer(answer=answer, choice=choice, arrays=arrays, cuts=cuts_made)
        cuts_made += len(cuts)
        for cut in cuts:
            arrays = arrays.with_row(cut.options, cut.at_most)
    detail = f"{ATTEMPTS} plans in a row overstepped a limit by rounding"
    failed = replace(answer, ending=Ending.FAILED, found=False, detail=detail)
    return CheckedAnswer(answer=failed, choice=None, arrays=arrays, cuts=cuts_made)
