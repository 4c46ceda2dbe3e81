"""Table of a problem for relaxation: options over resources, in flat numpy arrays.

A table has a row of options per job or, after `classes.group`, per class of equal jobs with a
count.

All jobs use units and power. A capacity row is a resource of few jobs. Rows without common jobs are
stacked into one *layer* with one coefficient per option and one row per job. A thousand nodes with
a row each then need one array, not a thousand. *Channels* are units, power and the layers; a job
uses one resource in each channel.

Options that alone exceed a limit and rows that never bind are left out. Amounts are integers below
2**53 and therefore exact in floating point. Limits are lowered to the maximum possible use, which
changes no plan and keeps them exact as well.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.problem import AllocationProblem

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


BLOCK = 16_384
"""Number of options to process at a time in passes over a whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive jobs, and their options."""

    jobs: slice
    options: slice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """n options of J jobs over m resources in C channels. Every job here has an option.

    "Job" stands for each of ``count`` equal jobs; amounts, values and losses are those of a single
    job.
    """

    option: Ints64
    """Number of each option in the problem, ascending."""
    job: Ints64
    """Number of each job in the problem."""
    owner: Ints64
    """Job of each option, 0..J-1."""
    firsts: Ints64
    """First option of each job."""
    forced: Bools
    """Whether each job must run."""
    value: Floats
    top: Floats
    """Maximum value of each job in the problem's table."""
    cost: tuple[Floats, ...]
    """Use of each option per channel, in integers."""
    where: tuple[Ints64, ...]
    """Resource of each job per channel; m if it uses none."""
    limit: Floats
    """m limits, in integers."""
    count: Floats
    """Number of equal jobs behind each job, at least one."""

    @property
    def jobs(self) -> int:
        """J."""
        return int(self.firsts.size)

    @property
    def resources(self) -> int:
        """m."""
        return int(self.limit.size)

    def restricted_to(self, keep: Bools) -> Table:
        """Return the table with only some options, at least one of every job. ``top`` stays."""
        pick = np.flatnonzero(keep)
        owner = self.owner[pick]
        return replace(
            self,
            option=self.option[pick],
            owner=owner,
            firsts=_firsts(owner),
            value=self.value[pick],
            cost=tuple(cost[pick] for cost in self.cost),
        )

    def blocks(self) -> list[Block]:
        """Return blocks of jobs with few enough options for a processor's cache."""
        if self.owner.size <= BLOCK:
            return [Block(jobs=slice(0, self.jobs), options=slice(0, self.owner.size))]
        ends = np.append(self.firsts, self.owner.size)
        steps = np.arange(0, self.owner.size, BLOCK)
        cuts = np.append(np.unique(np.searchsorted(self.firsts, steps)), self.jobs).tolist()
        return [
            Block(jobs=slice(begin, end), options=slice(int(ends[begin]), int(ends[end])))
            for begin, end in itertools.pairwise(cuts)
            if end > begin
        ]

    def rows(self, rows: Ints64, count: NDArray[np.generic]) -> Table:
        """Return some jobs, which may repeat, with these counts."""
        ends = np.append(self.firsts, self.owner.size)
        lengths = ends[rows + 1] - ends[rows]
        owner = np.repeat(np.arange(rows.size), lengths)
        firsts = np.cumsum(lengths) - lengths
        pick = np.arange(owner.size) + (ends[rows] - firsts)[owner]
        return Table(
            option=self.option[pick],
            job=self.job[rows],
            owner=owner,
            firsts=firsts,
            forced=self.forced[rows],
            value=self.value[pick],
            top=self.top[rows],
            cost=tuple(cost[pick] for cost in self.cost),
            where=tuple(where[rows] for where in self.where),
            limit=self.limit,
            count=count.astype(np.float64),
        )

    def sample(self, stride: int) -> Table:
        """Return every stride-th job, with reduced limits. An estimate, not a bound."""
        jobs = np.arange(stride // 2, self.jobs, stride)
        share = float(self.count[jobs].sum() / self.count.sum())
        return replace(self.rows(jobs, self.count[jobs]), limit=self.limit * share)

    def used(self, choice: Ints64) -> Floats:
        """Return the exact use of every resource by a choice of local options, -1 = none.

        All equal jobs take the same option.
        """
        taken = np.flatnonzero(choice >= 0)
        picks, count = choice[taken], self.count[taken]
        total = np.zeros(self.resources + 1)
        total[0] = (self.cost[0][picks] * count).sum()
        total[1] = (self.cost[1][picks] * count).sum()
        for cost, where in zip(self.cost[2:], self.where[2:], strict=True):
            total += np.bincount(where[taken], weights=cost[picks] * count, minlength=total.size)
        return total[:-1]

    def amounts(self, job: int, choices: Ints64) -> Floats:
        """Return the use of every resource by one job with each of these options (-1 = none)."""
        amount = np.zeros((self.resources + 1, choices.size))
        for cost, where in zip(self.cost, self.where, strict=True):
            amount[where[job]] += np.where(choices >= 0, cost[choices], 0.0)
        return amount[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """No plan exists, and why."""

    reason: str


def tabulate(problem: AllocationProblem) -> Table | Impossible:
    """Return the table of a problem, or a simple proof that it has no plan."""
    if min(problem.units_max, problem.power_uw_max, *(row.limit for row in problem.rows), 0) < 0:
        return Impossible(reason="a limit is below zero")
    costs, limits, where = _channels(problem)
    keep = _fits_alone(problem, costs, limits, where)
    option = np.arange(problem.option_count)
    job_of = problem.job_of
    value = problem.value
    if not keep.all():
        option, job_of, value = option[keep], job_of[keep], value[keep]
        costs = [cost[keep] for cost in costs]
    first_of_job = _firsts(job_of)
    job = job_of[first_of_job].astype(np.int64)
    forced = problem.must_run[job]
    if np.count_nonzero(forced) < np.count_nonzero(problem.must_run):
        return Impossible(reason="a job that must run has no option that fits")
    every = job.size == problem.job_count
    owner = job_of.astype(np.int64) if every else np.searchsorted(job, job_of)
    table = Table(
        option=option,
        job=job,
        owner=owner,
        firsts=first_of_job,
        forced=forced,
        value=value,
        top=np.maximum.reduceat(value, first_of_job) if job.size else np.zeros(0),
        cost=tuple(cost.astype(np.float64) for cost in costs),
        where=tuple(resource[job] for resource in where),
        limit=np.asarray(limits, dtype=np.float64),
        count=np.ones(job.size),
    )
    return _hopeless(table) or table


def _firsts(ascending: NDArray[np.integer]) -> Ints64:
    if not ascending.size:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])


