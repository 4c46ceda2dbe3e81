"""PARM's ILP by Lagrangian relaxation: a plan and a bound that certifies it, in milliseconds.

1. Merge the few jobs of a node into one job, which removes the node's row (`merging`). Build the
   table (`resources`), without options that fit nowhere and rows that never bind.
2. Find prices of units, power and rows with a low bound on all plans (`prices`). With many jobs,
   use a sample first, and then all jobs without the options that no nearby prices favour. Remaining
   capacity rows are priced like units and power; disjoint rows cost no more than one row.
3. Certify the bound over all options, including rounding.
4. Let the jobs choose at these prices, then repair and improve the plan (`repair`). If that is not
   enough, use combinations of moves that use up the remaining resources (`trades`).
5. If the gap between plan and bound exceeds the target, search the options of better plans
   (`core_search`).

A gap of zero is proven by enumeration of that core in integers. If the core is too large, GLPK
proves it within its tolerance of 1e-7. Every plan is checked in integers. Except for GLPK in that
last case, the method needs only numpy and is thread-safe.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator import core_search, cutting
from wattfold.coordinator.solvers.allocator.classes import Grouped, Tally, group, loosened
from wattfold.coordinator.solvers.allocator.enumeration import FEW_STATES, STATES_MAX, SearchResult
from wattfold.coordinator.solvers.allocator.merging import merge
from wattfold.coordinator.solvers.allocator.prices import (
    Certificate,
    certify,
    descend,
    narrow,
    start,
)
from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    Ints32,
    Solution,
    gap_of,
    no_choice,
    objective_of,
    one_job,
    without_solution,
)
from wattfold.coordinator.solvers.allocator.repair import MORE_MOVES, NEAR_MOVES, Repair
from wattfold.coordinator.solvers.allocator.resources import Impossible, Table, tabulate
from wattfold.coordinator.solvers.allocator.stages import Core
from wattfold.coordinator.solvers.allocator.trades import traded

Floats = NDArray[np.float64]

SAMPLE_ABOVE = 768
"""With more jobs than this and no rows, prices start from a sample of about this many jobs."""
WARM = (0.3, 0.06)
COOL = (0.015, 0.003)
SAMPLE_RADIUS = 0.2
WARM_RADIUS = 0.3
SETTLED_RADIUS = 0.1
"""Relative radius around exact prices."""
MANY_OPTIONS = 20_000
REPAIR_RADIUS = 0.03
"""Radius for the first repair attempt if there are many options near the prices."""
ROUGH = 1e-6
"""Tolerance of the minimum bound for many jobs."""
NARROWINGS = 4
SAME = 1e-6
EXCHANGES = 12
EXACT_EXCHANGES = 30
TOLERANCE = 1e-7
"""Tolerance of a gap of zero that GLPK has proven."""
CORE_SHARES = (0.03, 0.12, 0.5, 1.0)
"""Successive parts of the gap to search: a better plan shrinks the next part.

First parts of the target gap, in which any plan is good enough, then parts of the actual gap.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagrangianOptions:
    """Target gap and time limit of the search."""

    gap: float = 1e-3
    """Relative distance from the bound at which a plan is good enough."""
    exact: bool = False
    """Whether the target gap is zero."""
    time_limit_s: float = 15.0
    """Limit for closing the gap. Steps 1 to 4 take milliseconds and are never cut short."""

    @property
    def target(self) -> float:
        """The target gap."""
        return 0.0 if self.exact else self.gap


def solve(problem: AllocationProblem, options: LagrangianOptions | None = None) -> Solution:
    """Return a plan with its certificate.

    The outcome is OPTIMAL if proven within the target gap, otherwise FEASIBLE. It is INFEASIBLE if
    no plan exists by proof, and TIME_LIMIT_NO_SOLUTION if neither could be shown.
    """
    began_ns = time.perf_counter_ns()
    merged = merge(problem)
    if merged is None:
        return _LagrangianRun(problem, options or LagrangianOptions(), began_ns).solve()
    solution = _LagrangianRun(merged.problem, options or LagrangianOptions(), began_ns).solve()
    choice = merged.restore(solution.choice)
    if not solution.usable:
        return replace(solution, choice=choice)
    # The terms are added up in another order, so the values differ by a rounding error.
    objective = objective_of(problem, choice)
    bound = max(solution.bound * (1.0 + problem.job_count * 2.0**-51), objective)
    return replace(
        solution, choice=choice, objective=objective, bound=bound, gap=gap_of(objective, bound)
    )


def warm_up() -> None:
    """Load all modules that are loaded at first use, by solving a problem of one job."""
    solve(one_job())


