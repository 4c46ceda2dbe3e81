"""Closes what is left between a plan and the bound, on the few options that can matter.

At the prices of the bound each option has a loss: no plan with it is worth more than the bound less
the losses of its jobs and the unused share of the limits at their prices. A plan better than the
best known one can therefore only be made of options whose loss is below the gap, the *core*; all
others are left out, and most jobs have one option left.

`enumerate_core` goes through the jobs of the core one by one with all partial plans that can still
end above the best one, in numpy arrays; of partial plans that take the same of everything the best
stays. It proves its answer by itself. Where the partial plans become too many, `search_core` gives
the core to GLPK, whose proof holds within its tolerance.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.presolve import worthwhile
from wattfold.coordinator.solvers.prices import Certificate
from wattfold.coordinator.solvers.problem import (
    CapacityRow,
    Ints32,
    Problem,
    check_choice,
    no_choice,
)
from wattfold.coordinator.solvers.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

STATES_MAX = 60_000
EXPANSIONS_MAX = 1_200_000
MERGE_ABOVE = 256
RESOURCES_MAX = 24
OPEN_MAX = 400
"""More open jobs, or resources that can run out, than these are not worth a try."""
SLACK = 1e-9
"""Relative; what adding up losses may be off by, and more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Core:
    """Per job what may still be chosen: its options of the table and, as -1, none."""

    fixed: Ints64
    """Per job the one option left, or -1; meaningless where the job is open."""
    open_jobs: Ints64
    choices: tuple[Ints64, ...]
    """Per open job."""
    losses: tuple[Floats, ...]
    hollow: bool
    """Some job has nothing left: no plan is within the budget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """``choice`` per local job, the best plan within the budget, or None if there is none."""

    choice: Ints64 | None
    complete: bool
    """Nothing was cut short: there is no better plan within the budget."""


def core_of(table: Table, certificate: Certificate, budget: float) -> Core:
    """What can be part of a plan that loses at most ``budget`` against the bound."""
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
        own = kept[begin:end]
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


def enumerate_core(
    table: Table, core: Core, prices: Floats, budget: float, deadline_ns: int
) -> Found:
    """The best plan of the core, in whole numbers throughout."""
    if core.hollow:
        return Found(choice=None, complete=True)
    if core.open_jobs.size > OPEN_MAX:
        return Found(choice=None, complete=False)
    return _Enumeration(table, core, prices, budget).run(deadline_ns)


class _Enumeration:
    """Partial plans, one column each: use of every resource, loss, value."""

    def __init__(self, table: Table, core: Core, prices: Floats, budget: float) -> None:
        self._table, self._core = table, core
        self._limit, self._prices = table.limit, prices
        self._budget = budget * (1.0 + SLACK) if np.isfinite(budget) else budget
        amounts = [
            self._amounts(job, choices)
            for job, choices in zip(core.open_jobs.tolist(), core.choices, strict=True)
        ]
        # Jobs that can take very different amounts first: the rest then pins the use down.
        scale = 1.0 / np.maximum(table.limit, 1.0)
        spread = [float((np.ptp(amount, axis=1) * scale).sum()) for amount in amounts]
        self._order = np.argsort(-np.asarray(spread), kind="stable").tolist()
        self._amount = [amounts[index] for index in self._order]
        size = (table.resources, len(amounts) + 1)
        self._least, self._most = np.zeros(size), np.zeros(size)
        for index in range(len(amounts) - 1, -1, -1):
            amount = self._amount[index]
            self._least[:, index] = self._least[:, index + 1] + amount.min(axis=1)
            self._most[:, index] = self._most[:, index + 1] + amount.max(axis=1)

    def _amounts(self, job: int, choices: Ints64) -> Floats:
        amount = np.zeros((self._table.resources + 1, choices.size))
        for cost, where in zip(self._table.cost, self._table.where, strict=True):
            amount[where[job]] += np.where(choices >= 0, cost[choices], 0.0)
        return amount[:-1]

    def run(self, deadline_ns: int) -> Found:
        table, core = self._table, self._core
        fixed = core.fixed.copy()
        fixed[core.open_jobs] = -1
        used = self._settle(table.used(fixed))
        if used is None:
            return Found(choice=None, complete=True)
        if used.shape[0] > RESOURCES_MAX:
            return Found(choice=None, complete=False)
        lost, value = np.zeros(1), np.zeros(1)
        trail: list[tuple[Ints64, Ints64]] = []
        for depth, index in enumerate(self._order):
            choices, losses = core.choices[index], core.losses[index]
            amount = self._amount[depth]
            count = choices.size
            if lost.size * count > EXPANSIONS_MAX or time.perf_counter_ns() > deadline_ns:
                return Found(choice=None, complete=False)
            new_lost = np.add.outer(lost, losses).ravel()
            rows = np.flatnonzero(new_lost <= self._budget)
            parent, pick = np.divmod(rows, count)
            new_used = used[:, parent] + amount[:, pick]
            worth = np.where(choices >= 0, table.value[choices], 0.0)
            keep = self._promising(new_used, new_lost[rows], depth + 1)
            parent, pick, used = parent[keep], pick[keep], new_used[:, keep]
            lost, value = new_lost[rows][keep], value[parent] + worth[pick]
            if lost.size > MERGE_ABOVE:
                merged = _merge(used, value)
                parent, pick, used = parent[merged], pick[merged], used[:, merged]
                lost, value = lost[merged], value[merged]
            if lost.size > STATES_MAX:
                return Found(choice=None, complete=False)
            trail.append((parent, choices[pick]))
        held = np.all(used <= self._limit[:, None], axis=0)
        if not held.any():
            return Found(choice=None, complete=True)
        state = int(np.argmax(np.where(held, value, -np.inf)))
        for index, (parent, picked) in zip(reversed(self._order), reversed(trail), strict=True):
            fixed[core.open_jobs[index]] = picked[state]
            state = int(parent[state])
        return Found(choice=fixed, complete=True)

    def _settle(self, used: Floats) -> Floats | None:
        """What the settled jobs use of the resources that can run out; None when one has."""
        if np.any(used + self._least[:, 0] > self._limit):
            return None
        live = np.flatnonzero(used + self._most[:, 0] > self._limit)
        self._limit, self._prices = self._limit[live], self._prices[live]
        self._least, self._most = self._least[live], self._most[live]
        self._amount = [amount[live] for amount in self._amount]
        return used[live, None]

    def _promising(self, used: Floats, lost: Floats, depth: int) -> Bools:
        """Which can still be finished within the limits and the budget."""
        limit = self._limit[:, None]
        least, most = self._least[:, depth, None], self._most[:, depth, None]
        keep = np.all(used + least <= limit, axis=0)
        unused = np.maximum(limit - used - most, 0.0)
        keep &= lost + (self._prices @ unused) * (1.0 - SLACK) <= self._budget
        return np.asarray(keep, dtype=np.bool_)


def _merge(used: Floats, value: Floats) -> Ints64:
    """Of columns that are equal the one of greatest value, in ascending order."""
    order = np.lexsort((-value, *used))
    ordered = used[:, order]
    first = np.r_[True, np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)]
    return np.sort(order[first])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """What GLPK made of the core; ``choice`` in the numbers of the problem."""

    choice: Ints32 | None
    proven: bool
    """No plan of the core is better by more than the gap (or there is none), within tolerance."""
    detail: str


def search_core(
    problem: Problem, table: Table, core: Core, gap: float, deadline_ns: int
) -> Searched:
    """GLPK's branch and bound over the core. ``gap`` is relative to the whole plan's value."""
    # Loaded only now: most rounds need neither.
    from wattfold.coordinator.solvers import checked_search, glpk_engine
    from wattfold.coordinator.solvers.linear_arrays import arrays_of

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


def _reduced(problem: Problem, table: Table, core: Core, base: Ints32) -> tuple[Problem, Ints64]:
    """The open jobs under what the settled ones leave, and its options in the problem."""
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
