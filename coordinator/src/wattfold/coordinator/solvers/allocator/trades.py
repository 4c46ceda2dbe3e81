"""Improvement of a plan of counted jobs by up to four moves at a time.

Equal jobs have equal values at each option, so one or two moves rarely improve a plan. Only the
right combination uses up the remaining limits: a few jobs move to larger sizes and a few to lower
caps. There are many such combinations, and most lead close to the bound. Here, the moves of
smallest loss at the prices form pairs, and each pair is combined with all others. The sum of
largest value that fits into the remaining limits is executed. This repeats until the value is
enough.

A *move* is a job of a row that takes another option, or none. Amounts are integers, so the fit is
exact. The method proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.classes import Tally
from wattfold.coordinator.solvers.allocator.clusters import Clusters, cluster
from wattfold.coordinator.solvers.allocator.prices import certify
from wattfold.coordinator.solvers.allocator.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

POOL = 32
"""Number of moves to combine: at most a thousand pairs and a million sums of two pairs."""
LOOKED_AT = 400
"""Number of moves among which moves with different amounts are selected."""
ROUNDS = 12
FLAT = 8
"""Number of moves of smallest loss from which steps are made."""
BASES = 12
"""Number of sets of steps to try in a round."""
PARALLEL = 1e-3
"""Steps with a smaller determinant are almost parallel."""
ROUNDING = 1e-9
TRIES = 32
"""Number of sums to try in a round: some take more jobs from an option than it has."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pool:
    """Moves of one job each. Positions are options of the table, followed by none for each row."""

    origin: Ints64
    target: Ints64
    gain: Floats
    amount: Floats
    """Use by resource and move."""


def traded(table: Table, plan: Tally, prices: Floats, enough: float) -> Tally:
    """Return a plan at least as good at mean values of clusters, until it is worth ``enough``."""
    clusters = cluster(table)
    trade = _Trade(clusters, clusters.counted(plan), prices)
    for _ in range(ROUNDS):
        if trade.objective >= enough or not trade.better(enough):
            break
    return clusters.dealt(trade.plan, plan)


