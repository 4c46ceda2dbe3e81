"""Prices of the resources with a low Lagrangian bound, and the certified bound.

With a price on each resource the jobs no longer compete: each takes its best option net of prices,
or none. The sum of these net values and of all limits at their prices is at least the value of any
plan (weak duality), for any prices of at least zero. `descend` searches the prices of its minimum.
The bound is a maximum of linear functions, so it is smoothed by a temperature: the maximum over a
job's options becomes the logarithm of a sum of exponentials. Newton steps follow it while the
temperature falls. Temperatures are relative to each job's maximum value, so that jobs with values
of different orders of magnitude are treated equally.

`certify` evaluates the bound of given prices over all options, with a margin for all rounding
errors. Nothing else here needs to be exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.resources import Block, Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

STEPS = 4
"""Maximum number of Newton steps at a temperature; usually one or two. With rows, twice that."""
HALVINGS = 5
ACTIVE_ROUNDS = 8
"""Maximum number of rounds to find the prices that a step sets to zero."""
SETTLED = 3e-6
"""A predicted decrease of this share of the bound ends the steps at a temperature."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """An upper bound on every plan's value, and the loss of each option against it."""

    bound: float
    """The bound holds in real arithmetic in spite of rounding."""
    table: Table
    prices: Floats
    base: Floats
    """Net value of each job at the prices."""
    margin: float

    @cached_property
    def loss(self) -> Floats:
        """Loss of each option: no plan with it is worth more than ``bound - loss``."""
        net = net_of(self.table, self.prices)
        return np.maximum(self.base[self.table.owner] - net - self.margin, 0.0)

    @cached_property
    def idle_loss(self) -> Floats:
        """Loss of not running each job; infinite if it must run."""
        return np.where(self.table.forced, np.inf, np.maximum(self.base - self.margin, 0.0))


def net_of(table: Table, prices: Floats) -> Floats:
    """Return the value of each option less its cost at these prices (per unit of each resource)."""
    return _net_in(table, prices, Block(jobs=slice(None), options=slice(None)))


def _net_in(table: Table, prices: Floats, part: Block) -> Floats:
    """Return `net_of` for a part of the options."""
    own = part.options
    net: Floats = table.value[own] - table.cost[0][own] * prices[0]
    net -= table.cost[1][own] * prices[1]
    if len(table.cost) > 2:
        padded = np.append(prices, 0.0)
        for cost, where in zip(table.cost[2:], table.where[2:], strict=True):
            net -= cost[own] * padded[where][table.owner[own]]
    return net


def best_of(table: Table, prices: Floats) -> tuple[Floats, Ints64]:
    """Return the maximum net value of each job, and its first option with this value."""
    best, choice = np.empty(table.jobs), np.empty(table.jobs, dtype=np.int64)
    for part in table.blocks():
        net, own = _net_in(table, prices, part), table.owner[part.options]
        most = np.maximum.reduceat(net, table.firsts[part.jobs] - part.options.start)
        hits = np.flatnonzero(net == most[own - part.jobs.start])
        if hits.size > most.size:
            hits = hits[np.searchsorted(own[hits], np.arange(part.jobs.start, part.jobs.stop))]
        best[part.jobs], choice[part.jobs] = most, hits + part.options.start
    return best, choice


def certify(table: Table, prices: Floats) -> Certificate:
    """Return the bound of these prices, rounded up.

    An option's net value is its value minus a sum of C products. Each operation has a relative
    error of at most 2**-53 of its operands. The option that is best in real arithmetic costs at
    most its value less the job's net value at these prices. So twice the job's maximum value plus
    its net value bounds every term. The sums over jobs and limits add one rounding per level of
    numpy's pairwise sum and per block of it.
    """
    best = np.empty(table.jobs)
    for part in table.blocks() if table.jobs else ():
        firsts = table.firsts[part.jobs] - part.options.start
        np.maximum.reduceat(_net_in(table, prices, part), firsts, out=best[part.jobs])
    base = np.where(table.forced, best, np.maximum(best, 0.0))
    worth = table.limit * prices
    # A product with the count adds a rounding; the count of a job itself is exact.
    roundings = 2 * len(table.cost) + 161 + table.resources + np.log2(table.jobs + 1)
    handled = float(table.count @ (2.0 * table.top + np.abs(best))) + float(worth.sum())
    margin = 4.0 * roundings * 2.0**-53 * handled + np.finfo(np.float64).tiny
    return Certificate(
        bound=float((table.count * base).sum()) + float(worth.sum()) + margin,
        table=table,
        prices=prices,
        base=base,
        margin=margin,
    )


