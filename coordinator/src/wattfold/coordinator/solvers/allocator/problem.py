"""The optimisation problem of a planning round and its answer, as plain arrays.

This is PARM's ILP (SC14, Eq. 1-6) with one row per *option*: a job at a number of units and a cap.
The caller computes the cost and value of each option. Eq. 6 (a job with a fixed size) is expressed
by options of only that size. Solvers read nothing else, so that they can be compared with each
other.

Amounts are integers (units, microwatts) and are checked as such: a solver in floating point
proposes, `check` decides. This module solves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

AMOUNT_MAX = 2**53
"""Sums above this would not be exact in the solvers' floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """A limit on the sum of the chosen options' coefficients, such as the cores of a node."""

    option_indices: Ints64
    coefficients: Ints64
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationProblem:
    """m options of J jobs, grouped by job. Arrays must not be changed after construction."""

    job_of: Ints32
    """Job of each option, 0..J-1, ascending. A job may have no option."""
    units: Ints64
    """Units of each option, limited by ``units_max`` (Eq. 4), at least zero."""
    power_uw: Ints64
    """Power of each option, limited by ``power_uw_max`` (Eq. 5), at least zero."""
    value: Floats
    """``w_j * s_jnp`` of Eq. 1, above zero: every option is worth more than not running."""
    must_run: Bools
    """Whether each job needs exactly one option (Eq. 3) instead of at most one (Eq. 2)."""
    units_max: int
    power_uw_max: int
    rows: tuple[CapacityRow, ...] = ()

    def __post_init__(self) -> None:
        count = self.option_count
        for name in ("units", "power_uw", "value"):
            if getattr(self, name).shape != (count,):
                raise ValueError(
                    f"{name} has shape {getattr(self, name).shape} for {count} options"
                )
        if count and (self.job_of[0] < 0 or self.job_of[-1] >= self.job_count):
            raise ValueError(f"job_of is outside 0..{self.job_count - 1}")
        if np.any(np.diff(self.job_of) < 0):
            raise ValueError("job_of must ascend")
        if count and (self.units.min() < 0 or self.power_uw.min() < 0):
            raise ValueError("units and power must not be negative")
        if not np.all(np.isfinite(self.value) & (self.value > 0)):
            raise ValueError("every value must be finite and above zero")
        _check_amounts(self)

    @property
    def option_count(self) -> int:
        """m."""
        return int(self.job_of.shape[0])

    @property
    def job_count(self) -> int:
        """J."""
        return int(self.must_run.shape[0])

    def starts(self) -> Ints64:
        """Return J + 1 offsets: the options of job j are ``starts[j]:starts[j + 1]``."""
        return np.searchsorted(self.job_of, np.arange(self.job_count + 1)).astype(np.int64)

    def limits(self) -> list[tuple[Ints64, int]]:
        """Return all capacities as (coefficient per option, limit): units, power, extra rows."""
        dense = [(self.units, self.units_max), (self.power_uw, self.power_uw_max)]
        for row in self.rows:
            coefficients = np.zeros(self.option_count, dtype=np.int64)
            np.add.at(coefficients, row.option_indices, row.coefficients)
            dense.append((coefficients, row.limit))
        return dense

    def restricted_to(self, options: Ints64) -> AllocationProblem:
        """Return the problem with only these options (ascending). Jobs keep their numbers."""
        position = np.full(self.option_count, -1, dtype=np.int64)
        position[options] = np.arange(options.size)
        rows = []
        for row in self.rows:
            kept = position[row.option_indices] >= 0
            rows.append(
                CapacityRow(
                    option_indices=position[row.option_indices[kept]],
                    coefficients=row.coefficients[kept],
                    limit=row.limit,
                )
            )
        return AllocationProblem(
            job_of=self.job_of[options],
            units=self.units[options],
            power_uw=self.power_uw[options],
            value=self.value[options],
            must_run=self.must_run,
            units_max=self.units_max,
            power_uw_max=self.power_uw_max,
            rows=tuple(rows),
        )


def one_job() -> AllocationProblem:
    """Return a problem of one pending job that fits: the smallest problem for a warm-up."""
    one = np.ones(1, dtype=np.int64)
    return AllocationProblem(
        job_of=np.zeros(1, dtype=np.int32),
        units=one,
        power_uw=one,
        value=np.ones(1),
        must_run=np.zeros(1, dtype=np.bool_),
        units_max=1,
        power_uw_max=1,
    )


def _check_amounts(problem: AllocationProblem) -> None:
    for row in problem.rows:
        if row.option_indices.shape != row.coefficients.shape:
            raise ValueError("a capacity row needs one coefficient per option index")
        if row.option_indices.size == 0:
            continue
        if row.coefficients.min() < 0:
            raise ValueError("a capacity row's coefficients must not be negative")
        low, high = int(row.option_indices.min()), int(row.option_indices.max())
        if low < 0 or high >= problem.option_count:
            raise ValueError(f"a capacity row names options {low}..{high}")
    for amounts in (problem.units, problem.power_uw, *(row.coefficients for row in problem.rows)):
        if amounts.size and int(amounts.max()) > AMOUNT_MAX // max(1, problem.job_count):
            raise ValueError(f"an amount of {int(amounts.max())} is too large to be summed exactly")


class AllocationOutcome(StrEnum):
    """How a solver ended. The caller has a fallback for each."""

    OPTIMAL = "optimal"
    """Proven within the target gap."""
    FEASIBLE = "feasible"
    """Valid, but time ran out before the proof, or the method gives none."""
    INFEASIBLE = "infeasible"
    """The jobs that must run do not fit."""
    TIME_LIMIT_NO_SOLUTION = "time_limit_no_solution"
    FAILED = "failed"
    """The solver failed or gave an invalid answer; ``detail`` describes it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """A solver's answer. ``choice`` is all -1 unless the outcome is OPTIMAL or FEASIBLE."""

    outcome: AllocationOutcome
    choice: Ints32
    """Option index of each job, -1 = none."""
    objective: float
    bound: float
    """Upper bound of all objectives; infinite if the method gives no bound."""
    gap: float
    """``(bound - objective) / objective``, 0 if proven."""
    build_ns: int
    solve_ns: int
    detail: str = ""

    @property
    def usable(self) -> bool:
        """Whether it contains a plan."""
        return self.outcome in (AllocationOutcome.OPTIMAL, AllocationOutcome.FEASIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A violated constraint, with amounts in the unit of the constraint."""

    what: str
    used: int
    limit: int


def check(problem: AllocationProblem, solution: Solution) -> tuple[Violation, ...]:
    """Return every constraint that an answer violates, in exact integers. Empty = valid.

    An answer without a plan violates nothing. A choice outside the job's own options is a
    violation, not an error.
    """
    return check_choice(problem, solution.choice) if solution.usable else ()


def check_choice(problem: AllocationProblem, choice: Ints32) -> tuple[Violation, ...]:
    """Return `check` of a bare choice."""
    if choice.shape != (problem.job_count,):
        return (Violation(what="jobs", used=choice.size, limit=problem.job_count),)
    broken = []
    starts = problem.starts()
    for job, option in enumerate(choice.tolist()):
        if option == -1:
            if problem.must_run[job]:
                broken.append(Violation(what=f"job {job} must run", used=0, limit=1))
        elif not starts[job] <= option < starts[job + 1]:
            broken.append(Violation(what=f"option of job {job}", used=option, limit=-1))
    if broken:
        return tuple(broken)
    chosen = choice[choice >= 0]
    for index, (coefficients, limit) in enumerate(problem.limits()):
        used = sum(coefficients[chosen].tolist())
        if used > limit:
            name = ("units", "power_uw")[index] if index < 2 else f"row {index - 2}"
            broken.append(Violation(what=name, used=used, limit=limit))
    return tuple(broken)


def objective_of(problem: AllocationProblem, choice: Ints32) -> float:
    """Return Eq. 1 of a choice."""
    return float(problem.value[choice[choice >= 0]].sum())


def no_choice(problem: AllocationProblem) -> Ints32:
    """Return a choice that runs nothing."""
    return np.full(problem.job_count, -1, dtype=np.int32)


def gap_of(objective: float, bound: float) -> float:
    """Return the relative distance of a bound from an objective, never negative."""
    if bound <= objective:
        return 0.0
    return (bound - objective) / objective if objective > 0 else float("inf")


def without_solution(
    problem: AllocationProblem, outcome: AllocationOutcome, **fields: Any
) -> Solution:
    """Return an answer without a plan."""
    defaults: dict[str, Any] = {"bound": float("inf"), "build_ns": 0, "solve_ns": 0}
    return Solution(
        outcome=outcome,
        choice=no_choice(problem),
        objective=0.0,
        gap=float("inf"),
        **(defaults | fields),
    )
