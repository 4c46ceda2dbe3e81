"""The exact least of the bound over all prices, for tables of few resources: cutting planes.

`prices.descend` ends near the least, close enough where jobs differ. Where many are equal the bound
has few and sharp edges, and what is missing to its least is as much as the gap asked for. The bound
is the greatest of linear functions of the prices, one per way the jobs can respond. Its least is
the optimum of a linear program with a row per response, in one more variable than resources. The
dual simplex method starts with one response; the jobs' response at the point it is at is the row
that is violated most, and enters. Rows that left come back by themselves.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.prices import best_of
from wattfold.coordinator.solvers.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

RESOURCES_MAX = 12
PIVOTS = 60
SETTLED = 1e-10
"""Relative to the bound: a smaller violation ends the search."""
NEARNESS = 0.5
"""Prices are first looked for within this share of where they are; the box opens as needed."""
OPENING = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Response:
    """What the jobs do at some prices: the bound there as a linear function of all prices."""

    choice: Ints64

    bound: float
    value: float
    slope: Floats
    """Share of each limit left over; negative where the jobs take too much."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """Prices of least bound, and the jobs' responses that together use what there is.

    The responses with their shares are an optimum of the linear relaxation: of a class of equal
    jobs it says how many take which option, a few fractions apart.
    """

    prices: Floats
    shares: tuple[float, ...]
    responses: tuple[Ints64, ...]
    """Per response the option of each job, or -1."""


def settle(table: Table, prices: Floats, tolerance: float = SETTLED) -> Settled:
    """Prices of least bound, or the best met on the way. Never worse than those given."""
    if not table.jobs:
        return Settled(prices=prices, shares=(), responses=())
    return _Simplex(table, prices, tolerance).run()


class _Simplex:
    """A basis of rows ``matrix (t, worth) >= right``; the first variable is to be least."""

    def __init__(self, table: Table, prices: Floats, tolerance: float) -> None:
        self._table, self._tolerance = table, tolerance
        self._scale = np.maximum(table.limit, 1.0)
        self._full = table.limit / self._scale
        worth = prices * self._scale
        first = self._respond(worth)
        self._best, self._best_worth = first.bound, worth
        size = worth.size
        reach = NEARNESS * worth + 1e-3 * float(worth.max(initial=0.0)) + 1e-300
        # Uphill of the first response each price is held by its box.
        sign = np.where(first.slope >= 0, 1.0, -1.0)
        self._matrix = np.zeros((size + 1, size + 1))
        self._matrix[0] = np.append(1.0, -first.slope)
        self._matrix[1:, 1:] = np.diag(sign)
        held = np.where(sign > 0, np.maximum(worth - reach, 0.0), -(worth + reach))
        self._right = np.append(first.value, held)
        self._box = np.arange(size + 1) > 0
        self._choices: list[Ints64 | None] = [first.choice, *([None] * size)]

    def run(self) -> Settled:
        with contextlib.suppress(np.linalg.LinAlgError):
            self._pivot()
        return Settled(prices=self._best_worth / self._scale, **self._mixed())

    def _pivot(self) -> None:
        for _ in range(PIVOTS):
            point = np.linalg.solve(self._matrix, self._right)
            below = point[1:] < -SETTLED * abs(point[0])
            if below.any():
                at = 1 + int(np.argmin(point[1:]))
                if not self._enter(np.eye(point.size)[at], 0.0, None):
                    return
                continue
            worth = np.maximum(point[1:], 0.0)
            response = self._respond(worth)
            if response.bound < self._best:
                self._best, self._best_worth = response.bound, worth
            if response.bound > point[0] + self._tolerance * abs(response.bound):
                row = np.append(1.0, -response.slope)
                if not self._enter(row, response.value, response.choice):
                    return
            elif not self._open():
                return

    def _respond(self, worth: Floats) -> _Response:
        table = self._table
        best, choice = best_of(table, worth / self._scale)
        runs = table.forced | (best > 0)
        choice = np.where(runs, choice, -1)
        value = float(table.count[runs] @ table.value[choice[runs]])
        slope = self._full - table.used(choice) / self._scale
        bound = value + float(slope @ worth)
        return _Response(bound=bound, value=value, slope=slope, choice=choice)

    def _enter(self, row: Floats, right: float, choice: Ints64 | None) -> bool:
        both = np.linalg.solve(self._matrix.T, np.stack([np.eye(row.size)[0], row], axis=1))
        weight, share = np.maximum(both[:, 0], 0.0), both[:, 1]
        ratio = np.full(row.size, np.inf)
        np.divide(weight, share, out=ratio, where=share > 1e-11)
        leaving = int(np.argmin(ratio))
        if not np.isfinite(ratio[leaving]):
            return False
        self._matrix[leaving], self._right[leaving] = row, right
        self._box[leaving], self._choices[leaving] = choice is None, choice
        return True

    def _open(self) -> bool:
        """Widens the sides of the box that hold the optimum; false when none does."""
        held = self._box & (self._weights() > 1e-12) & (self._right != 0.0)
        if not held.any():
            return False
        low = held & (self._right > 0)
        self._right = np.where(low, 0.0, np.where(held, OPENING * self._right, self._right))
        return True

    def _weights(self) -> Floats:
        return np.linalg.solve(self._matrix.T, np.eye(self._right.size)[0])

    def _mixed(self) -> dict[str, Any]:
        weight = self._weights()
        used = [(float(weight[at]), own) for at, own in enumerate(self._choices) if own is not None]
        return {
            "shares": tuple(share for share, _ in used),
            "responses": tuple(own for _, own in used),
        }
