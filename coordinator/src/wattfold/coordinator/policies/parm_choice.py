"""The decision of PARM, once for the service and for simulations: Eq. 1-8 over arrays of options.

Takes the options of every job (`parm_options`), weighs the jobs (Eq. 8), lays out the problem and
asks the solvers in turn. Knows nothing of nodes by name, cores, messages or clocks: whoever calls
turns its own state into options and the answer into its own terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattfold.coordinator.policies.parm_options import Options
from wattfold.coordinator.solvers import greedy, lagrangian
from wattfold.coordinator.solvers.deadline import Deadline
from wattfold.coordinator.solvers.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.problem import CapacityRow, Outcome, Problem, Solution

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SOLVERS = ("lagrangian", "glpk", "highs", "greedy")
"""By their names in configurations; the first is the default, GLPK the reference."""
SOLVING_SHARE = 0.8
"""Of a round's time; the rest is for laying out, placing and the greedy method."""
FIRST_SHARE = 0.5
"""Of what is left, for the solver asked first: GLPK needs some if that one proves nothing."""
GLPK_LEAST_S = 0.1
"""With less left GLPK is not asked."""
AGE_MIN_S = 1e-3
"""Least age of Eq. 8: a job at its end keeps a weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Units that some jobs have to share, by their positions: the cores of a node."""

    jobs: tuple[int, ...]
    units_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What all options together may take (Eq. 4, 5), and what those of some jobs may."""

    units: int
    power_uw: int
    shared: tuple[Shared, ...] = ()
    units_by_kind: tuple[int, ...] = ()
    """Units of each kind of unlike nodes, as in `Options.units_by_kind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solving:
    """Who solves (one of `SOLVERS`); within which gap and how many seconds."""

    solver: str
    gap: float
    deadline_s: float
    """For the whole round; solving gets `SOLVING_SHARE` of it, all solvers in turn together."""

    def deadline(self) -> Deadline:
        """The end of all solving, counted from now."""
        return Deadline.after(SOLVING_SHARE * self.deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """Per job the index of its option, -1 = none, and how that was found."""

    picks: Ints
    solution: Solution
    solver: str

    @property
    def usable(self) -> bool:
        """Whether there is a choice; if not, nothing is picked."""
        return self.solution.usable


def weights(
    slowest_s: ArrayLike,
    done: ArrayLike,
    waited_s: ArrayLike,
    priority: ArrayLike,
    alpha: float,
) -> Floats:
    """Eq. 8 of every job, scaled by its priority: (remaining + waited)^alpha, times in s."""
    slowest, share = np.asarray(slowest_s, np.float64), np.asarray(done, np.float64)
    age_s = slowest * (1.0 - share) + np.asarray(waited_s, np.float64)
    result: Floats = np.asarray(priority, np.float64) * np.maximum(age_s, AGE_MIN_S) ** alpha
    return result


def assemble(
    options: Sequence[Options], weight: Floats, must_run: Sequence[bool], limits: Limits
) -> Problem:
    """Eq. 1-6 as a problem for the solvers. All sequences have one entry a job."""
    counts = np.asarray([len(own) for own in options], dtype=np.int64)
    return Problem(
        job_of=np.repeat(np.arange(len(options), dtype=np.int32), counts),
        size=_joined([own.size for own in options]).astype(np.int32),
        level=np.zeros(int(counts.sum()), dtype=np.int32),
        units=_joined([own.units for own in options]),
        power_uw=_joined([own.power_uw for own in options]),
        value=np.concatenate([np.zeros(0), *(own.speedup for own in options)])
        * np.repeat(weight, counts),
        must_run=np.asarray(must_run, dtype=np.bool_),
        units_max=max(limits.units, 0),
        power_uw_max=max(limits.power_uw, 0),
        rows=(*_rows(limits.shared, options, counts), *_kind_rows(limits.units_by_kind, options)),
    )


def choose(
    options: Sequence[Options],
    weight: Floats,
    must_run: Sequence[bool],
    limits: Limits,
    solving: Solving,
    deadline: Deadline | None = None,
) -> Choice:
    """The best option of every job, or none; a job that must run gets one.

    A round that asks more than once hands the same ``deadline`` over each time.
    """
    problem = assemble(options, weight, must_run, limits)
    solution, solver = solve_in_turn(problem, solving, deadline or solving.deadline())
    picks = solution.choice.astype(np.int64)
    picks = np.where(picks >= 0, picks - problem.starts()[:-1], -1)
    return Choice(picks=picks, solution=solution, solver=solver)


def solve_in_turn(problem: Problem, solving: Solving, deadline: Deadline) -> tuple[Solution, str]:
    """The answer and who gave it: the solver asked for, then GLPK, then greedy."""
    best = _asked_first(problem, solving, deadline)
    if best is not None and best.outcome in (Outcome.OPTIMAL, Outcome.INFEASIBLE):
        return best, solving.solver
    if solving.solver != "greedy":
        found = _by_glpk(problem, solving, deadline)
        better = found is not None and (best is None or found.objective > best.objective)
        if found is not None and found.usable and better:
            return found, "glpk"
        if best is not None and best.usable:
            return best, solving.solver
    return greedy.solve(problem), "greedy"


def _asked_first(problem: Problem, solving: Solving, deadline: Deadline) -> Solution | None:
    limit_s = FIRST_SHARE * deadline.left_s
    if solving.solver == "lagrangian":
        options = LagrangianOptions(gap=solving.gap, time_limit_s=limit_s)
        return lagrangian.solve(problem, options)
    if solving.solver == "highs":
        # scipy takes its time to load, as Pyomo below.
        from wattfold.coordinator.solvers import highs

        wish = highs.HighsOptions(gap=solving.gap, time_limit_s=limit_s)
        return highs.solve(problem, wish)
    return None


def _by_glpk(problem: Problem, solving: Solving, deadline: Deadline) -> Solution | None:
    if deadline.left_s < GLPK_LEAST_S:
        return None
    # Pyomo takes seconds to load; only a process that needs it may pay for that.
    from wattfold.coordinator.solvers import glpk

    left_s = deadline.left_s
    if left_s < GLPK_LEAST_S:
        return None
    return glpk.solve(problem, glpk.GlpkOptions(gap=solving.gap, time_limit_s=left_s))


def warm_up(solver: str) -> None:
    """Loads a solver, so that the first round need not wait for it."""
    if solver == "lagrangian":
        lagrangian.warm_up()
    elif solver == "highs":
        from wattfold.coordinator.solvers import highs

        highs.warm_up()
    elif solver == "glpk":
        from wattfold.coordinator.solvers import glpk

        glpk.warm_up()


def _joined(columns: list[Ints]) -> Ints:
    return np.concatenate(columns) if columns else np.zeros(0, dtype=np.int64)


def _rows(
    shared: Iterable[Shared], options: Sequence[Options], counts: Ints
) -> Iterable[CapacityRow]:
    ends = np.cumsum(counts)
    for one in shared:
        yield CapacityRow(
            option_indices=np.concatenate(
                [np.arange(ends[job] - counts[job], ends[job]) for job in one.jobs]
            ),
            coefficients=np.concatenate([options[job].units for job in one.jobs]),
            limit=max(one.units_max, 0),
        )


def _kind_rows(units_by_kind: Iterable[int], options: Sequence[Options]) -> Iterable[CapacityRow]:
    """Nodes of one kind are no substitute for those of another."""
    columns = [own.units_by_kind for own in options if own.units_by_kind is not None]
    taken = np.concatenate(columns) if columns else np.zeros((0, 0), dtype=np.int64)
    for index, limit in enumerate(units_by_kind if columns else ()):
        used = np.flatnonzero(taken[:, index])
        yield CapacityRow(option_indices=used, coefficients=taken[used, index], limit=max(limit, 0))
