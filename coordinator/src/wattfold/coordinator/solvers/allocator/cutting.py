"""Exact minimum of the bound over all prices by cutting planes, for tables of few resources.

`prices.descend` ends near the minimum, close enough if the jobs differ. With many equal jobs the
bound has few and sharp edges, and the distance to its minimum is as large as the requested gap. The
bound is the maximum of linear functions of the prices, one for each response of the jobs. Its
minimum is the optimum of a linear program. The program has a row per response, and one variable
more than resources. The dual simplex method starts with one response. At the current point, the
jobs' response is the most violated row, and it enters the basis. Rows that left return by
themselves.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.prices import best_of
from wattfold.coordinator.solvers.allocator.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]

RESOURCES_MAX = 12
PIVOTS = 60
SETTLED = 1e-10
"""Relative to the bound: a smaller violation ends the search."""
NEARNESS = 0.5
"""Initial relative distance for the search around the prices; the box grows as needed."""
OPENING = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Response:
    """The response of the jobs at some prices: the bound as a linear function of all prices."""

    choice: Ints64

    bound: float
    value: float
    slope: Floats
    """Unused share of each limit; negative if the jobs take too much."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """Prices of the minimum bound, and the responses of the jobs that together use the limits.

    The responses with their shares are an optimum of the linear relaxation. For a class of equal
    jobs it gives the number of jobs at each option, with a few fractions.
    """

    prices: Floats
    shares: tuple[float, ...]
    responses: tuple[Ints64, ...]
    """Option of each job, or -1, for each response."""


def settle(table: Table, prices: Floats, tolerance: float = SETTLED) -> Settled:
    """Return prices of the minimum bound, or the best found. Never worse than the given prices."""
    if not table.jobs:
        return Settled(prices=prices, shares=(), responses=())
    return _Simplex(table, prices, tolerance).run()


class _Simplex:
    """A basis of rows ``matrix (t, worth) >= right``; the first variable is minimised."""

    def __init__(self, table: Table, prices: Floats, tolerance: float) -> None:
        self._table, self._tolerance = table, tolerance
        self._scale = np.maximum(table.limit, 1.0)
        self._full = table.limit / self._scale
        worth = prices * self._scale
        first = self._respond(worth)
        self._best, self._best_worth = first.bound, worth
        size = worth.size
        reach = NEARNESS * worth + 1e-3 * float(worth.max(initial=0.0)) + 1e-300
        # The box limits each price in the uphill direction of the first response.
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
        """Widen the sides of the box that limit the optimum; False if no side does."""
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
