"""The Lagrangian allocator by hand: paper-sized rounds, rows, ties, magnitudes, and its imports."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from wattfold.coordinator.solvers.allocator import enumeration, glpk, lagrangian
from wattfold.coordinator.solvers.allocator.core_search import core_of, enumerate_core, search_core
from wattfold.coordinator.solvers.allocator.glpk import GlpkOptions
from wattfold.coordinator.solvers.allocator.instances import VARIANTS, Variant, draw
from wattfold.coordinator.solvers.allocator.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.allocator.merging import merge
from wattfold.coordinator.solvers.allocator.prices import certify, descend, start
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    CapacityRow,
    check,
    check_choice,
)
from wattfold.coordinator.solvers.allocator.resources import Table, tabulate

EXACT = LagrangianOptions(exact=True, time_limit_s=240.0)


def with_node_rows(problem: AllocationProblem, nodes: int, share: float) -> AllocationProblem:
    """Put the mandatory jobs on nodes in turn. The units of each node bound their sum."""
    running = np.flatnonzero(problem.must_run)
    rows = []
    for node in range(nodes):
        members = np.flatnonzero(np.isin(problem.job_of, running[node::nodes]))
        starts = np.flatnonzero(np.diff(problem.job_of[members], prepend=-1))
        if not members.size:
            continue
        least = np.minimum.reduceat(problem.units[members], starts).sum()
        most = np.maximum.reduceat(problem.units[members], starts).sum()
        rows.append(
            CapacityRow(
                option_indices=members,
                coefficients=problem.units[members],
                limit=int(least + share * (most - least)),
            )
        )
    return replace(problem, rows=tuple(rows))


def table_of(problem: AllocationProblem) -> Table:
    table = tabulate(problem)
    assert isinstance(table, Table)
    return table


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_paper_sized_rounds_are_certified(variant: Variant) -> None:
    for seed in range(3):
        case = draw(variant, np.random.default_rng(seed))
        solution = lagrangian.solve(case)
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert solution.gap <= 1e-3
        assert check(case, solution) == ()


def test_the_optimum_lies_between_plan_and_bound() -> None:
    case = draw(VARIANTS[3], np.random.default_rng(7))
    solution = lagrangian.solve(case)
    exact = glpk.solve(case)
    assert solution.objective <= exact.objective * (1 + 1e-7)
    assert solution.bound >= exact.objective
    assert lagrangian.solve(case, EXACT).objective == pytest.approx(exact.objective, rel=2e-7)


@pytest.mark.parametrize("jobs", [1, 2, 5, 12, 30])
def test_few_jobs_are_closed_although_their_relaxation_is_weak(jobs: int) -> None:
    for seed in range(4):
        case = draw(replace(VARIANTS[0], jobs=jobs), np.random.default_rng(seed))
        solution = lagrangian.solve(case)
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert check(case, solution) == ()


@pytest.mark.parametrize(("nodes", "share"), [(1, 0.5), (20, 0.6), (60, 0.0), (60, 0.7)])
def test_rows_of_nodes(nodes: int, share: float) -> None:
    case = with_node_rows(draw(VARIANTS[0], np.random.default_rng(3)), nodes, share)
    assert len(table_of(case).cost) == 3, "disjoint rows share a layer"
    solution = lagrangian.solve(case)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert check(case, solution) == ()
    reference = glpk.solve(case, GlpkOptions(gap=1e-3))
    assert solution.bound >= reference.objective
    assert reference.bound >= solution.objective


def test_rows_that_share_jobs_take_layers_of_their_own() -> None:
    case = draw(replace(VARIANTS[0], jobs=30), np.random.default_rng(4))
    one, two = with_node_rows(case, 3, 0.4), with_node_rows(case, 5, 0.5)
    both = replace(case, rows=(*one.rows, *two.rows))
    assert len(table_of(both).cost) == 4
    solution = lagrangian.solve(both, EXACT)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.objective == pytest.approx(glpk.solve(both).objective, rel=2e-7)


def test_many_nodes_with_rows_are_repaired_at_once() -> None:
    case = draw(replace(VARIANTS[0], jobs=600), np.random.default_rng(2))
    case = with_node_rows(case, 80, 0.6)
    assert table_of(case).resources > 70
    solution = lagrangian.solve(case, LagrangianOptions(time_limit_s=0.0))
    assert check(case, solution) == ()
    assert solution.gap < 1e-4
    merged = merge(case)
    assert merged is not None
    assert merged.problem.rows == ()
    # Rows that contain all units twice cannot be merged and get prices.
    twice = replace(case, rows=(*case.rows, *case.rows))
    assert merge(twice) is None
    priced = lagrangian.solve(twice, LagrangianOptions(time_limit_s=0.0))
    assert check(twice, priced) == ()
    assert solution.objective * 0.98 < priced.objective <= solution.bound
    assert priced.bound >= solution.objective


def test_a_sampled_start_prices_thousands_of_jobs() -> None:
    case = draw(replace(VARIANTS[0], jobs=2000), np.random.default_rng(1))
    solution = lagrangian.solve(case)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.gap < 1e-4
    assert check(case, solution) == ()


def test_thousands_of_identical_jobs() -> None:
    jobs = 3000
    case = AllocationProblem(
        job_of=np.repeat(np.arange(jobs, dtype=np.int32), 2),
        units=np.tile(np.asarray([1, 2]), jobs),
        power_uw=np.tile(np.asarray([70, 130]), jobs),
        value=np.tile(np.asarray([1.0, 1.6]), jobs),
        must_run=np.zeros(jobs, dtype=np.bool_),
        units_max=4000,
        power_uw_max=10**6,
    )
    solution = lagrangian.solve(case)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    # 2,000 jobs at one unit, 1,000 at two: all units are used and every job runs.
    assert solution.objective == pytest.approx(3600.0)


def test_values_of_very_different_magnitude() -> None:
    case = draw(replace(VARIANTS[0], jobs=40), np.random.default_rng(3))
    factor = 10.0 ** np.random.default_rng(3).integers(-12, 13, case.job_count)
    case = replace(case, value=case.value * factor[case.job_of])
    solution = lagrangian.solve(case, EXACT)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert check(case, solution) == ()


def test_no_capacity() -> None:
    case = draw(replace(VARIANTS[-1], jobs=20), np.random.default_rng(0))
    for limits in ({"units_max": 0}, {"power_uw_max": 0}, {"units_max": 0, "power_uw_max": 0}):
        solution = lagrangian.solve(replace(case, **limits), EXACT)
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert solution.choice.tolist() == [-1] * 20
        assert solution.objective == solution.bound == 0.0


def test_a_negative_limit_leaves_no_plan() -> None:
    case = draw(replace(VARIANTS[-1], jobs=3), np.random.default_rng(0))
    assert lagrangian.solve(replace(case, power_uw_max=-1)).outcome is AllocationOutcome.INFEASIBLE


def test_no_time_still_gives_a_plan_and_a_bound() -> None:
    case = draw(replace(VARIANTS[0], jobs=8), np.random.default_rng(1))
    options = LagrangianOptions(exact=True, time_limit_s=0.0)
    solution = lagrangian.solve(case, options)
    assert solution.usable
    assert check(case, solution) == ()
    assert solution.bound >= glpk.solve(case).objective


def test_enumeration_and_glpk_find_the_same_in_a_core() -> None:
    case = draw(replace(VARIANTS[0], jobs=10, sizes=3, levels=3), np.random.default_rng(5))
    case = with_node_rows(case, 2, 0.5)
    table = table_of(case)
    prices = descend(table, start(table), (0.3, 0.06, 0.01))
    certificate = certify(table, prices)
    budget = 0.04 * certificate.bound
    core = core_of(table, certificate, budget)
    assert core.open_jobs.size > 3
    found = enumerate_core(table, core, prices, budget, 2**62)
    assert found.complete
    assert found.plan is not None
    searched = search_core(case, table, core, 0.0, 2**62)
    assert searched.proven
    assert searched.choice is not None
    assert check_choice(case, searched.choice) == ()
    value = table.value[found.plan.option[found.plan.option >= 0]].sum()
    assert case.value[searched.choice[searched.choice >= 0]].sum() == pytest.approx(value)


def test_an_enumeration_that_grows_too_large_says_so() -> None:
    case = draw(VARIANTS[0], np.random.default_rng(5))
    table = table_of(case)
    prices = start(table)
    core = core_of(table, certify(table, prices), float("inf"))
    found = enumerate_core(table, core, prices, float("inf"), 2**62)
    assert not found.complete
    assert core.open_jobs.size > enumeration.RESOURCES_MAX


def test_a_warm_solver_has_loaded_no_modelling_library() -> None:
    code = (
        "import sys; from wattfold.coordinator.policies.parm.policy import Parm; Parm().warm_up();"
        "print(sorted({'pyomo', 'swiglpk', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
