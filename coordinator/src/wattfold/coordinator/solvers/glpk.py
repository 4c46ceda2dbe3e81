"""PARM's ILP solved exactly: Pyomo states it, GLPK solves it.

With ``presolve`` (the default) the search is prepared so that 200 jobs with 9,600 options are
proven optimal in well under a second:

1. drop dominated options (`presolve`), 2. build and compile the Pyomo model, 3. solve the linear
   relaxation, whose optimum bounds everything, 4. find a good plan: the better of the greedy one
   and of GLPK's on the *core*, the options the relaxation says lose little, 5. any option whose
   reduced cost exceeds the distance between bound and plan cannot be in a better plan: GLPK
   searches what is left.

Without it the whole model goes to GLPK's branch and bound, as a reference for tests.

GLPK works in floating point (see `glpk_engine`). Every plan is checked in integers; one that
oversteps a limit by rounding is cut off by an inequality that holds for every valid plan, and the
search is repeated. "Exact" therefore means an optimality gap within GLPK's tolerance of 1e-7, and
never a broken limit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers import checked_search, glpk_engine, greedy
from wattfold.coordinator.solvers.glpk_engine import Ending, IntegerAnswer
from wattfold.coordinator.solvers.linear_arrays import LinearArrays
from wattfold.coordinator.solvers.presolve import worthwhile
from wattfold.coordinator.solvers.problem import (
    Ints32,
    Outcome,
    Problem,
    Solution,
    gap_of,
    no_choice,
    objective_of,
    one_job,
    without_solution,
)
from wattfold.coordinator.solvers.pyomo_model import build_model, compile_model

Ints64 = NDArray[np.int64]

CORE_LOSS = 3e-4
"""Options of the core lose at most this share of the relaxation's optimum."""
CORE_GAP = 1e-5
CORE_TIME_SHARE = 0.3
TOLERANCE = 1e-7
"""Relative difference of two objectives that counts as none; GLPK prunes by the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlpkOptions:
    """How far and how long to search."""

    gap: float = 0.0
    """Relative distance from the bound at which a plan is good enough; 0 = exact."""
    time_limit_s: float = 15.0
    """For the whole call. GLPK looks at the clock between nodes and may exceed it a little."""
    presolve: bool = True


def solve(problem: Problem, options: GlpkOptions | None = None) -> Solution:
    """The best plan. Not thread-safe; call it in a worker process (`worker`)."""
    return _Run(problem, options or GlpkOptions()).solve()


def warm_up() -> None:
    """Loads everything that is loaded at first use, by solving a problem of one job."""
    solve(one_job(), GlpkOptions(presolve=False))


class _Run:
    """One call: the clock, the kept options, the best plan so far."""

    def __init__(self, problem: Problem, options: GlpkOptions) -> None:
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
            return self._ended(Outcome.INFEASIBLE, reason)
        if self._options.presolve:
            self._kept = worthwhile(self._full)
            self._problem = self._full.restricted_to(self._kept)
            if np.any(self._full.must_run & (np.diff(self._problem.starts()) == 0)):
                return self._ended(Outcome.INFEASIBLE, "no option of a job that must run fits")
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
            return self._ended(Outcome.INFEASIBLE, "the jobs that must run do not fit")
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
        """The options that can be in a plan at most this far below the relaxation's optimum."""
        slack = 1e-9 * abs(relaxed.objective)
        return np.flatnonzero((relaxed.loss <= loss + slack) | (relaxed.primal > 1e-9))

    def _search(self, columns: Ints64, gap: float, time_share: float) -> IntegerAnswer:
        """A checked search; keeps the best valid plan."""
        result = checked_search.search(
            self._problem, self._arrays, columns, gap, lambda: self._left_s() * time_share
        )
        self._arrays = result.arrays
        self._cuts += result.cuts
        if result.choice is not None:
            self._offer(result.choice)
        return result.answer

    def _conclude(self, answer: IntegerAnswer) -> Solution:
        """Turns the ending of the decisive search into an outcome."""
        if answer.ending is Ending.OPTIMAL:
            reached = max(answer.objective, self._best_value)
            self._bound = min(self._bound, reached * (1.0 + self._options.gap))
        elif answer.ending is Ending.INFEASIBLE and self._best is None:
            return self._ended(Outcome.INFEASIBLE, "the jobs that must run do not fit")
        elif answer.ending is Ending.FAILED:
            if self._best is None:
                return self._ended(Outcome.FAILED, answer.detail)
            self._notes.append(answer.detail)
        return self._finished()

    def _finished(self) -> Solution:
        if self._best is None:
            return self._ended(Outcome.TIME_LIMIT_NO_SOLUTION, "")
        choice = no_choice(self._full)
        taken = self._best >= 0
        choice[taken] = self._kept[self._best[taken]]
        proven = self._good_enough()
        gap = gap_of(self._best_value, self._bound)
        return Solution(
            outcome=Outcome.OPTIMAL if proven else Outcome.FEASIBLE,
            choice=choice,
            objective=self._best_value,
            bound=max(self._bound, self._best_value),
            gap=gap,
            build_ns=self._build_ns,
            solve_ns=time.perf_counter_ns() - self._began_ns - self._build_ns,
            detail="; ".join(self._remarks()),
        )

    def _ended(self, outcome: Outcome, detail: str) -> Solution:
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
