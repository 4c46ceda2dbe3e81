"""The optimisation problem of a planning round, and its answer, as plain arrays.

PARM's ILP (SC14, Eq. 1-6) with one row per *option*: run a job on so many units at such a cap.
Whoever builds it decides what an option costs and is worth; Eq. 6 (a job that may not change size)
is expressed by offering only that size. Solvers read nothing else, so that any of them can be
compared with any other.

Amounts are integers (units, microwatts) and are checked as such: a solver working in floating point
proposes, `check` decides. Nothing here solves anything.
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
    """One more limit on the sum of the chosen options' coefficients (the cores of one node)."""

    option_indices: Ints64
    coefficients: Ints64
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """m options of J jobs, grouped by job. Arrays must not be changed after construction."""

    job_of: Ints32
    """Job of each option, 0..J-1, ascending. A job may have no option."""
    units: Ints64
    """What the option takes of ``units_max`` (Eq. 4), at least zero."""
    power_uw: Ints64
    """What the option takes of ``power_uw_max`` (Eq. 5), at least zero."""
    value: Floats
    """``w_j * s_jnp`` of Eq. 1, above zero: anything is worth more than not running."""
    must_run: Bools
    """Per job: exactly one option (Eq. 3) instead of at most one (Eq. 2)."""
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
        """J + 1 offsets: the options of job j are ``starts[j]:starts[j + 1]``."""
        return np.searchsorted(self.job_of, np.arange(self.job_count + 1)).astype(np.int64)

    def limits(self) -> list[tuple[Ints64, int]]:
        """Every capacity as (coefficient per option, limit): units, power, then the extra rows."""
        dense = [(self.units, self.units_max), (self.power_uw, self.power_uw_max)]
        for row in self.rows:
            coefficients = np.zeros(self.option_count, dtype=np.int64)
            np.add.at(coefficients, row.option_indices, row.coefficients)
            dense.append((coefficients, row.limit))
        return dense

    def restricted_to(self, options: Ints64) -> Problem:
        """The same problem with only these options (ascending indices). Jobs keep their numbers."""
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
        return Problem(
            job_of=self.job_of[options],
            units=self.units[options],
            power_uw=self.power_uw[options],
            value=self.value[options],
            must_run=self.must_run,
            units_max=self.units_max,
            power_uw_max=self.power_uw_max,
            rows=tuple(rows),
        )


def one_job() -> Problem:
    """One pending job that fits: the least a solver can be warmed up with."""
    one = np.ones(1, dtype=np.int64)
    return Problem(
        job_of=np.zeros(1, dtype=np.int32),
        units=one,
        power_uw=one,
        value=np.ones(1),
        must_run=np.zeros(1, dtype=np.bool_),
        units_max=1,
        power_uw_max=1,
    )


def _check_amounts(problem: Problem) -> None:
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


class Outcome(StrEnum):
    """How a solver ended. The caller names a fallback for each."""

    OPTIMAL = "optimal"
    """Proven within the gap asked for."""
    FEASIBLE = "feasible"
    """Valid, but time ran out before the proof, or the method gives none."""
    INFEASIBLE = "infeasible"
    """The jobs that must run do not fit."""
    TIME_LIMIT_NO_SOLUTION = "time_limit_no_solution"
    FAILED = "failed"
    """The solver gave up or answered nonsense; ``detail`` says what."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """A solver's answer. ``choice`` is all -1 unless the outcome is OPTIMAL or FEASIBLE."""

    outcome: Outcome
    choice: Ints32
    """Per job the index of its option, -1 = none."""
    objective: float
    bound: float
    """No solution is better than this; infinite when the method gives no bound."""
    gap: float
    """``(bound - objective) / objective``, 0 when proven."""
    build_ns: int
    solve_ns: int
    detail: str = ""

    @property
    def usable(self) -> bool:
        """Whether there is a plan in it."""
        return self.outcome in (Outcome.OPTIMAL, Outcome.FEASIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken constraint, with amounts in the unit of the constraint."""

    what: str
    used: int
    limit: int


def check(problem: Problem, solution: Solution) -> tuple[Violation, ...]:
    """Every constraint an answer breaks, in exact integer arithmetic. Empty = valid.

    An answer without a plan breaks nothing. A choice outside the job's own options is a violation,
    not an error.
    """
    return check_choice(problem, solution.choice) if solution.usable else ()


def check_choice(problem: Problem, choice: Ints32) -> tuple[Violation, ...]:
    """`check` of a bare choice."""
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


def objective_of(problem: Problem, choice: Ints32) -> float:
    """Eq. 1 of a choice."""
    return float(problem.value[choice[choice >= 0]].sum())


def no_choice(problem: Problem) -> Ints32:
    """A choice that runs nothing."""
    return np.full(problem.job_count, -1, dtype=np.int32)


def gap_of(objective: float, bound: float) -> float:
    """Relative distance of a bound from an objective, never negative."""
    if bound <= objective:
        return 0.0
    return (bound - objective) / objective if objective > 0 else float("inf")


def without_solution(problem: Problem, outcome: Outcome, **fields: Any) -> Solution:
    """An answer without a plan."""
    defaults: dict[str, Any] = {"bound": float("inf"), "build_ns": 0, "solve_ns": 0}
    return Solution(
        outcome=outcome,
        choice=no_choice(problem),
        objective=0.0,
        gap=float("inf"),
        **(defaults | fields),
    )