class _LagrangianRun:
    """One call: the clock, the best plan and the best bound so far."""

    def __init__(
        self, problem: AllocationProblem, options: LagrangianOptions, began_ns: int
    ) -> None:
        self._problem = problem
        self._options = options
        self._began_ns = began_ns
        self._build_ns = 0
        self._deadline_ns = self._began_ns + round(options.time_limit_s * 1e9)
        self._best: Ints32 | None = None
        self._value = 0.0
        self._bound = float("inf")
        self._notes: list[str] = []
        self._tolerance = 0.0
        self._grouped: Grouped

    def solve(self) -> Solution:
        full = tabulate(self._problem)
        grouped = None if isinstance(full, Impossible) else group(full)
        self._build_ns = time.perf_counter_ns() - self._began_ns
        if isinstance(full, Impossible):
            return self._ended(AllocationOutcome.INFEASIBLE, full.reason)
        assert grouped is not None
        self._grouped = grouped
        table = grouped.table
        if not table.jobs:
            self._offer(no_choice(self._problem))
            self._bound = 0.0
            return self._finished()
        priced = _price(table)
        prices, certificate = priced.prices, priced.certificate
        self._bound = certificate.bound
        if certificate.bound < 0:
            return self._ended(AllocationOutcome.INFEASIBLE, "the jobs that must run do not fit")
        self._repair(table, priced)
        if not self._good_enough():
            seen_all = self._close(table, prices, certificate)
            if seen_all and self._best is None:
                return self._ended(
                    AllocationOutcome.INFEASIBLE, "the jobs that must run do not fit"
                )
        return self._finished()

    def _repair(self, table: Table, priced: _Priced) -> None:
        near, prices = priced.near, priced.prices
        enough = self._bound / (1.0 + 0.9 * self._options.target)
        rounds = EXACT_EXCHANGES if self._options.exact else EXCHANGES
        if near.owner.size > MANY_OPTIONS:
            nearest = narrow(near, prices, REPAIR_RADIUS)
            mix = priced.mix.moved(near, nearest)
            self._take(nearest, _mended(nearest, mix, prices, enough, rounds))
            if self._good_enough():
                return
        for most in (NEAR_MOVES, MORE_MOVES)[: 1 if table.resources == 2 else 2]:
            mended = _mended(near, priced.mix, prices, enough, rounds, most)
            self._take(near, mended)
            if self._best is None:
                # No option near the prices is cheap enough, so all options are considered.
                near, mended = table, _mended(table, Tally.nothing(), prices, enough, rounds)
                self._take(table, mended)
            if mended is not None and not self._good_enough():
                whole = mended.widened(near, table)
                self._take(table, traded(table, whole, prices, enough))
            if self._good_enough():
                return

    def _close(self, table: Table, prices: Floats, certificate: Certificate) -> bool:
        """Search the core. Return whether all of it was examined."""
        wanted = self._options.target * max(certificate.bound, 0.0)
        searched = 0.0
        for most, share in ((most, share) for most in (wanted, np.inf) for share in CORE_SHARES):
            budget = self._budget(certificate)
            part = budget if share == 1.0 else share * min(budget, most)
            part = budget if not np.isfinite(part) else min(part, most)
            if part <= searched and part < budget:
                continue
            searched = part
            core = core_search.core_of(table, certificate, part)
            found = self._enumerate(table, core, prices, part)
            if not found.complete:
                if self._good_enough():
                    return True
                break
            # Values are sums of a term per job, each with a rounding error, here and in the search.
            rounding = self._problem.job_count * 2.0**-51
            if part == budget:
                self._prove(self._worthless(), rounding)
                return True
            # Any plan outside the search loses more than this part.
            self._prove(max(self._value, certificate.bound - part), rounding)
            if self._good_enough():
                return True
        return self._search(prices)

    def _enumerate(self, table: Table, core: Core, prices: Floats, part: float) -> SearchResult:
        """Run a quick search first: with equal jobs a good plan is often found early."""
        for states_max in (FEW_STATES, STATES_MAX):
            found = core_search.enumerate_core(
                table, core, prices, part, self._deadline_ns, states_max
            )
            self._take(table, found.plan)
            if found.complete or self._good_enough():
                break
        return found

    def _search(self, prices: Floats) -> bool:
        if time.perf_counter_ns() > self._deadline_ns:
            self._notes.append("time limit")
            return False
        full = self._grouped.full
        certificate = certify(full, prices)
        core = core_search.core_of(full, certificate, self._budget(certificate))
        gap = max(self._options.target, TOLERANCE / 10)
        answer = core_search.search_core(self._problem, full, core, gap, self._deadline_ns)
        self._notes.append(f"GLPK on a core of {core.open_jobs.size} jobs")
        if answer.detail:
            self._notes.append(answer.detail)
        if answer.choice is not None:
            self._offer(self._grouped.ordered(self._problem, answer.choice))
        if answer.proven:
            self._prove(self._worthless(), TOLERANCE)
        return answer.proven

    def _prove(self, bound: float, tolerance: float) -> None:
        """Record that no plan is better than this, up to a relative tolerance."""
        self._tolerance = max(self._tolerance, 1.01 * tolerance + 2.0**-48)
        self._bound = min(self._bound, bound * (1.0 + tolerance))

    def _budget(self, certificate: Certificate) -> float:
        """Return the loss beyond which a plan is not better by more than the target gap."""
        if self._best is None:
            return float("inf")
        return max(certificate.bound - self._worthless(), 0.0)

    def _worthless(self) -> float:
        return self._value * (1.0 + self._options.target)

    def _take(self, table: Table, plan: Tally | None) -> None:
        """Offer a plan in the options of the table of classes or of a part of it."""
        if plan is not None:
            self._offer(self._grouped.choice(self._problem, table, plan))

    def _offer(self, choice: Ints32) -> None:
        value = objective_of(self._problem, choice)
        if self._best is None or value > self._value:
            self._best, self._value = choice, value

    def _good_enough(self) -> bool:
        if self._best is None:
            return False
        return gap_of(self._value, self._bound) <= self._options.target + self._tolerance

    def _finished(self) -> Solution:
        if self._best is None:
            return self._ended(AllocationOutcome.TIME_LIMIT_NO_SOLUTION, "")
        return Solution(
            outcome=AllocationOutcome.OPTIMAL
            if self._good_enough()
            else AllocationOutcome.FEASIBLE,
            choice=self._best,
            objective=self._value,
            bound=max(self._bound, self._value),
            gap=gap_of(self._value, self._bound),
            build_ns=self._build_ns,
            solve_ns=time.perf_counter_ns() - self._began_ns - self._build_ns,
            detail="; ".join(self._notes),
        )

    def _ended(self, outcome: AllocationOutcome, detail: str) -> Solution:
        return without_solution(
            self._problem,
            outcome,
            bound=self._bound,
            build_ns=self._build_ns,
            solve_ns=time.perf_counter_ns() - self._began_ns - self._build_ns,
            detail="; ".join(filter(None, (*self._notes, detail))),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Priced:
    """Good prices, their certificate, and the options that are almost used at these prices."""

    prices: Floats
    certificate: Certificate
    near: Table
    mix: Tally
    """Linear optimum, rounded down: the number of jobs at each option, by class of equal jobs."""


def _price(table: Table) -> _Priced:
    """Return prices with a low bound.

    Without the options far from use, the bound is too low except near the prices of their
    selection. If the minimum is at these prices, it is the minimum over all options. Otherwise the
    options are selected again.
    """
    settled = cutting.Settled(prices=start(table), shares=(), responses=())
    radius = SETTLED_RADIUS
    exact = table.resources <= cutting.RESOURCES_MAX
    # A sample of the jobs of a node contains no information about its row.
    sampled = table.jobs > SAMPLE_ABOVE and table.resources == 2
    if sampled:
        few = _price(table.sample(-(-table.jobs // SAMPLE_ABOVE)))
        settled, radius = replace(settled, prices=few.prices), SAMPLE_RADIUS
    elif exact:
        settled = cutting.settle(table, settled.prices)
    else:
        settled = replace(settled, prices=descend(table, settled.prices, WARM))
        radius = WARM_RADIUS
    best: _Priced | None = None
    for _ in range(NARROWINGS):
        near = narrow(table, settled.prices, radius)
        if sampled:
            settled = cutting.settle(near, settled.prices, ROUGH)
            mix = Tally.rounded_down(near, settled.shares, settled.responses)
        elif exact:
            mix = Tally.rounded_down(table, settled.shares, settled.responses).moved(table, near)
        else:
            settled = replace(settled, prices=descend(near, settled.prices, COOL))
            mix = Tally.nothing()
        certificate = certify(table, settled.prices)
        if best is None or certificate.bound < best.certificate.bound:
            best = _Priced(prices=settled.prices, certificate=certificate, near=near, mix=mix)
        if certificate.bound <= certify(near, settled.prices).bound * (1.0 + SAME):
            break
    assert best is not None
    return best


def _mended(
    table: Table,
    mix: Tally,
    prices: Floats,
    enough: float,
    rounds: int,
    most: int = NEAR_MOVES,
) -> Tally | None:
    loose = loosened(table, mix)
    repair = Repair(loose.table, prices)
    repair.shrink()
    if repair.fits:
        repair.fill()
    settled = loose.settled
    sure = float(settled.number @ np.where(settled.option < 0, 0.0, table.value[settled.option]))
    repair.exchange(enough - sure, rounds, most)
    return loose.joined(table, repair.choice) if repair.fits else None
