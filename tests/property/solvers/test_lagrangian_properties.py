"""The Lagrangian allocator against exhaustive search, and its bound in exact arithmetic."""

from dataclasses import replace
from fractions import Fraction

import brute_force
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import problems

from wattfold.coordinator.solvers.allocator import glpk, highs, lagrangian
from wattfold.coordinator.solvers.allocator.instances import VARIANTS, draw
from wattfold.coordinator.solvers.allocator.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.allocator.merging import merge
from wattfold.coordinator.solvers.allocator.prices import certify, descend, narrow, start
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    check,
    check_choice,
    objective_of,
)
from wattfold.coordinator.solvers.allocator.resources import Impossible, Table, tabulate

small = settings(max_examples=examples(150))
EXACT = LagrangianOptions(exact=True)
SCALES = (1.0, 1e-9, 1e9, 1e-3, 1e3)
on_nodes = problems(rows_max=0, node_rows=True) | problems(node_rows=True, scales=SCALES)
any_problem = problems(rows_max=3) | problems(rows_max=3, scales=SCALES) | on_nodes


@small
@given(any_problem)
def test_exact_equals_brute_force(problem: AllocationProblem) -> None:
    solution = lagrangian.solve(problem, EXACT)
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if best is None:
        assert solution.outcome is AllocationOutcome.INFEASIBLE
        return
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=1e-12)
    assert best <= solution.bound <= best * (1 + 1e-12)


@small
@given(any_problem, st.sampled_from([0.0, 1e-3, 0.05, 0.5]))
def test_within_the_gap_asked_for_under_a_bound_that_holds(
    problem: AllocationProblem, gap: float
) -> None:
    solution = lagrangian.solve(problem, LagrangianOptions(gap=gap))
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if best is None:
        assert solution.outcome is AllocationOutcome.INFEASIBLE
        return
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.bound >= best
    assert solution.objective * (1 + gap) >= best * (1 - 1e-12)
    assert solution.gap <= gap + 1e-12


@small
@given(any_problem, st.sampled_from([0.0, 1e-3, 0.05]))
def test_without_time_to_close_the_gap_the_certificate_still_holds(
    problem: AllocationProblem, gap: float
) -> None:
    solution = lagrangian.solve(problem, LagrangianOptions(gap=gap, time_limit_s=0.0))
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if solution.outcome is AllocationOutcome.INFEASIBLE:
        assert best is None
    elif best is not None:
        assert solution.bound >= best
    if solution.outcome is AllocationOutcome.OPTIMAL:
        assert best is not None
        assert solution.objective * (1 + gap) >= best * (1 - 1e-12)


@small
@given(
    any_problem,
    st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=5, max_size=5),
)
def test_the_bound_of_any_prices_is_above_the_exact_one(
    problem: AllocationProblem, prices: list[float]
) -> None:
    table = tabulate(problem)
    if isinstance(table, Impossible):
        assert brute_force.best_objective(problem) is None
        return
    chosen = np.asarray(prices[: table.resources])
    certificate = certify(table, chosen)
    exact = exact_bound(table, chosen)
    assert Fraction(certificate.bound) >= exact
    assert certificate.bound <= float(exact) + 1e-9 * (table.top.sum() + chosen @ table.limit + 1)


