"""Counted equal jobs against exhaustive search, and against the same jobs as separate jobs."""

from __future__ import annotations

from dataclasses import replace

import brute_force
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import problems

from wattfold.coordinator.solvers.allocator import highs, lagrangian
from wattfold.coordinator.solvers.allocator.classes import Tally, group
from wattfold.coordinator.solvers.allocator.core_search import core_of, enumerate_core
from wattfold.coordinator.solvers.allocator.cutting import settle
from wattfold.coordinator.solvers.allocator.instances import FAMILIES, Variant, draw
from wattfold.coordinator.solvers.allocator.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.allocator.prices import certify, start
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    check,
    objective_of,
)
from wattfold.coordinator.solvers.allocator.resources import Impossible, tabulate
from wattfold.coordinator.solvers.allocator.trades import traded

small = settings(max_examples=examples(100))
EXACT = LagrangianOptions(exact=True)


def repeated(problem: AllocationProblem, kind_of: list[int]) -> AllocationProblem:
    """A problem with one copy of a job of this problem for each entry of ``kind_of``."""
    starts = problem.starts()
    own = [np.arange(starts[kind], starts[kind + 1]) for kind in kind_of]
    pick = np.concatenate(own)
    return replace(
        problem,
        job_of=np.repeat(np.arange(len(own), dtype=np.int32), [part.size for part in own]),
        units=problem.units[pick],
        power_uw=problem.power_uw[pick],
        value=problem.value[pick],
        must_run=problem.must_run[kind_of],
    )


@st.composite
def arrays(draw: st.DrawFn) -> AllocationProblem:
    """Problems of up to six jobs of up to three kinds."""
    kinds = draw(problems(tight_rows=False))
    numbers = st.integers(0, min(kinds.job_count, 3) - 1)
    return repeated(kinds, draw(st.lists(numbers, min_size=1, max_size=6)))


@small
@given(arrays())
def test_equal_jobs_counted_equal_brute_force(problem: AllocationProblem) -> None:
    best = brute_force.best_objective(problem)
    for options in (EXACT, LagrangianOptions(gap=0.01)):
        solution = lagrangian.solve(problem, options)
        assert check(problem, solution) == ()
        if best is None:
            assert solution.outcome is AllocationOutcome.INFEASIBLE
            continue
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert solution.bound >= best * (1 - 1e-12)
        assert solution.objective * (1 + options.target) >= best * (1 - 1e-12)


@small
@given(arrays())
def test_the_search_over_counts_proves_the_optimum_by_itself(problem: AllocationProblem) -> None:
    table = tabulate(problem)
    if isinstance(table, Impossible) or not table.jobs:
        return
    grouped = group(table)
    prices = settle(grouped.table, start(grouped.table)).prices
    certificate = certify(grouped.table, prices)
    core = core_of(grouped.table, certificate, float("inf"))
    found = enumerate_core(grouped.table, core, prices, float("inf"), 2**62)
    best = brute_force.best_objective(problem)
    assert found.complete
    assert (found.plan is None) == (best is None)
    if found.plan is None or best is None:
        return
    choice = grouped.choice(problem, grouped.table, found.plan)
    assert objective_of(problem, choice) == pytest.approx(best, rel=1e-12)
    budget = (certificate.bound - best) * (1 + 1e-9) + 1e-9
    core = core_of(grouped.table, certificate, budget)
    again = enumerate_core(grouped.table, core, prices, budget, 2**62)
    assert again.complete
    assert again.plan is not None
    choice = grouped.choice(problem, grouped.table, again.plan)
    assert objective_of(problem, choice) == pytest.approx(best, rel=1e-12)


@small
@given(arrays())
def test_prices_settled_by_cutting_planes_are_no_worse(problem: AllocationProblem) -> None:
    table = tabulate(problem)
    if isinstance(table, Impossible) or not table.jobs:
        return
    counted = group(table).table
    first = start(counted)
    settled = settle(counted, first).prices
    assert certify(counted, settled).bound <= certify(counted, first).bound * (1 + 1e-12)
    # Counted or not, the bound for the same prices is equal.
    apart = certify(table, settled).bound
    assert certify(counted, settled).bound == pytest.approx(apart, rel=1e-9)