def narrow(table: Table, prices: Floats, radius: float) -> Table:
    """Drop the options that no prices within this relative distance make a job's best.

    If no option of an optional job would remain, its first option stays.
    """
    spread = radius * prices + 0.05 * radius * _worth_unit(table, prices)
    low, high = np.maximum(prices - spread, 0.0), prices + spread
    keep = np.empty(table.owner.size, dtype=np.bool_)
    for part in table.blocks():
        firsts = table.firsts[part.jobs] - part.options.start
        careful = np.maximum.reduceat(_net_in(table, high, part), firsts)
        floor = np.where(table.forced[part.jobs], careful, np.maximum(careful, 0.0))
        hopeful = _net_in(table, low, part)
        owner = table.owner[part.options] - part.jobs.start
        np.greater_equal(hopeful, floor[owner], out=keep[part.options])
    keep[table.firsts] |= ~np.logical_or.reduceat(keep, table.firsts)
    return table.restricted_to(keep)


def _worth_unit(table: Table, prices: Floats) -> Floats:
    """Return prices at which the whole of each resource is worth as much as the most expensive."""
    worth = float((prices * table.limit).max(initial=0.0))
    return worth / np.maximum(table.limit, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """The smoothed bound at some prices (of whole limits): value and derivatives."""

    smooth: float
    plain: float
    """The bound itself, without smoothing."""
    gradient: Floats
    curvature: Floats


def descend(table: Table, prices: Floats, temperatures: Sequence[float]) -> Floats:
    """Return the best prices found, per unit; at least as good as the given prices."""
    if not table.jobs:
        return prices
    scale = np.maximum(table.limit, 1.0)
    smoothed = _Smoothed(table, scale)
    steps = STEPS if table.resources == 2 else 2 * STEPS
    worth = prices * scale
    best_worth, best = worth, np.inf
    for temperature in temperatures:
        smoothed.heat(temperature)
        point = smoothed.at(worth)
        for _ in range(steps):
            if point.plain < best:
                best_worth, best = worth, point.plain
            step, decrease = _newton(point, worth)
            if decrease <= SETTLED * abs(point.smooth):
                break
            moved = _search_line(smoothed, worth, step, point)
            if moved is None:
                break
            worth, point = moved
        if point.plain < best:
            best_worth, best = worth, point.plain
    return best_worth / scale


def start(table: Table) -> Floats:
    """Return initial prices: units and power together are worth half of the jobs' maximum gain."""
    prices = np.zeros(table.resources)
    prices[:2] = 0.25 * float(table.count @ table.top) / np.maximum(table.limit[:2], 1.0)
    return prices


def _newton(point: _Point, worth: Floats) -> tuple[Floats, float]:
    """Return the step to the minimum of the quadratic model with prices >= 0, and its decrease."""
    slope, matrix = point.gradient, point.curvature
    # If every job has settled, the bound is flat or linear: the ridge and the reach limit the step.
    ridge = 1e-6 * float(np.trace(matrix)) / worth.size + 1e-300
    matrix = matrix + np.diag(np.full(worth.size, ridge))
    reach = float(worth.max()) + 1e-3 * abs(point.smooth) + 1e-300
    step = _to_least(slope, matrix, worth, reach)
    decrease = -float(slope @ step)
    if decrease > 0:
        return step, decrease
    # Setting prices to zero in turn can end uphill; a step of each resource by itself cannot.
    step = np.clip(-slope / np.diag(matrix), -np.minimum(worth, reach), reach)
    return step, -float(slope @ step)


def _to_least(slope: Floats, matrix: Floats, worth: Floats, reach: float) -> Floats:
    free = (worth > 0) | (slope < 0)
    step = np.zeros(worth.size)
    for _ in range(ACTIVE_ROUNDS):
        rows = np.flatnonzero(free)
        if not rows.size:
            break
        rest = np.flatnonzero(~free)
        right = -slope[rows] - matrix[np.ix_(rows, rest)] @ step[rest]
        move = np.linalg.solve(matrix[np.ix_(rows, rows)], right)
        below = move < -worth[rows]
        step[rows] = move
        if not below.any():
            break
        step[rows[below]] = -worth[rows[below]]
        free[rows[below]] = False
    longest = float(np.abs(step).max())
    if not np.isfinite(longest):
        return np.zeros(worth.size)
    if longest > reach:
        step = step * (reach / longest)
    limited: Floats = np.maximum(step, -worth)
    return limited


def _search_line(
    smoothed: _Smoothed, worth: Floats, step: Floats, point: _Point
) -> tuple[Floats, _Point] | None:
    for _ in range(HALVINGS):
        trial = np.maximum(worth + step, 0.0)
        new = smoothed.at(trial)
        if new.smooth < point.smooth:
            return trial, new
        step = step * 0.3
    return None


class _Smoothed:
    """The smoothed bound of a table, with prices as values of whole limits."""

    def __init__(self, table: Table, scale: Floats) -> None:
        self._table = table
        self._scale = scale
        self._full = table.limit / scale
        padded = np.append(scale, 1.0)
        self._share = [
            cost / (scale[index] if index < 2 else padded[where][table.owner])
            for index, (cost, where) in enumerate(zip(table.cost, table.where, strict=True))
        ]
        self._temperature = np.zeros(0)
        self._inverse = np.zeros(0)

    def heat(self, temperature: float) -> None:
        """Set the temperature, as a share of each job's maximum value."""
        self._temperature = temperature * self._table.top
        self._inverse = (1.0 / self._temperature)[self._table.owner]

    def at(self, worth: Floats) -> _Point:
        """Return the bound and its derivatives."""
        table, firsts, owner = self._table, self._table.firsts, self._table.owner
        net = table.value - self._share[0] * worth[0]
        net -= self._share[1] * worth[1]
        if len(self._share) > 2:
            padded = np.append(worth, 0.0)
            for share, where in zip(self._share[2:], table.where[2:], strict=True):
                net -= share * padded[where][owner]
        best = np.maximum.reduceat(net, firsts)
        base = np.where(table.forced, best, np.maximum(best, 0.0))
        net -= base[owner]
        net *= self._inverse
        weight = np.exp(net)
        idle = np.where(table.forced, 0.0, np.exp(-np.maximum(base, 0.0) / self._temperature))
        total = np.add.reduceat(weight, firsts) + idle
        weight /= total[owner]
        plain = float(table.count @ base) + float(worth @ self._full)
        gradient, curvature = self._derivatives(weight)
        return _Point(
            smooth=plain + float((table.count * self._temperature) @ np.log(total)),
            plain=plain,
            gradient=gradient,
            curvature=curvature,
        )

    def _derivatives(self, weight: Floats) -> tuple[Floats, Floats]:
        table, firsts = self._table, self._table.firsts
        size = table.resources + 1
        means, moments = [], {}
        weighted = [weight * share for share in self._share]
        for index, part in enumerate(weighted):
            means.append(np.add.reduceat(part, firsts))
            for other in range(index + 1):
                moments[index, other] = np.add.reduceat(part * self._share[other], firsts)
        demand = np.zeros(size)
        curvature = np.zeros((size, size))
        for (index, other), moment in moments.items():
            spread = table.count * (moment - means[index] * means[other]) / self._temperature
            if index < 2:
                block = float(spread.sum())
                curvature[index, other] = curvature[other, index] = block
                continue
            cells = table.where[index] * size + table.where[other]
            block_matrix = np.bincount(cells, weights=spread, minlength=size * size)
            block_matrix = block_matrix.reshape(size, size)
            curvature += block_matrix
            if index != other:
                curvature += block_matrix.T
        for index, one in enumerate(means):
            mean = table.count * one
            if index < 2:
                demand[index] = float(mean.sum())
            else:
                demand += np.bincount(table.where[index], weights=mean, minlength=size)
        return self._full - demand[:-1], curvature[:-1, :-1]
