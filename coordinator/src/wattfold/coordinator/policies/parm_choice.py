"""The decision of PARM, once for the service and for simulations: Eq. 1-8 over arrays of options.

Takes the options of every job (`parm_options`), weighs the jobs (Eq. 8), lays out the problem and
asks the solvers in turn. Knows nothing of nodes by name, cores, messages or clocks: whoever calls
turns its own state into options and the answer into its own terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.policies.parm_options import Bools, Columns, Options
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
    """Units of each kind of unlike nodes, as in `Layout.units_by_kind`."""


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Ages(Columns):
    """What the weights of jobs come from, one entry a job."""

    slowest_s: Floats
    """t[j, min N_j, min P_j]."""
    done: Floats
    """Share of the work, 0..1."""
    submitted_ns: Ints
    priority: Floats


def weights(jobs: Ages, now_ns: int, alpha: float) -> Floats:
    """Eq. 8 of every job, scaled by its priority: (remaining + waited)^alpha, times in s."""
    waited_s = (now_ns - jobs.submitted_ns) / NS_PER_S
    age_s = jobs.slowest_s * (1.0 - jobs.done) + waited_s
    result: Floats = jobs.priority * np.maximum(age_s, AGE_MIN_S) ** alpha
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class Offers(Columns):
    """The options of some jobs, one job after the other; ``counts`` says how many each has."""

    counts: Ints
    units: Ints
    power_uw: Ints
    speedup: Floats
    units_by_kind: Ints | None
    """As in `Layout`."""

    @classmethod
    def of(cls, options: Sequence[Options]) -> Offers:
        """The options of these jobs."""
        layouts = [own.layout for own in options]
        by_kind = [own.units_by_kind for own in layouts if own.units_by_kind is not None]
        return cls(
            counts=np.asarray([len(own) for own in options], dtype=np.int64),
            units=_joined([own.units for own in layouts]),
            power_uw=_joined([own.power_uw for own in layouts]),
            speedup=np.concatenate([np.zeros(0), *(own.speedup for own in options)]),
            units_by_kind=np.concatenate(by_kind) if by_kind else None,
        )

    def only(self, keep: Bools) -> Self:
        """Those of some jobs."""
        # One count an option for once, as it has as many rows as the others then.
        counts = np.repeat(self.counts, self.counts)
        options = replace(self, counts=counts)
        kept = super(Offers, options).only(np.repeat(keep, self.counts))
        return replace(kept, counts=self.counts[keep])


def assemble(offers: Offers, weight: Floats, must_run: ArrayLike, limits: Limits) -> Problem:
    """Eq. 1-6 as a problem for the solvers. All sequences have one entry a job."""
    counts = offers.counts
    return Problem(
        job_of=np.repeat(np.arange(counts.size, dtype=np.int32), counts),
        units=offers.units,
        power_uw=offers.power_uw,
        value=offers.speedup * np.repeat(weight, counts),
        must_run=np.asarray(must_run, dtype=np.bool_),
        units_max=max(limits.units, 0),
        power_uw_max=max(limits.power_uw, 0),
        rows=(*_rows(limits.shared, offers), *_kind_rows(limits.units_by_kind, offers)),
    )


def choose(
    offers: Offers,
    weight: Floats,
    must_run: ArrayLike,
    limits: Limits,
    solving: Solving,
    deadline: Deadline | None = None,
) -> Choice:
    """The best option of every job, or none; a job that must run gets one.

    A round that asks more than once hands the same ``deadline`` over each time.
    """
    problem = assemble(offers, weight, must_run, limits)
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


def _rows(shared: Iterable[Shared], offers: Offers) -> Iterable[CapacityRow]:
    ends = np.cumsum(offers.counts)
    for one in shared:
        own = [np.arange(ends[job] - offers.counts[job], ends[job]) for job in one.jobs]
        options = np.concatenate(own)
        yield CapacityRow(
            option_indices=options,
            coefficients=offers.units[options],
            limit=max(one.units_max, 0),
        )


def _kind_rows(units_by_kind: Iterable[int], offers: Offers) -> Iterable[CapacityRow]:
    """Nodes of one kind are no substitute for those of another."""
    taken = offers.units_by_kind
    if taken is None:
        return
    for index, limit in enumerate(units_by_kind):
        used = np.flatnonzero(taken[:, index])
        yield CapacityRow(option_indices=used, coefficients=taken[used, index], limit=max(limit, 0))
