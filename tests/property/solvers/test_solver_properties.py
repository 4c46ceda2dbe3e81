"""ILP = exhaustive search >= greedy on small problems; more budget is never worse."""

from dataclasses import replace

import brute_force
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import problems

from wattfold.coordinator.solvers.allocator import glpk, greedy
from wattfold.coordinator.solvers.allocator.glpk import GlpkOptions
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    check,
)

small = settings(max_examples=examples(80))


@small
@given(problems(), st.booleans())
def test_ilp_equals_brute_force(problem: AllocationProblem, presolve: bool) -> None:
    solution = glpk.solve(problem, GlpkOptions(presolve=presolve))
    best = brute_force.best_objective(problem)
    if best is None:
        assert solution.outcome is AllocationOutcome.INFEASIBLE
        return
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert check(problem, solution) == ()
    assert solution.objective == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("presolve", [False, True])
def test_an_option_that_fits_only_by_rounding_is_not_worth_anything(presolve: bool) -> None:
    """Found by the property above: its relaxation takes a ten-millionth of the option."""
    one = np.ones(1, dtype=np.int64)
    problem = AllocationProblem(
        job_of=np.zeros(1, dtype=np.int32),
        units=0 * one,
        power_uw=10_000_000 * one,
        value=np.full(1, 0.0625),
        must_run=np.zeros(1, dtype=np.bool_),
        units_max=0,
        power_uw_max=1,
    )
    solution = glpk.solve(problem, GlpkOptions(presolve=presolve))
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.objective == 0.0


@small
@given(problems())
def test_greedy_is_valid_and_its_bound_holds(problem: AllocationProblem) -> None:
    solution = greedy.solve(problem)
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if solution.usable:
        assert best is not None
        assert solution.objective <= best + 1e-9
        assert solution.bound >= best - 1e-6 * best
    if solution.outcome is AllocationOutcome.INFEASIBLE:
        assert best is None


@small
@given(problems(tight_rows=False))
def test_greedy_always_plans_when_the_cheapest_set_fits(problem: AllocationProblem) -> None:
    # If power follows units, one option per job is cheapest in everything.
    aligned = replace(problem, power_uw=problem.units * 50_000_000)
    best = brute_force.best_objective(aligned)
    assert greedy.solve(aligned).usable == (best is not None)


@small
@given(problems(), st.integers(0, 10), st.integers(0, 500_000_000))
def test_more_budget_is_never_worse(problem: AllocationProblem, units: int, power_uw: int) -> None:
    before = glpk.solve(problem)
    after = glpk.solve(
        replace(
            problem,
            units_max=problem.units_max + units,
            power_uw_max=problem.power_uw_max + power_uw,
        )
    )
    assert after.objective >= before.objective * (1 - 1e-6)
    if before.usable:
        assert after.usable
