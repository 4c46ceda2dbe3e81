"""Search that closes the gap between a plan and the bound, over the few relevant options.

At the prices of the bound each option has a loss. The value of a plan is at most the bound minus
the losses of its jobs and the unused limits at their prices. So a plan that beats the best known
plan consists of options with losses below the gap, the *core*. All other options are left out, and
most jobs have a single option left.

`enumerate_core` examines all partial plans of the core that can still beat the best plan
(`enumeration`), with equal jobs counted. Its answer is a proof. If there are too many partial
plans, `search_core` passes the core to GLPK, whose proof holds within its tolerance.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.enumeration import STATES_MAX, Enumeration, SearchResult
from wattfold.coordinator.solvers.allocator.presolve import worthwhile
from wattfold.coordinator.solvers.allocator.prices import Certificate
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationProblem,
    CapacityRow,
    Ints32,
    check_choice,
    no_choice,
)
from wattfold.coordinator.solvers.allocator.resources import Table
from wattfold.coordinator.solvers.allocator.stages import Core

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

OPEN_MAX = 400
"""Maximum number of open jobs, or classes of equal jobs, for which a search is worthwhile."""


def core_of(table: Table, certificate: Certificate, budget: float) -> Core:
    """Return the options of plans that lose at most ``budget`` against the bound."""
    kept = np.flatnonzero(certificate.loss <= budget)
    owner = table.owner[kept]
    idle = ~table.forced & (certificate.idle_loss <= budget)
    count = np.bincount(owner, minlength=table.jobs) + idle
    fixed = np.full(table.jobs, -1, dtype=np.int64)
    fixed[owner] = kept
    open_jobs = np.flatnonzero(count > 1)
    begins = np.searchsorted(owner, open_jobs)
    ends = np.searchsorted(owner, open_jobs, side="right")
    choices, losses = [], []
    for job, begin, end in zip(open_jobs.tolist(), begins, ends, strict=True):
        own = _undominated(table, kept[begin:end])
        lost = certificate.loss[own]
        if idle[job]:
            own, lost = np.append(own, -1), np.append(lost, certificate.idle_loss[job])
        choices.append(own)
        losses.append(lost)
    return Core(
        fixed=fixed,
        open_jobs=open_jobs,
        choices=tuple(choices),
        losses=tuple(losses),
        hollow=bool(np.any(count == 0)),
    )


def _undominated(table: Table, options: Ints64) -> Ints64:
    """Return the options of a job without those that another option dominates."""
    if options.size < 2:
        return options
    columns = np.stack([-table.value[options], *(cost[options] for cost in table.cost)])
    under = np.all(columns[:, :, None] <= columns[:, None, :], axis=0)
    # The first of equal options stays.
    under &= ~under.T | np.triu(np.ones(under.shape, dtype=np.bool_), 1)
    kept: Ints64 = options[~under.any(axis=0)]
    return kept


def enumerate_core(
    table: Table,
    core: Core,
    prices: Floats,
    budget: float,
    deadline_ns: int,
    states_max: int = STATES_MAX,
) -> SearchResult:
    """Return the best plan of the core, computed in integers."""
    if core.hollow:
        return SearchResult(plan=None, complete=True)
    if core.open_jobs.size > OPEN_MAX:
        return SearchResult(plan=None, complete=False)
    if np.any(prices == 0):
        # Resources without a price are seldom used up. Without them, far fewer partial plans
        # differ.
        priced = Enumeration(table, core, prices, budget, states_max, prices > 0)
        found = priced.run(deadline_ns)
        if found.plan is None or np.all(found.plan.used(table) <= table.limit):
            return found
    return Enumeration(table, core, prices, budget, states_max).run(deadline_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """GLPK's answer for the core; ``choice`` in the numbers of the problem."""

    choice: Ints32 | None
    proven: bool
    """No plan of the core is better by more than the gap (or there is none), within tolerance."""
    detail: str


def search_core(
    problem: AllocationProblem, table: Table, core: Core, gap: float, deadline_ns: int
) -> Searched:
    """Run GLPK's branch and bound over the core. ``gap`` is relative to the whole plan's value."""
    # Imported late: most rounds need neither.
    from wattfold.coordinator.solvers.allocator import checked_search, glpk_engine
    from wattfold.coordinator.solvers.allocator.linear_arrays import arrays_of

    if core.hollow:
        return Searched(choice=None, proven=True, detail="")
    base = no_choice(problem)
    settled = np.setdiff1d(np.arange(table.jobs), core.open_jobs)
    taken = settled[core.fixed[settled] >= 0]
    base[table.job[taken]] = table.option[core.fixed[taken]]
    if not core.open_jobs.size:
        valid = not check_choice(problem, base)
        return Searched(choice=base if valid else None, proven=True, detail="")
    reduced, options = _reduced(problem, table, core, base)
    without = np.diff(reduced.starts()) == 0
    if min(limit for _, limit in reduced.limits()) < 0 or np.any(reduced.must_run & without):
        return Searched(choice=None, proven=True, detail="")
    if not options.size:
        return Searched(choice=base, proven=True, detail="")
    arrays = arrays_of(reduced)

    def left_s() -> float:
        return max(0.001, (deadline_ns - time.perf_counter_ns()) / 1e9)

    result = checked_search.search(reduced, arrays, np.arange(options.size), gap, left_s)
    ending = result.answer.ending
    proven = ending in (glpk_engine.Ending.OPTIMAL, glpk_engine.Ending.INFEASIBLE)
    if result.choice is None:
        return Searched(choice=None, proven=proven, detail=result.answer.detail)
    choice = base.copy()
    started = result.choice >= 0
    choice[started] = options[result.choice[started]]
    return Searched(choice=choice, proven=proven, detail="")


def _reduced(
    problem: AllocationProblem, table: Table, core: Core, base: Ints32
) -> tuple[AllocationProblem, Ints64]:
    """Return the problem of the open jobs within the remaining limits, and its option indices."""
    local = np.concatenate([choices[choices >= 0] for choices in core.choices])
    options = np.sort(table.option[local])
    must = np.zeros(problem.job_count, dtype=np.bool_)
    bound_to = [bool(choices.min() >= 0) for choices in core.choices]
    must[table.job[core.open_jobs[np.asarray(bound_to, dtype=np.bool_)]]] = True
    settled = base[base >= 0]
    rows = []
    for row in problem.rows:
        taken = np.zeros(problem.option_count, dtype=np.bool_)
        taken[settled] = True
        used = int(row.coefficients[taken[row.option_indices]].sum())
        rows.append(
            CapacityRow(
                option_indices=row.option_indices,
                coefficients=row.coefficients,
                limit=row.limit - used,
            )
        )
    reduced = replace(
        problem,
        must_run=must,
        units_max=problem.units_max - int(problem.units[settled].sum()),
        power_uw_max=problem.power_uw_max - int(problem.power_uw[settled].sum()),
        rows=tuple(rows),
    ).restricted_to(options)
    kept = worthwhile(reduced)
    return reduced.restricted_to(kept), options[kept]
