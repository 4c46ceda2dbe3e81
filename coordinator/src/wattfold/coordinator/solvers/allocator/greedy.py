"""The fast fallback: prices for the scarce resources, then upgrades while they fit.

1. Jobs that must run get their cheapest option. If these do not fit the method ends.
2. A price per resource is searched at which all limits hold if each job takes its best option net
   of prices. Only over-subscribed resources get a price.
3. Then single jobs move to better options in order of gain per share of the scarcest resource, as
   long as a move fits.

The prices also give a bound (Lagrangian relaxation), so the distance from the optimum is known. All
steps run over numpy arrays; ties go to the lower index. A plan is always found if the cheapest
must-run set fits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.problem import (
    AllocationOutcome,
    AllocationProblem,
    Ints32,
    Solution,
    gap_of,
    no_choice,
    objective_of,
    without_solution,
)

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

PRICE_ROUNDS = 3
BISECTIONS = 40
UPGRADES_PER_JOB = 4


def solve(problem: AllocationProblem) -> Solution:
    """Return a valid plan and its maximum distance from the optimum.

    The outcome is never OPTIMAL with a gap.
    """
    began = time.perf_counter_ns()
    table = _GreedyTable.of(problem)
    cheapest = table.cheapest_must_run()
    if cheapest is None:
        reason = table.hopeless()
        return without_solution(
            problem,
            AllocationOutcome.INFEASIBLE if reason else AllocationOutcome.FAILED,
            detail=reason or "the cheapest options of the jobs that must run do not fit",
            solve_ns=time.perf_counter_ns() - began,
        )
    prices = _search_prices(table)
    choice, bound = table.respond(prices)
    if not table.fits(choice):
        choice = cheapest
    _upgrade(table, choice)
    objective = objective_of(problem, choice)
    gap = gap_of(objective, bound)
    return Solution(
        outcome=AllocationOutcome.OPTIMAL if gap == 0.0 else AllocationOutcome.FEASIBLE,
        choice=choice,
        objective=objective,
        bound=max(bound, objective),
        gap=gap,
        build_ns=0,
        solve_ns=time.perf_counter_ns() - began,
    )


def why_infeasible(problem: AllocationProblem) -> str:
    """Return a proof in integers that no plan exists, as text; empty if no simple proof exists."""
    return _GreedyTable.of(problem).hopeless()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _GreedyTable:
    """The problem with its capacities stacked as costs[resource, option]."""

    problem: AllocationProblem
    costs: Ints64
    limits: Ints64
    shares: Floats
    """Costs over limits."""
    jobs: Ints64
    """Jobs with options, ascending."""
    firsts: Ints64
    """First option of each of these jobs."""
    forced: Bools
    """Whether each of these jobs must run."""

    @classmethod
    def of(cls, problem: AllocationProblem) -> _GreedyTable:
        capacities = problem.limits()
        costs = np.stack([coefficients for coefficients, _ in capacities])
        limits = np.asarray([limit for _, limit in capacities], dtype=np.int64)
        starts = problem.starts()
        jobs = np.flatnonzero(np.diff(starts))
        return cls(
            problem=problem,
            costs=costs,
            limits=limits,
            shares=costs / np.maximum(limits, 1)[:, None],
            jobs=jobs,
            firsts=starts[:-1][jobs],
            forced=problem.must_run[jobs],
        )

    def best(self, score: Floats) -> tuple[Ints64, Floats]:
        """Return the first option of highest score of each job with options, and the score."""
        highest = np.maximum.reduceat(score, self.firsts)
        owner = np.searchsorted(self.jobs, self.problem.job_of)
        is_best = score == highest[owner]
        positions = np.where(is_best, np.arange(score.size), score.size)
        return np.minimum.reduceat(positions, self.firsts), highest

    def respond(self, prices: Floats) -> tuple[Ints32, float]:
        """Return the choice of every job at these prices (value per share), and their bound."""
        choice = no_choice(self.problem)
        spent = float(prices @ (self.limits / np.maximum(self.limits, 1)))
        if not self.jobs.size:
            return choice, 0.0
        options, net = self.best(self.problem.value - prices @ self.shares)
        taken = self.forced | (net > 0)
        choice[self.jobs[taken]] = options[taken]
        return choice, float(net[taken].sum()) + spent

    def used(self, choice: Ints32) -> Ints64:
        """Return the exact use of every resource."""
        total: Ints64 = self.costs[:, choice[choice >= 0]].sum(axis=1)
        return total

    def fits(self, choice: Ints32) -> bool:
        """Whether a choice respects every limit."""
        return bool(np.all(self.used(choice) <= self.limits))

    def cheapest_must_run(self) -> Ints32 | None:
        """Return only the must-run jobs, each at a cheapest option; None if that does not fit.

        With several resources "cheapest" is ambiguous: the sum of shares is tried first, then each
        resource alone.
        """
        if np.count_nonzero(self.forced) < np.count_nonzero(self.problem.must_run):
            return None
        for weights in (np.ones(len(self.limits)), *np.eye(len(self.limits))):
            choice = no_choice(self.problem)
            if self.jobs.size:
                # Ties of one resource are broken by the sum over all resources.
                price = weights @ self.shares + 1e-6 * self.shares.sum(axis=0)
                options, _ = self.best(-price)
                choice[self.jobs[self.forced]] = options[self.forced]
            if self.fits(choice):
                return choice
        return None

    def hopeless(self) -> str:
        """Return why no plan exists, or an empty string if that is not proven."""
        if np.count_nonzero(self.forced) < np.count_nonzero(self.problem.must_run):
            return "a job that must run has no option"
        if not self.jobs.size:
            return ""
        for index, cost in enumerate(self.costs):
            least = int(np.minimum.reduceat(cost, self.firsts)[self.forced].sum())
            if least > self.limits[index]:
                limit = self.limits[index]
                return (
                    f"resource {index}: the jobs that must run need {least}, but the limit is "
                    f"{limit}"
                )
        return ""


def _search_prices(table: _GreedyTable) -> Floats:
    """Return prices at which demand fits, or the last prices tried. Values per whole limit."""
    prices = np.zeros(len(table.limits))
    if not table.jobs.size:
        return prices
    for _ in range(PRICE_ROUNDS):
        for resource in range(len(prices)):
            prices[resource] = _price_of(table, prices, resource)
        if table.fits(table.respond(prices)[0]):
            return prices
    # Raising one price may push demand to another resource: raise them together.
    for _ in range(BISECTIONS):
        prices = prices * 1.1
        if table.fits(table.respond(prices)[0]):
            break
    return prices


def _price_of(table: _GreedyTable, prices: Floats, resource: int) -> float:
    """Return the smallest price of a resource at which its demand fits, given the other prices."""

    def demand_fits(price: float) -> bool:
        trial = prices.copy()
        trial[resource] = price
        choice, _ = table.respond(trial)
        used = int(table.costs[resource, choice[choice >= 0]].sum())
        return used <= int(table.limits[resource])

    if demand_fits(0.0):
        return 0.0
    low = 0.0
    high = max(float(prices[resource]), float(table.problem.value.sum()) / 64.0)
    for _ in range(BISECTIONS):
        if demand_fits(high):
            break
        low, high = high, high * 2.0
    for _ in range(BISECTIONS):
        if high - low <= 1e-7 * high:
            break
        middle = (low + high) / 2.0
        if demand_fits(middle):
            high = middle
        else:
            low = middle
    return high


def _upgrade(table: _GreedyTable, choice: Ints32) -> None:
    """Move single jobs to better options while a move fits, by gain per share. In place."""
    problem = table.problem
    free = table.limits - table.used(choice)
    for _ in range(UPGRADES_PER_JOB * problem.job_count):
        now = choice[problem.job_of]
        held = np.where(now >= 0, now, 0)
        idle = now < 0
        gain = problem.value - np.where(idle, 0.0, problem.value[held])
        extra = table.costs - np.where(idle, 0, table.costs[:, held])
        possible = (gain > 0) & np.all(extra <= free[:, None], axis=0)
        if not possible.any():
            return
        burden = np.max(extra / np.maximum(free, 1)[:, None], axis=0)
        ratio = np.where(possible, gain / np.maximum(burden, 1e-9), -1.0)
        option = int(np.argmax(ratio))
        free = free - extra[:, option]
        choice[problem.job_of[option]] = option
