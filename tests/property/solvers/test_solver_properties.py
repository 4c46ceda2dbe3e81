"""ILP = brute force >= greedy on small problems; more budget is never worse."""

from dataclasses import replace

import brute_force
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wattfold.coordinator.solvers import glpk, greedy
from wattfold.coordinator.solvers.glpk import GlpkOptions
from wattfold.coordinator.solvers.problem import CapacityRow, Outcome, Problem, check

small = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def problems(draw: st.DrawFn, *, tight_rows: bool = True) -> Problem:
    jobs = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(0, 4), min_size=jobs, max_size=jobs))
    total = sum(counts)

    def integers(low: int, high: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        values = draw(st.lists(st.integers(low, high), min_size=total, max_size=total))
        return np.asarray(values, dtype=np.int64)

    units = integers(0, 8)
    rows = []
    if tight_rows and total and draw(st.booleans()):
        members = sorted(draw(st.sets(st.integers(0, total - 1), min_size=1)))
        rows.append(
            CapacityRow(
                option_indices=np.asarray(members, dtype=np.int64),
                coefficients=units[members],
                limit=draw(st.integers(0, 12)),
            )
        )
    return Problem(
        job_of=np.repeat(np.arange(jobs, dtype=np.int32), counts),
        size=units.astype(np.int32),
        level=np.zeros(total, dtype=np.int32),
        units=units,
        power_uw=integers(0, 400_000_001),
        value=integers(1, 10_000) / 16.0,
        must_run=np.asarray(draw(st.lists(st.booleans(), min_size=jobs, max_size=jobs))),
        units_max=draw(st.integers(0, 24)),
        power_uw_max=draw(st.integers(0, 1_200_000_000)),
        rows=tuple(rows),
    )


@small
@given(problems(), st.booleans())
def test_ilp_equals_brute_force(problem: Problem, presolve: bool) -> None:
    solution = glpk.solve(problem, GlpkOptions(presolve=presolve))
    best = brute_force.best_objective(problem)
    if best is None:
        assert solution.outcome is Outcome.INFEASIBLE
        return
    assert solution.outcome is Outcome.OPTIMAL
    assert check(problem, solution) == ()
    assert solution.objective == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("presolve", [False, True])
def test_an_option_that_fits_only_by_rounding_is_not_worth_anything(presolve: bool) -> None:
    """Found by the property above: its relaxation takes a ten-millionth of the option."""
    one = np.ones(1, dtype=np.int64)
    problem = Problem(
        job_of=np.zeros(1, dtype=np.int32),
        size=np.ones(1, dtype=np.int32),
        level=np.zeros(1, dtype=np.int32),
        units=0 * one,
        power_uw=10_000_000 * one,
        value=np.full(1, 0.0625),
        must_run=np.zeros(1, dtype=np.bool_),
        units_max=0,
        power_uw_max=1,
    )
    solution = glpk.solve(problem, GlpkOptions(presolve=presolve))
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.objective == 0.0


@small
@given(problems())
def test_greedy_is_valid_and_its_bound_holds(problem: Problem) -> None:
    solution = greedy.solve(problem)
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if solution.usable:
        assert best is not None
        assert solution.objective <= best + 1e-9
        assert solution.bound >= best - 1e-6 * best
    if solution.outcome is Outcome.INFEASIBLE:
        assert best is None


@small
@given(problems(tight_rows=False))
def test_greedy_always_plans_when_the_cheapest_set_fits(problem: Problem) -> None:
    # One option per job is cheapest in everything when power follows units.
    aligned = replace(problem, power_uw=problem.units * 50_000_000)
    best = brute_force.best_objective(aligned)
    assert greedy.solve(aligned).usable == (best is not None)


@small
@given(problems(), st.integers(0, 10), st.integers(0, 500_000_000))
def test_more_budget_is_never_worse(problem: Problem, units: int, power_uw: int) -> None:
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
