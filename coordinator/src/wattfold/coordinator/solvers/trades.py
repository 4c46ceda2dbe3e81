"""Betters a plan of counted jobs by up to four moves at a time.

Equal jobs are worth the same at each option, so a plan is rarely bettered by one or two of them:
what is left of the limits is used up only by the right combination, a few to larger sizes and a few
to lower caps. There are many such combinations and most lead close to the bound. Here the moves
that lose least at the prices are paired, and each pair is matched with each other one: of all sums
that fit what is left, the one of greatest value is made. Again, until it is enough.

A *move* is one job of a row that takes another option, or none. Amounts are whole numbers, so fits
means fits. It proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.classes import Tally
from wattfold.coordinator.solvers.clusters import Clusters, cluster
from wattfold.coordinator.solvers.prices import certify
from wattfold.coordinator.solvers.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

POOL = 32
"""Moves that are combined; a thousand pairs and a million sums of two of them at most."""
LOOKED_AT = 400
"""Moves among which those of unlike amounts are looked for."""
ROUNDS = 12
FLAT = 8
"""Moves of least loss that steps are made of."""
BASES = 12
"""Sets of steps that are tried in a round."""
PARALLEL = 1e-3
"""A lower determinant of them is of moves that go the same way."""
ROUNDING = 1e-9
TRIES = 32
"""Sums that are tried in a round: some take more jobs from a place than it has."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pool:
    """Moves of one job each, by places: options of the table, then none of each row."""

    origin: Ints64
    target: Ints64
    gain: Floats
    amount: Floats
    """Resources by moves."""


def traded(table: Table, plan: Tally, prices: Floats, enough: float) -> Tally:
    """A plan at least as good, at the mean values of clusters; looked for until it is enough."""
    clusters = cluster(table)
    trade = _Trade(clusters, clusters.counted(plan), prices)
    for _ in range(ROUNDS):
        if trade.objective >= enough or not trade.better(enough):
            break
    return clusters.dealt(trade.plan, plan)


class _Trade:
    """One plan as a number of jobs at each place."""

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
        # Places by row, so that those of one row are found at once.
        self._order = np.argsort(self._row, kind="stable")
        self._begins = np.searchsorted(self._row[self._order], np.arange(table.jobs + 1))

    @property
    def objective(self) -> float:
        """Value of the plan."""
        return float(self._number @ self._value)

    @property
    def plan(self) -> Tally:
        """As it is now."""
        place = np.flatnonzero(self._number > 0)
        option = np.where(place < self._table.owner.size, place, -1)
        number = self._number[place].astype(np.int64)
        return Tally(row=self._row[place], option=option, number=number)

    def better(self, enough: float) -> bool:
        """Makes the best combination met, or the first worth ``enough``; false where none is."""
        if not np.any(self._prices > 0):
            return False  # All take what is best for them.
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
        """As many moves as there are scarce resources: together they reach any use."""
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
        """Of each pair of moves with the steps after it: the gain, -inf where it does not fit."""
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
        """The moves that lose least, few of each kind of amounts."""
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
        # Of moves that lose as much the one that leaves more of what is not scarce.
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