def exact_bound(table: Table, prices: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Fraction:
    """The Lagrangian bound in rational arithmetic."""
    padded = [*(Fraction(price) for price in prices.tolist()), Fraction(0)]
    best = [None if forced else Fraction(0) for forced in table.forced.tolist()]
    for option, job in enumerate(table.owner.tolist()):
        net = Fraction(float(table.value[option]))
        for cost, where in zip(table.cost, table.where, strict=True):
            net -= padded[int(where[job])] * Fraction(float(cost[option]))
        held = best[job]
        best[job] = net if held is None or net > held else held
    limits = [Fraction(limit) for limit in table.limit.tolist()]
    spent = sum((p * limit for p, limit in zip(padded, limits, strict=False)), Fraction(0))
    return spent + sum((net for net in best if net is not None), Fraction(0))


@small
@given(any_problem)
def test_no_plan_with_an_option_is_worth_more_than_the_bound_less_its_loss(
    problem: AllocationProblem,
) -> None:
    table = tabulate(problem)
    if isinstance(table, Impossible) or not table.jobs:
        return
    certificate = certify(table, descend(table, start(table), (0.3, 0.01)))
    for local, option in enumerate(table.option.tolist()):
        owner = int(problem.job_of[option])
        kept = np.flatnonzero(
            (problem.job_of != owner) | (np.arange(problem.option_count) == option)
        )
        must = problem.must_run.copy()
        must[owner] = True
        best = brute_force.best_objective(replace(problem.restricted_to(kept), must_run=must))
        if best is not None:
            assert best <= certificate.bound - certificate.loss[local] + 1e-12 * certificate.bound


@small
@given(on_nodes)
def test_deciding_the_jobs_of_a_node_together_changes_no_optimum(
    problem: AllocationProblem,
) -> None:
    merged = merge(problem)
    if merged is None:
        return
    assert len(merged.problem.rows) < len(problem.rows)
    assert merged.problem.job_count <= problem.job_count
    best = brute_force.best_objective(problem)
    solution = glpk.solve(merged.problem)
    assert solution.usable == (best is not None)
    choice = merged.restore(solution.choice)
    if best is not None:
        assert check_choice(problem, choice) == ()
        assert objective_of(problem, choice) == pytest.approx(solution.objective, rel=1e-12)
        assert solution.objective == pytest.approx(best, rel=1e-6, abs=1e-9)


@small
@given(any_problem, st.floats(0, 0.9))
def test_narrowing_keeps_what_is_best_at_prices_nearby(
    problem: AllocationProblem, share: float
) -> None:
    table = tabulate(problem)
    if isinstance(table, Impossible) or not table.jobs:
        return
    prices = descend(table, start(table), (0.3, 0.05))
    near = narrow(table, prices, 0.3)
    for moved in (prices * (1 - 0.3 * share), prices, prices * (1 + 0.3 * share)):
        assert certify(near, moved).bound == pytest.approx(certify(table, moved).bound, rel=1e-9)


@small
@given(any_problem, st.integers(0, 10), st.integers(0, 500_000_000))
def test_more_budget_is_never_worse(problem: AllocationProblem, units: int, power_uw: int) -> None:
    before = lagrangian.solve(problem, EXACT)
    wider = replace(
        problem,
        units_max=problem.units_max + units,
        power_uw_max=problem.power_uw_max + power_uw,
    )
    after = lagrangian.solve(wider, EXACT)
    assert after.objective >= before.objective * (1 - 1e-12)
    if before.usable:
        assert after.usable
        assert after.bound >= before.objective


@settings(max_examples=examples(25))
@given(st.sampled_from(VARIANTS), st.integers(0, 2**32 - 1), st.integers(1, 25))
def test_exact_equals_glpk(variant: object, seed: int, jobs: int) -> None:
    problem = draw(replace(variant, jobs=jobs, sizes=4), np.random.default_rng(seed))  # type: ignore[type-var]
    ours = lagrangian.solve(problem, EXACT)
    reference = glpk.solve(problem)
    assert ours.outcome is reference.outcome is AllocationOutcome.OPTIMAL
    assert check(problem, ours) == ()
    assert ours.objective == pytest.approx(reference.objective, rel=2e-7)
    assert ours.bound >= reference.objective * (1 - 1e-12)


@settings(max_examples=examples(25))
@given(st.integers(1, 30), st.integers(1, 60), st.booleans())
def test_identical_jobs(jobs: int, units_max: int, must: bool) -> None:
    """Ties everywhere: as many jobs run at the better size as fit, counted by hand."""
    problem = AllocationProblem(
        job_of=np.repeat(np.arange(jobs, dtype=np.int32), 2),
        units=np.tile(np.asarray([1, 2]), jobs),
        power_uw=np.tile(np.asarray([10, 20]), jobs),
        value=np.tile(np.asarray([1.0, 1.5]), jobs),
        must_run=np.full(jobs, must),
        units_max=units_max,
        power_uw_max=10 * units_max,
    )
    solution = lagrangian.solve(problem, EXACT)
    if must and jobs > units_max:
        assert solution.outcome is AllocationOutcome.INFEASIBLE
        return
    running = min(jobs, units_max)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.objective == running + 0.5 * min(running, units_max - running)


@small
@given(problems(rows_max=3))
def test_highs_equals_brute_force(problem: AllocationProblem) -> None:
    solution = highs.solve(problem)
    best = brute_force.best_objective(problem)
    assert check(problem, solution) == ()
    if best is None:
        assert solution.outcome is AllocationOutcome.INFEASIBLE
        return
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.objective == pytest.approx(best, rel=1e-6)
