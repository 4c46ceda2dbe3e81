"""Decision of PARM for the service and simulations: Eq. 1-8 on arrays of options.

The module takes the options of every job (`parm.options`), weighs the jobs (Eq. 8), builds the
problem and calls the solvers in turn. It knows no node names, cores, messages or clocks. Callers
convert their state into options and the answer into their own terms.

Resize costs as part of the decision go beyond the paper. PARM chooses as if a resize were free and
charges its cost afterwards (Eq. 20, 21, for every resized job). So jobs may oscillate between two
choices of nearly equal value. With a price, an option of another size than the current size loses
the share of its remaining time that the stall takes:

    s' = s * remaining / (remaining + stall),   remaining = (1 - done) * t[j, n, p]

The stall is the stall of this job alone, doubled as in the paper. In fact a decision stalls all its
resized jobs as long as the slowest of them, but this cannot be expressed for a single option.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.policies.parm.options import Bools, Columns, Floats, Ints, JobOptions
from wattfold.coordinator.solvers.allocator import greedy, lagrangian
from wattfold.coordinator.solvers.allocator.lagrangian import LagrangianOptions
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    CapacityRow,
    Solution,
)
from wattfold.coordinator.solvers.deadline import Deadline

SOLVERS = ("lagrangian", "glpk", "highs", "greedy")
"""Names of solvers in configurations; the first is the default, GLPK is the reference."""
SOLVING_SHARE = 0.8
"""Share of a round's time for solving; the rest is for preparation, placement and greedy."""
FIRST_SHARE = 0.5
"""Share of the remaining time for the first solver; GLPK needs time if it proves nothing."""
GLPK_LEAST_S = 0.1
"""Minimum remaining time for calling GLPK, in seconds."""
AGE_MIN_S = 1e-3
"""Minimum age in Eq. 8, in seconds: a job near its end keeps a weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Units that some jobs share, such as the cores of a node. Jobs are given by position."""

    jobs: tuple[int, ...]
    units_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionLimits:
    """Limits of all options together (Eq. 4, 5), and of the options of some jobs."""

    units: int
    power_uw: int
    shared: tuple[Shared, ...] = ()
    units_by_kind: tuple[int, ...] = ()
    """Units of each kind of heterogeneous nodes, as in `OptionLayout.units_by_kind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solving:
    """Solver (one of `SOLVERS`), optimality gap and time limit."""

    solver: str
    gap: float
    deadline_s: float
    """Time of the whole round in seconds. All solvers together get `SOLVING_SHARE` of it."""

    def deadline(self) -> Deadline:
        """Return the end of all solving, counted from now."""
        return Deadline.after(SOLVING_SHARE * self.deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """Index of the option of each job (-1 = none), and the solver's result."""

    picks: Ints
    solution: Solution
    solver: str

    @property
    def usable(self) -> bool:
        """Whether there is a solution; if not, no option is chosen."""
        return self.solution.usable


@dataclass(frozen=True, kw_only=True, eq=False)
class Ages(Columns):
    """Inputs of the weights, one entry per job."""

    slowest_s: Floats
    """t[j, min N_j, min P_j]."""
    done: Floats
    """Completed share of the work, 0..1."""
    submitted_ns: Ints
    priority: Floats


def weights(jobs: Ages, now_ns: int, alpha: float) -> Floats:
    """Return Eq. 8 of every job times its priority: (remaining + waited)^alpha, times in s."""
    waited_s = (now_ns - jobs.submitted_ns) / NS_PER_S
    age_s = jobs.slowest_s * (1.0 - jobs.done) + waited_s
    result: Floats = jobs.priority * np.maximum(age_s, AGE_MIN_S) ** alpha
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class OptionTable(Columns):
    """Options of some jobs, one job after another; ``counts`` holds the number for each job."""

    counts: Ints
    units: Ints
    power_uw: Ints
    speedup: Floats
    units_by_kind: Ints | None
    """As in `OptionLayout`."""

    @classmethod
    def of(cls, options: Sequence[JobOptions]) -> OptionTable:
        """Return the options of these jobs."""
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
        """Return the options of some jobs."""
        # Repeat the counts per option, so that they have as many rows as the other columns.
        counts = np.repeat(self.counts, self.counts)
        options = replace(self, counts=counts)
        kept = super(OptionTable, options).only(np.repeat(keep, self.counts))
        return replace(kept, counts=self.counts[keep])


def assemble(
    offers: OptionTable, weight: Floats, must_run: ArrayLike, limits: OptionLimits
) -> AllocationProblem:
    """Return Eq. 1-6 as a problem for the solvers. All sequences have one entry per job."""
    counts = offers.counts
    return AllocationProblem(
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
    offers: OptionTable,
    weight: Floats,
    must_run: ArrayLike,
    limits: OptionLimits,
    solving: Solving,
    deadline: Deadline | None = None,
) -> Choice:
    """Return the best option of every job, or none; a job that must run always gets one.

    A round with several calls passes the same ``deadline`` each time.
    """
    problem = assemble(offers, weight, must_run, limits)
    solution, solver = solve_in_turn(problem, solving, deadline or solving.deadline())
    picks = solution.choice.astype(np.int64)
    picks = np.where(picks >= 0, picks - problem.starts()[:-1], -1)
    return Choice(picks=picks, solution=solution, solver=solver)