def _channels(problem: AllocationProblem) -> tuple[list[Ints64], list[int], list[Ints64]]:
    """Return costs per channel, limits per resource, and resource per channel and job."""
    count, jobs = problem.option_count, problem.job_count
    costs, limits = [problem.units, problem.power_uw], [problem.units_max, problem.power_uw_max]
    for index in range(2):
        most = int(costs[index].max()) if count else 0
        limits[index] = min(limits[index], most * jobs)
    layers: list[tuple[Ints64, Ints64]] = []
    for row in problem.rows:
        options, positions = np.unique(row.option_indices, return_inverse=True)
        amounts = np.zeros(options.size, dtype=np.int64)
        np.add.at(amounts, positions, row.coefficients)
        owners = problem.job_of[options]
        first = _firsts(owners)
        most = int(np.maximum.reduceat(amounts, first).sum()) if first.size else 0
        if most <= row.limit:
            continue
        members = owners[first]
        layer = next((own for own in layers if np.all(own[1][members] < 0)), None)
        if layer is None:
            layer = (np.zeros(count, dtype=np.int64), np.full(jobs, -1, dtype=np.int64))
            layers.append(layer)
        cost, resource = layer
        cost[options] = amounts
        resource[members] = len(limits)
        limits.append(row.limit)
    where = [np.zeros(jobs, dtype=np.int64), np.ones(jobs, dtype=np.int64)]
    for cost, resource in layers:
        costs.append(cost)
        where.append(np.where(resource < 0, len(limits), resource))
    return costs, limits, where


def _fits_alone(
    problem: AllocationProblem, costs: list[Ints64], limits: list[int], where: list[Ints64]
) -> Bools:
    keep = np.ones(problem.option_count, dtype=np.bool_)
    for cost, limit in zip(costs[:2], limits[:2], strict=True):
        if cost.max(initial=0) > limit:
            keep &= cost <= limit
    most = np.append(np.asarray(limits, dtype=np.int64), np.iinfo(np.int64).max)
    for cost, resource in zip(costs[2:], where[2:], strict=True):
        keep &= cost <= most[resource][problem.job_of]
    return keep


def _hopeless(table: Table) -> Impossible | None:
    """Return a proof if the minimum amounts of the jobs that must run exceed a limit."""
    if not table.forced.any():
        return None
    least = np.zeros(table.resources + 1)
    for cost, where in zip(table.cost, table.where, strict=True):
        need = np.where(table.forced, np.minimum.reduceat(cost, table.firsts), 0.0)
        least += np.bincount(where, weights=need, minlength=least.size)
    over = np.flatnonzero(least[:-1] > table.limit)
    if not over.size:
        return None
    index = int(over[0])
    name = ("units", "power_uw")[index] if index < 2 else "a capacity row"
    amount, limit = int(least[index]), int(table.limit[index])
    return Impossible(
        reason=f"{name}: the jobs that must run need {amount}, but the limit is {limit}"
    )