@small
@given(arrays(), st.randoms(use_true_random=False))
def test_the_order_of_equal_jobs_does_not_matter(
    problem: AllocationProblem, random: object
) -> None:
    order = list(range(problem.job_count))
    random.shuffle(order)  # type: ignore[attr-defined]
    before = lagrangian.solve(problem, EXACT)
    after = lagrangian.solve(repeated(problem, order), EXACT)
    assert after.outcome is before.outcome
    assert after.objective == pytest.approx(before.objective, rel=1e-12)


@small
@given(st.sampled_from(FAMILIES[1:4]), st.integers(0, 2**32 - 1), st.integers(2, 60))
def test_of_equal_jobs_the_earlier_gets_the_better_option(
    family: Variant, seed: int, jobs: int
) -> None:
    problem = draw(replace(family, jobs=jobs, sizes=4), np.random.default_rng(seed))
    solution = lagrangian.solve(problem)
    again = lagrangian.solve(problem)
    assert solution.choice.tolist() == again.choice.tolist()
    starts = problem.starts()
    got = [float(problem.value[option]) if option >= 0 else 0.0 for option in solution.choice]
    seen: dict[bytes, float] = {}
    for job in range(problem.job_count):
        own = slice(starts[job], starts[job + 1])
        parts = (problem.units[own], problem.power_uw[own], problem.value[own])
        key = b"".join(part.tobytes() for part in (*parts, problem.must_run[job : job + 1]))
        assert got[job] <= seen.get(key, float("inf"))
        seen[key] = got[job]


@settings(max_examples=examples(20))
@given(st.sampled_from(FAMILIES), st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_the_bound_holds_for_the_exact_optimum(family: Variant, seed: int, jobs: int) -> None:
    problem = draw(replace(family, jobs=jobs, sizes=3, levels=3), np.random.default_rng(seed))
    solution = lagrangian.solve(problem)
    reference = highs.solve(problem, highs.HighsOptions(time_limit_s=5.0))
    assert check(problem, solution) == ()
    assert solution.bound >= reference.objective * (1 - 1e-9)
    assert reference.bound >= solution.objective * (1 - 1e-6)


@small
@given(arrays())
def test_counted_is_never_worse_than_apart(problem: AllocationProblem) -> None:
    """The same jobs with values that differ negligibly, so that no two rows are equal."""
    apart = replace(problem, value=problem.value * (1.0 + 1e-9 * (1 + problem.job_of)))
    counted, single = lagrangian.solve(problem, EXACT), lagrangian.solve(apart, EXACT)
    assert counted.outcome is single.outcome
    assert counted.objective >= single.objective * (1 - 1e-8)


@small
@given(arrays(), st.randoms(use_true_random=False))
def test_equal_jobs_share_the_same_options_in_any_order(
    problem: AllocationProblem, random: object
) -> None:
    """A permutation exchanges only jobs of equal content, so the plan stays the same."""
    starts = problem.starts()
    content = [
        (
            tuple(problem.units[starts[job] : starts[job + 1]]),
            tuple(problem.power_uw[starts[job] : starts[job + 1]]),
            tuple(problem.value[starts[job] : starts[job + 1]]),
            bool(problem.must_run[job]),
        )
        for job in range(problem.job_count)
    ]
    order = list(range(problem.job_count))
    random.shuffle(order)  # type: ignore[attr-defined]
    by_content = {own: iter([at for at in order if content[at] == own]) for own in set(content)}
    again = lagrangian.solve(repeated(problem, [next(by_content[own]) for own in content]))
    assert again.choice.tolist() == lagrangian.solve(problem).choice.tolist()


@small
@given(arrays())
def test_traded_plans_keep_limits_counts_and_what_must_run(problem: AllocationProblem) -> None:
    apart = replace(problem, value=problem.value * (1.0 + 1e-3 * problem.job_of))
    table = tabulate(apart)
    if isinstance(table, Impossible) or not table.jobs or table.forced.any():
        return
    nothing = Tally(
        row=np.arange(table.jobs),
        option=np.full(table.jobs, -1),
        number=np.ones(table.jobs, dtype=np.int64),
    )
    plan = traded(table, nothing, settle(table, start(table)).prices, float("inf"))
    assert np.all(plan.used(table) <= table.limit)
    assert np.bincount(plan.row, plan.number, table.jobs).tolist() == table.count.tolist()
    taken = plan.option >= 0
    assert np.all(table.owner[plan.option[taken]] == plan.row[taken])