class _Trade:
    """A plan as a number of jobs at each position."""

    def __init__(self, clusters: Clusters, plan: Tally, prices: Floats) -> None:
        table = clusters.table
        certificate = certify(table, prices)
        self._prices = prices
        self._next: tuple[Floats, Floats] | None = None
        self._table = table
        options = table.owner.size
        self._most = np.append(np.full(options, np.inf), clusters.waiting)
        self._row = np.append(table.owner, np.arange(table.jobs))
        self._value = np.append(table.value, np.zeros(table.jobs))
        self._loss = np.append(certificate.loss, certificate.idle_loss)
        self._amount = np.zeros((table.resources + 1, options + table.jobs))
        for cost, where in zip(table.cost, table.where, strict=True):
            self._amount[where[table.owner], np.arange(options)] += cost
        self._amount = self._amount[:-1]
        place = np.where(plan.option >= 0, plan.option, options + plan.row)
        number = np.bincount(place, weights=plan.number, minlength=self._row.size)
        self._number: Floats = number.astype(np.float64)
        self._free = table.limit - plan.used(table)
        # Positions by row, to find those of a row at once.
        self._order = np.argsort(self._row, kind="stable")
        self._begins = np.searchsorted(self._row[self._order], np.arange(table.jobs + 1))

    @property
    def objective(self) -> float:
        """Value of the plan."""
        return float(self._number @ self._value)

    @property
    def plan(self) -> Tally:
        """The current plan."""
        place = np.flatnonzero(self._number > 0)
        option = np.where(place < self._table.owner.size, place, -1)
        number = self._number[place].astype(np.int64)
        return Tally(row=self._row[place], option=option, number=number)

    def better(self, enough: float) -> bool:
        """Execute the best combination, or the first worth ``enough``; False if there is none."""
        if not np.any(self._prices > 0):
            return False  # All jobs take their best option.
        pool = self._pool()
        least = 1e-12 * max(self.objective, 0.0)
        for steps in self._bases(pool):
            gain, made = self._combined(pool, steps)
            good = np.flatnonzero(gain > least)
            if good.size > TRIES:
                good = good[np.argpartition(-gain[good], TRIES)[:TRIES]]
            for at in good[np.argsort(-gain[good], kind="stable")].tolist():
                if self._offer(pool, *made(at)):
                    least = gain[at]
                    break
            if self.objective + least >= enough:
                break
        return self._take()

    def _bases(self, pool: _Pool) -> Iterator[Ints64]:
        """Yield sets of a move per scarce resource: together they reach any use."""
        scarce = np.flatnonzero(self._prices > 0)
        flat = np.flatnonzero(np.any(pool.amount[scarce] != 0, axis=0))[:FLAT]
        scale = self._prices[scarce][:, None]
        tried = 0
        for steps in combinations(flat.tolist(), scarce.size):
            matrix = pool.amount[np.ix_(scarce, steps)] * scale
            length = np.abs(matrix).sum(axis=0)
            if abs(np.linalg.det(matrix / length)) > PARALLEL:
                yield np.asarray(steps)
                tried += 1
            if tried == BASES:
                return

    def _combined(
        self, pool: _Pool, steps: Ints64
    ) -> tuple[Floats, Callable[[int], tuple[Ints64, Floats]]]:
        """Return the gain of each pair of moves with its steps; -inf if it does not fit."""
        scarce = np.flatnonzero(self._prices > 0)
        amount = np.append(pool.amount, np.zeros((pool.amount.shape[0], 1)), axis=1)
        gain = np.append(pool.gain, 0.0)
        first, second = np.triu_indices(gain.size)
        left = self._free[:, None] - amount[:, first] - amount[:, second]
        inverse = np.linalg.inv(pool.amount[np.ix_(scarce, steps)])
        times = np.floor(inverse @ left[scarce] + ROUNDING)
        around = (0.0, 1.0, -1.0) if steps.size <= 2 else (0.0, 1.0)
        offsets = np.array(list(product(around, repeat=steps.size))).T
        times = times[:, :, None] + offsets[:, None, :]
        left = left[:, :, None] - np.tensordot(pool.amount[:, steps], times, axes=1)
        total = (gain[first] + gain[second])[:, None] + np.tensordot(
            pool.gain[steps], times, axes=1
        )
        most, least = self._number[pool.origin[steps]], -self._number[pool.target[steps]]
        fits = np.all((times <= most[:, None, None]) & (times >= least[:, None, None]), axis=0)
        fits &= np.all(left >= 0, axis=0)
        total = np.where(fits, total, -np.inf).ravel()
        times = times.reshape(steps.size, -1)

        def made(at: int) -> tuple[Ints64, Floats]:
            pair = at // offsets.shape[1]
            moves = np.array([first[pair], second[pair]])
            moves = moves[moves < pool.gain.size]
            return np.append(moves, steps), np.append(np.ones(moves.size), times[:, at])

        return total, made

    def _offer(self, pool: _Pool, moves: Ints64, times: Floats) -> bool:
        number = self._number.copy()
        np.subtract.at(number, pool.origin[moves], times)
        np.add.at(number, pool.target[moves], times)
        if number.min() < 0 or np.any(number > self._most):
            return False
        self._next = number, self._free - pool.amount[:, moves] @ times
        return True

    def _take(self) -> bool:
        if self._next is None:
            return False
        self._number, self._free = self._next
        self._next = None
        return True

    def _pool(self) -> _Pool:
        """Return the moves of smallest loss, one for each combination of scarce amounts."""
        held = np.flatnonzero(self._number > 0)
        row = self._row[held]
        lengths = self._begins[row + 1] - self._begins[row]
        origin = np.repeat(held, lengths)
        skip = np.repeat(self._begins[row] - (np.cumsum(lengths) - lengths), lengths)
        target = self._order[np.arange(origin.size) + skip]
        loss = self._loss[target] - self._loss[origin]
        some = (target != origin) & np.isfinite(loss)
        some &= self._number[target] < self._most[target]
        origin, target, loss = origin[some], target[some], loss[some]
        if loss.size > LOOKED_AT:
            near = np.argpartition(loss, LOOKED_AT)[:LOOKED_AT]
            origin, target, loss = origin[near], target[near], loss[near]
        amount = self._amount[:, target] - self._amount[:, origin]
        # With equal losses, prefer the move that leaves more of the other resources.
        order = np.lexsort((amount[self._prices <= 0].sum(axis=0), loss))
        origin, target, amount = origin[order], target[order], amount[:, order]
        seen: set[bytes] = set()
        kept = []
        for at, key in enumerate(map(bytes, np.ascontiguousarray(amount[self._prices > 0].T))):
            if key not in seen and any(key):
                seen.add(key)
                kept.append(at)
            if len(kept) == POOL:
                break
        return _Pool(
            origin=origin[kept],
            target=target[kept],
            gain=self._value[target[kept]] - self._value[origin[kept]],
            amount=amount[:, kept],
        )
