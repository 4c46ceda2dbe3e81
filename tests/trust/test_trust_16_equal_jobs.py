"""Job arrays of hundreds of equal jobs are planned with a certificate, like other jobs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from wattfold.coordinator.policies.parm.choice import Solving, solve_in_turn
from wattfold.coordinator.solvers.allocator import lagrangian
from wattfold.coordinator.solvers.allocator.classes import group
from wattfold.coordinator.solvers.allocator.instances import FAMILIES, Variant, draw
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    check,
)
from wattfold.coordinator.solvers.allocator.resources import Table, tabulate
from wattfold.coordinator.solvers.deadline import Deadline

IDENTICAL = FAMILIES[1]
PENDING = replace(IDENTICAL, running_share=0.0, contention=2.0)


def drawn(variant: Variant, jobs: int, seed: int) -> AllocationProblem:
    return draw(replace(variant, jobs=jobs), np.random.default_rng(seed))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_is_certified(family: Variant) -> None:
    for seed in range(3):
        problem = drawn(family, 200, seed)
        solution = lagrangian.solve(problem)
        assert check(problem, solution) == ()
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert solution.gap <= 1e-3
        assert "GLPK" not in solution.detail


@pytest.mark.parametrize(
    ("family", "seed"),
    [("identical", seed) for seed in (0, 10, 20, 27, 33, 46)]
    + [("tight-nodes", seed) for seed in (4, 59, 98)]
    + [(name, seed) for name in ("almost-equal", "aged-array") for seed in (0, 4, 9, 10, 12)],
)
def test_rounds_that_were_hard_are_certified(family: str, seed: int) -> None:
    """Many options tie at the prices, or the linear bound is further than the requested gap."""
    variant = next(one for one in FAMILIES if one.name == family)
    problem = drawn(variant, 200, seed)
    solution = lagrangian.solve(problem)
    assert check(problem, solution) == ()
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.gap <= 1e-3 * (1 + 1e-6)
    assert solution.detail == ""


@pytest.mark.parametrize("jobs", [200, 1000, 10_000])
def test_identical_jobs_are_certified_without_another_solver(jobs: int) -> None:
    for seed in range(4):
        problem = drawn(PENDING, jobs, seed)
        solution = lagrangian.solve(problem)
        assert check(problem, solution) == ()
        assert solution.outcome is AllocationOutcome.OPTIMAL
        assert solution.detail == ""


@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_equal_rows_are_one_row_with_a_count(kinds: int) -> None:
    table = tabulate(drawn(replace(PENDING, kinds=kinds), 200, 1))
    assert isinstance(table, Table)
    grouped = group(table)
    assert grouped.table.jobs == kinds
    assert grouped.table.count.sum() == 200


def test_two_thousand_jobs_of_one_option_are_proven_exactly() -> None:
    problem = drawn(replace(PENDING, sizes=1, levels=1, contention=7.3), 2000, 3)
    solution = lagrangian.solve(problem)
    most = min(
        problem.units_max // int(problem.units[0]), problem.power_uw_max // int(problem.power_uw[0])
    )
    assert most < 2000
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.detail == ""
    # The earlier of the equal jobs start.
    assert np.flatnonzero(solution.choice >= 0).tolist() == list(range(most))


def test_nothing_is_asked_after_the_deadline_of_the_round() -> None:
    """The clock jumps while the first solver runs: GLPK does not get its time again."""
    problem = drawn(FAMILIES[0], 40, 0)
    ticks = count(step=10 * 10**9)
    deadline = Deadline.after(16.0, clock=lambda: next(ticks))
    wish = Solving(solver="lagrangian", gap=-1.0, deadline_s=20.0)
    solution, solver = solve_in_turn(problem, wish, deadline)
    assert solver == "lagrangian"
    assert solution.outcome is AllocationOutcome.FEASIBLE
    assert check(problem, solution) == ()
