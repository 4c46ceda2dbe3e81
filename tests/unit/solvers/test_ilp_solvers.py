"""The ILP by hand: both paths of GLPK, the greedy fallback, exact limits, and outcomes."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from wattfold.coordinator.solvers.allocator import glpk, greedy, highs, lagrangian
from wattfold.coordinator.solvers.allocator.glpk import GlpkOptions
from wattfold.coordinator.solvers.allocator.instances import VARIANTS, Variant, draw
from wattfold.coordinator.solvers.allocator.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.allocator.linear_arrays import LinearArrays, arrays_of
from wattfold.coordinator.solvers.allocator.presolve import worthwhile
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    CapacityRow,
    Solution,
    check,
    check_choice,
)
from wattfold.coordinator.solvers.allocator.pyomo_model import build_model, compile_model

Option = tuple[int, int, int, float]
"""job, units, power_uw, value"""


def problem(
    options: Sequence[Option],
    must_run: Sequence[bool],
    units_max: int,
    power_uw_max: int,
    rows: tuple[CapacityRow, ...] = (),
) -> AllocationProblem:
    units = np.asarray([option[1] for option in options], dtype=np.int64)
    return AllocationProblem(
        job_of=np.asarray([option[0] for option in options], dtype=np.int32),
        units=units,
        power_uw=np.asarray([option[2] for option in options], dtype=np.int64),
        value=np.asarray([option[3] for option in options], dtype=np.float64),
        must_run=np.asarray(must_run, dtype=np.bool_),
        units_max=units_max,
        power_uw_max=power_uw_max,
        rows=rows,
    )


def pure(case: AllocationProblem) -> Solution:
    return glpk.solve(case, GlpkOptions(presolve=False))


def exactly(case: AllocationProblem) -> Solution:
    return lagrangian.solve(case, LagrangianOptions(exact=True))


SOLVERS = [
    pytest.param(glpk.solve, id="presolved"),
    pytest.param(pure, id="pure"),
    pytest.param(exactly, id="lagrangian"),
    pytest.param(highs.solve, id="highs"),
    pytest.param(greedy.solve, id="greedy"),
]
EXACT = SOLVERS[:4]
Solver = Callable[[AllocationProblem], Solution]


@pytest.mark.parametrize("solve", EXACT)
def test_small_case_by_hand(solve: Solver) -> None:
    case = problem(
        [(0, 1, 50, 1.0), (0, 2, 100, 1.8), (1, 1, 60, 3.0), (1, 2, 120, 4.0), (2, 2, 90, 2.0)],
        [True, False, False],
        units_max=4,
        power_uw_max=200,
    )
    solution = solve(case)
    # {0, 2, 4} takes exactly 4 units and 200 µW; every other plan of value above 6 takes more.
    assert solution.choice.tolist() == [0, 2, 4]
    assert solution.objective == pytest.approx(6.0)
    assert solution.outcome is AllocationOutcome.OPTIMAL
    assert solution.gap < 1e-7


@pytest.mark.parametrize("solve", SOLVERS)
def test_must_run_jobs_that_do_not_fit_are_infeasible(solve: Solver) -> None:
    case = problem([(0, 1, 60, 1.0), (1, 1, 60, 1.0)], [True, True], units_max=4, power_uw_max=119)
    solution = solve(case)
    assert solution.outcome is AllocationOutcome.INFEASIBLE
    assert not solution.usable
    assert solution.choice.tolist() == [-1, -1]


@pytest.mark.parametrize("solve", EXACT)
def test_limits_that_only_together_do_not_fit_are_infeasible(solve: Solver) -> None:
    # Each job has an option that is cheap in units and an option that is cheap in power.
    options = [(job, units, power, 1.0) for job in range(2) for units, power in ((1, 9), (9, 1))]
    solution = solve(problem(options, [True, True], units_max=5, power_uw_max=5))
    assert solution.outcome is AllocationOutcome.INFEASIBLE


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_must_run_job_without_options_is_infeasible(solve: Solver) -> None:
    case = problem([(0, 1, 1, 1.0)], [False, True], units_max=9, power_uw_max=9)
    assert solve(case).outcome is AllocationOutcome.INFEASIBLE


@pytest.mark.parametrize("solve", SOLVERS)
def test_nothing_to_decide(solve: Solver) -> None:
    empty = solve(problem([], [], units_max=9, power_uw_max=9))
    assert empty.usable
    assert empty.choice.size == 0
    idle = solve(problem([], [False, False], units_max=9, power_uw_max=9))
    assert idle.choice.tolist() == [-1, -1]


@pytest.mark.parametrize("solve", SOLVERS)
def test_what_never_fits_is_not_started(solve: Solver) -> None:
    case = problem([(0, 10, 1, 5.0), (1, 1, 1, 1.0)], [False, False], units_max=9, power_uw_max=9)
    assert solve(case).choice.tolist() == [-1, 1]


@pytest.mark.parametrize("solve", SOLVERS)
def test_extra_capacity_rows_are_kept(solve: Solver) -> None:
    row = CapacityRow(
        option_indices=np.asarray([0, 1, 2]), coefficients=np.asarray([2, 2, 3]), limit=4
    )
    case = problem(
        [(0, 1, 1, 2.0), (1, 1, 1, 3.0), (2, 1, 1, 2.5)],
        [False] * 3,
        units_max=9,
        power_uw_max=9,
        rows=(row,),
    )
    assert solve(case).choice.tolist() == [0, 1, -1]


@pytest.mark.parametrize("solve", SOLVERS)
def test_one_microwatt_too_much_at_a_large_scale(solve: Solver) -> None:
    # Relative to the limit the excess is 5e-13: floating-point tolerances would let it pass.
    case = problem(
        [(0, 1, 10**12 + 1, 1.0), (1, 1, 10**12, 1.0)],
        [False, False],
        units_max=2,
        power_uw_max=2 * 10**12,
    )
    solution = solve(case)
    assert solution.usable
    assert check(case, solution) == ()
    assert np.count_nonzero(solution.choice >= 0) == 1


@pytest.mark.parametrize("solve", SOLVERS)
def test_an_exactly_full_budget_is_used(solve: Solver) -> None:
    case = problem(
        [(0, 1, 10**12 + 1, 1.0), (1, 1, 10**12 - 1, 1.0)],
        [True, True],
        units_max=2,
        power_uw_max=2 * 10**12,
    )
    solution = solve(case)
    assert solution.choice.tolist() == [0, 1]


@pytest.mark.parametrize("solve", SOLVERS)
def test_must_run_one_microwatt_over_is_infeasible(solve: Solver) -> None:
    case = problem(
        [(0, 1, 10**12 + 1, 1.0), (1, 1, 10**12, 1.0)],
        [True, True],
        units_max=2,
        power_uw_max=2 * 10**12,
    )
    assert solve(case).outcome is AllocationOutcome.INFEASIBLE


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_paper_sized_instances_are_proven(variant: Variant) -> None:
    case = draw(variant, np.random.default_rng(5))
    assert case.job_count == 200
    assert case.option_count > 9000
    exact = glpk.solve(case)
    assert exact.outcome is AllocationOutcome.OPTIMAL
    assert exact.gap < 1e-7
    assert check(case, exact) == ()
    rough = glpk.solve(case, GlpkOptions(gap=1e-3))
    assert rough.outcome is AllocationOutcome.OPTIMAL
    assert rough.objective >= exact.objective * (1 - 1e-3)
    quick = greedy.solve(case)
    assert check(case, quick) == ()
    assert exact.objective * 0.97 <= quick.objective <= exact.objective * (1 + 1e-7)
    assert quick.bound >= exact.objective * (1 - 1e-9)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_preparation_does_not_change_the_optimum(variant: Variant) -> None:
    small = Variant(
        name=variant.name,
        jobs=12,
        sizes=3,
        levels=3,
        contention=variant.contention,
        power_share=variant.power_share,
        alpha=variant.alpha,
        running_share=variant.running_share,
    )
    for seed in range(5):
        case = draw(small, np.random.default_rng(seed))
        assert glpk.solve(case).objective == pytest.approx(pure(case).objective, rel=1e-6)


def test_a_time_limit_leaves_a_valid_plan() -> None:
    case = draw(VARIANTS[0], np.random.default_rng(3))
    solution = glpk.solve(case, GlpkOptions(time_limit_s=0.001))
    assert solution.outcome in (AllocationOutcome.FEASIBLE, AllocationOutcome.OPTIMAL)
    assert check(case, solution) == ()
    assert solution.bound >= solution.objective


@pytest.mark.parametrize("compiled", [lambda p: compile_model(build_model(p)), arrays_of])
def test_compiled_model_is_the_problem(
    compiled: Callable[[AllocationProblem], LinearArrays],
) -> None:
    case = problem(
        [(0, 1, 50, 1.0), (0, 2, 100, 1.8), (2, 2, 90, 2.0)],
        [True, False, False],
        units_max=4,
        power_uw_max=200,
        rows=(CapacityRow(option_indices=np.asarray([2]), coefficients=np.asarray([7]), limit=8),),
    )
    arrays = compiled(case)
    assert arrays.gain.tolist() == [1.0, 1.8, 2.0]
    rows = {
        (tuple(row), low, high)
        for row, low, high in zip(
            arrays.matrix.toarray().tolist(),
            arrays.row_lower.tolist(),
            arrays.row_upper.tolist(),
            strict=True,
        )
    }
    minus = -np.inf
    assert rows == {
        ((1.0, 1.0, 0.0), 1.0, 1.0),
        ((0.0, 0.0, 1.0), minus, 1.0),
        ((1.0, 2.0, 2.0), minus, 4.0),
        ((50.0, 100.0, 90.0), minus, 200.0),
        ((0.0, 0.0, 7.0), minus, 8.0),
    }


def test_dominated_options_are_left_out() -> None:
    case = problem(
        [(0, 1, 5, 2.0), (0, 1, 6, 2.0), (0, 2, 5, 1.0), (0, 1, 5, 2.0), (0, 2, 4, 1.0)],
        [False],
        units_max=9,
        power_uw_max=9,
    )
    assert worthwhile(case).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        ([-1, -1], "job 0 must run"),
        ([2, -1], "option of job 0"),
        ([0, 9], "option of job 1"),
        ([1, 2], "power_uw"),
        ([0], "jobs"),
    ],
)
def test_broken_choices_are_named(choice: list[int], what: str) -> None:
    case = problem(
        [(0, 1, 5, 1.0), (0, 1, 8, 2.0), (1, 1, 5, 1.0)],
        [True, False],
        units_max=2,
        power_uw_max=10,
    )
    broken = check_choice(case, np.asarray(choice, dtype=np.int32))
    assert [violation.what for violation in broken] == [what]
    assert check_choice(case, np.asarray([0, 2], dtype=np.int32)) == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([(1, 1, 1, 1.0), (0, 1, 1, 1.0)], "ascend"),
        ([(2, 1, 1, 1.0)], "outside"),
        ([(0, -1, 1, 1.0)], "negative"),
        ([(0, 1, 1, 0.0)], "above zero"),
        ([(0, 1, 2**53, 1.0)], "too large"),
    ],
)
def test_bad_problems_are_refused(options: list[Option], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(options, [False, False], units_max=1, power_uw_max=1)