def solve_in_turn(
    problem: AllocationProblem, solving: Solving, deadline: Deadline
) -> tuple[Solution, str]:
    """Return the solution and its solver: the selected solver, then GLPK, then greedy."""
    best = _asked_first(problem, solving, deadline)
    if best is not None and best.outcome in (
        AllocationOutcome.OPTIMAL,
        AllocationOutcome.INFEASIBLE,
    ):
        return best, solving.solver
    if solving.solver != "greedy":
        found = _by_glpk(problem, solving, deadline)
        better = found is not None and (best is None or found.objective > best.objective)
        if found is not None and found.usable and better:
            return found, "glpk"
        if best is not None and best.usable:
            return best, solving.solver
    return greedy.solve(problem), "greedy"


def _asked_first(
    problem: AllocationProblem, solving: Solving, deadline: Deadline
) -> Solution | None:
    limit_s = FIRST_SHARE * deadline.left_s
    if solving.solver == "lagrangian":
        options = LagrangianOptions(gap=solving.gap, time_limit_s=limit_s)
        return lagrangian.solve(problem, options)
    if solving.solver == "highs":
        # scipy takes long to load, as does Pyomo below.
        from wattfold.coordinator.solvers.allocator import highs

        wish = highs.HighsOptions(gap=solving.gap, time_limit_s=limit_s)
        return highs.solve(problem, wish)
    return None


def _by_glpk(problem: AllocationProblem, solving: Solving, deadline: Deadline) -> Solution | None:
    if deadline.left_s < GLPK_LEAST_S:
        return None
    # Pyomo takes seconds to load; only a process that needs it should load it.
    from wattfold.coordinator.solvers.allocator import glpk

    left_s = deadline.left_s
    if left_s < GLPK_LEAST_S:
        return None
    return glpk.solve(problem, glpk.GlpkOptions(gap=solving.gap, time_limit_s=left_s))


def warm_up(solver: str) -> None:
    """Load a solver, so that the first round does not wait for it."""
    if solver == "lagrangian":
        lagrangian.warm_up()
    elif solver == "highs":
        from wattfold.coordinator.solvers.allocator import highs

        highs.warm_up()
    elif solver == "glpk":
        from wattfold.coordinator.solvers.allocator import glpk

        glpk.warm_up()


def _joined(columns: list[Ints]) -> Ints:
    return np.concatenate(columns) if columns else np.zeros(0, dtype=np.int64)


def _rows(shared: Iterable[Shared], offers: OptionTable) -> Iterable[CapacityRow]:
    ends = np.cumsum(offers.counts)
    for one in shared:
        own = [np.arange(ends[job] - offers.counts[job], ends[job]) for job in one.jobs]
        options = np.concatenate(own)
        yield CapacityRow(
            option_indices=options,
            coefficients=offers.units[options],
            limit=max(one.units_max, 0),
        )


def _kind_rows(units_by_kind: Iterable[int], offers: OptionTable) -> Iterable[CapacityRow]:
    """Yield the limits by kind: nodes of one kind cannot replace nodes of another kind."""
    taken = offers.units_by_kind
    if taken is None:
        return
    for index, limit in enumerate(units_by_kind):
        used = np.flatnonzero(taken[:, index])
        yield CapacityRow(option_indices=used, coefficients=taken[used, index], limit=max(limit, 0))


KEPT_MIN = 1e-6
"""Minimum share of its speedup that an option keeps, so values stay above zero near its end."""


def stalls_s(sizes: Ints, size_now: int, data_mb: float, link_mb_per_s: float) -> Floats:
    """Return the seconds that a job loses by changing to each size (in nodes); 0 for its own."""
    different, where = np.unique(sizes, return_inverse=True)
    lost = [
        charge_s(
            [
                Resize(
                    data_mb=data_mb,
                    nodes_from=size_now,
                    nodes_to=size,
                    link_mb_per_s=link_mb_per_s,
                )
            ]
        )
        for size in different.tolist()
    ]
    result: Floats = np.asarray(lost, dtype=np.float64)[where]
    return result


def stalled(options: JobOptions, stall_s: Floats, done: float) -> JobOptions:
    """Return the options with speedups reduced by their stalls; ``done`` is a share, 0..1."""
    remaining_s = (1.0 - done) * options.total_s
    together_s = np.maximum(remaining_s + stall_s, np.finfo(np.float64).tiny)
    kept = np.where(stall_s > 0, np.maximum(remaining_s / together_s, KEPT_MIN), 1.0)
    return replace(options, speedup=options.speedup * kept)
