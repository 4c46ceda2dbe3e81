"""Exact solution of PARM's ILP: Pyomo states it, GLPK solves it.

With ``presolve`` (the default) the search is prepared so that 200 jobs with 9,600 options are
proven optimal in well under a second:

1. Drop dominated options (`presolve`).
2. Build and compile the Pyomo model.
3. Solve the linear relaxation, whose optimum is an upper bound.
4. Find a good plan: the better of the greedy plan and of GLPK's plan on the *core*, the options of
   small loss in the relaxation.
5. Drop all options whose reduced cost exceeds the distance between bound and plan: they are in no
   better plan. GLPK searches the remaining options.

Without it the whole model goes to GLPK's branch and bound, as a reference for tests.

GLPK works in floating point (see `glpk_engine`). Every plan is checked in integers. A plan that
exceeds a limit by rounding is excluded by an inequality that holds for every valid plan, and the
search is repeated. "Exact" therefore means an optimality gap within GLPK's tolerance of 1e-7, and
never an exceeded limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator import checked_search, glpk_engine, greedy
from wattfold.coordinator.solvers.allocator.glpk_engine import Ending, IntegerAnswer
from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays
from wattfold.coordinator.solvers.allocator.presolve import worthwhile
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
from wattfold.coordinator.solvers.allocator.pyomo_model import build_model, compile_model

Ints64 = NDArray[np.int64]

CORE_LOSS = 3e-4
"""Options of the core lose at most this share of the relaxation's optimum."""
CORE_GAP = 1e-5
CORE_TIME_SHARE = 0.3
TOLERANCE = 1e-7
"""Objectives within this relative difference count as equal; GLPK prunes by the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlpkOptions:
    """Target gap and time limit of the search."""

    gap: float = 0.0
    """Relative distance from the bound at which a plan is good enough; 0 = exact."""
    time_limit_s: float = 15.0
    """Limit of the whole call. GLPK checks the clock between nodes and may exceed it slightly."""
    presolve: bool = True


def solve(problem: AllocationProblem, options: GlpkOptions | None = None) -> Solution:
    """Return the best plan. Not thread-safe; call it in a worker process (`worker`)."""
    return _GlpkRun(problem, options or GlpkOptions()).solve()


def warm_up() -> None:
    """Load all modules that are loaded at first use, by solving a problem of one job."""
    solve(one_job(), GlpkOptions(presolve=False))


class _GlpkRun:
    """One call: the clock, the kept options, the best plan so far."""

    def __init__(self, problem: AllocationProblem, options: GlpkOptions) -> None:
        self._full = problem
        self._options = options
        self._began_ns = time.perf_counter_ns()
        self._build_ns = 0
        self._kept: Ints64 = np.arange(problem.option_count)
        self._problem = problem
        self._best: Ints32 | None = None
        self._best_value = 0.0
        self._bound = float("inf")
        self._notes: list[str] = []
        self._cuts = 0
        self._arrays: LinearArrays

    def solve(self) -> Solution:
        reason = greedy.why_infeasible(self._full)
        if reason:
            return self._ended(AllocationOutcome.INFEASIBLE, reason)
        if self._options.presolve:
            self._kept = worthwhile(self._full)
            self._problem = self._full.restricted_to(self._kept)
            if np.any(self._full.must_run & (np.diff(self._problem.starts()) == 0)):
                return self._ended(
                    AllocationOutcome.INFEASIBLE, "no option of a job that must run fits"
                )
        if not self._kept.size:
            self._offer(no_choice(self._full))
            self._bound = 0.0
            return self._finished()
        self._arrays = compile_model(build_model(self._problem))
        self._build_ns = time.perf_counter_ns() - self._began_ns
        if self._options.presolve:
            return self._prepared_search()
        return self._conclude(self._search(self._all(), self._options.gap, 1.0))

    def _prepared_search(self) -> Solution:
        relaxed = glpk_engine.relax(self._arrays, self._all(), self._left_s())
        if relaxed.ending is Ending.INFEASIBLE:
            return self._ended(AllocationOutcome.INFEASIBLE, "the jobs that must run do not fit")
        quick = greedy.solve(self._problem)
        if quick.usable:
            self._offer(quick.choice)
        if relaxed.ending is not Ending.OPTIMAL:
            self._bound = quick.bound
            self._notes.append(f"relaxation {relaxed.ending.name.lower()}")
            return self._finished()
        self._bound = relaxed.objective
        near = self._within(relaxed, CORE_LOSS * relaxed.objective)
        if not self._good_enough() and near.size < self._kept.size:
            gap = max(CORE_GAP, 0.5 * self._options.gap)
            self._search(near, gap, CORE_TIME_SHARE)
        if self._good_enough():
            return self._finished()
        rest = self._within(relaxed, self._bound - self._best_value)
        return self._conclude(self._search(rest, self._options.gap, 1.0))

    def _within(self, relaxed: glpk_engine.Relaxation, loss: float) -> Ints64:
        """Return the options of plans at most this far below the relaxation's optimum."""
        slack = 1e-9 * abs(relaxed.objective)
        return np.flatnonzero((relaxed.loss <= loss + slack) | (relaxed.primal > 1e-9))

    def _search(self, columns: Ints64, gap: float, time_share: float) -> IntegerAnswer:
        """Run a checked search and store its best valid plan."""
        result = checked_search.search(
            self._problem, self._arrays, columns, gap, lambda: self._left_s() * time_share
        )
        self._arrays = result.arrays
        self._cuts += result.cuts
        if result.choice is not None:
            self._offer(result.choice)
        return result.answer

    def _conclude(self, answer: IntegerAnswer) -> Solution:
        """Convert the ending of the decisive search to an outcome."""
        if answer.ending is Ending.OPTIMAL:
            reached = max(answer.objective, self._best_value)
            self._bound = min(self._bound, reached * (1.0 + self._options.gap))
        elif answer.ending is Ending.INFEASIBLE and self._best is None:
            return self._ended(AllocationOutcome.INFEASIBLE, "the jobs that must run do not fit")
        elif answer.ending is Ending.FAILED:
            if self._best is None:
                return self._ended(AllocationOutcome.FAILED, answer.detail)
            self._notes.append(answer.detail)
        return self._finished()

    def _finished(self) -> Solution:
        if self._best is None:
            return self._ended(AllocationOutcome.TIME_LIMIT_NO_SOLUTION, "")
        choice = no_choice(self._full)
        taken = self._best >= 0
        choice[taken] = self._kept[self._best[taken]]
        proven = self._good_enough()
        gap = gap_of(self._best_value, self._bound)
        return Solution(
            outcome=AllocationOutcome.OPTIMAL if proven else AllocationOutcome.FEASIBLE,
            choice=choice,
            objective=self._best_value,
            bound=max(self._bound, self._best_value),
            gap=gap,
            build_ns=self._build_ns,
            solve_ns=time.perf_counter_ns() - self._began_ns - self._build_ns,
            detail="; ".join(self._remarks()),
        )

    def _ended(self, outcome: AllocationOutcome, detail: str) -> Solution:
        return without_solution(
            self._full,
            outcome,
            bound=self._bound,
            build_ns=self._build_ns,
            solve_ns=time.perf_counter_ns() - self._began_ns - self._build_ns,
            detail="; ".join(filter(None, (*self._remarks(), detail))),
        )

    def _remarks(self) -> list[str]:
        cuts = [f"{self._cuts} cuts against rounding"] if self._cuts else []
        return [*self._notes, *cuts]

    def _offer(self, choice: Ints32) -> None:
        value = objective_of(self._problem, choice)
        if self._best is None or value > self._best_value:
            self._best, self._best_value = choice, value

    def _good_enough(self) -> bool:
        if self._best is None:
            return False
        return gap_of(self._best_value, self._bound) <= max(self._options.gap, TOLERANCE)

    def _all(self) -> Ints64:
        return np.arange(self._kept.size)

    def _left_s(self) -> float:
        spent_s = (time.perf_counter_ns() - self._began_ns) / 1e9
        return max(0.001, self._options.time_limit_s - spent_s)
