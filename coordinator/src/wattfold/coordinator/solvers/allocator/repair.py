"""Conversion of the jobs' choices at given prices to a valid plan, and its improvement.

1. `respond`: every job takes its best option net of prices. This slightly exceeds some limits.
2. `shrink`: jobs give up the smallest net value per share of the exceeded limits.
3. `fill`: jobs take the largest gain per share of the remaining resources.
4. `exchange`: the best pair of moves that fits together, again and again. Pairs also repair units
   and power that are still exceeded.

A *move* changes the option of a job, or stops it. All steps evaluate all moves at once; only
executed moves need a loop. If the only limits are units and power, many moves are made at a time.
Amounts are integers below 2**53, so sums in floating point are exact. Ties go to the lower number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.allocator.prices import net_of
from wattfold.coordinator.solvers.allocator.resources import Table

Floats = NDArray[np.float64]
Ints64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDS = 200
"""Maximum number of rounds of shrinking and of filling. Every round makes at least one move."""
NEAR_MOVES = 200
"""Number of moves that `exchange` combines to pairs."""
MORE_MOVES = 400
"""Number for a second attempt, as rows for kinds of nodes add limits that a pair must respect."""


class Repair:
    """A choice under repair. Choices are local option numbers per local job, -1 = none."""

    def __init__(self, table: Table, prices: Floats) -> None:
        self._table = table
        net = net_of(table, prices)
        idle = np.flatnonzero(~table.forced)
        # Every option of every job, then stopping for the jobs that need not run.
        self._job = np.concatenate([table.owner, idle])
        self._option = np.concatenate(
            [np.arange(table.owner.size), np.full(idle.size, -1, dtype=np.int64)]
        )
        still = np.zeros(idle.size)
        self._value = np.concatenate([table.value, still])
        self._net = np.concatenate([net, still])
        self._cost = [np.concatenate([cost, still]) for cost in table.cost]
        order = np.argsort(self._job, kind="stable")
        self._job, self._option = self._job[order], self._option[order]
        self._value, self._net = self._value[order], self._net[order]
        self._cost = [cost[order] for cost in self._cost]
        self._firsts = np.searchsorted(self._job, np.arange(table.jobs))
        self._cap = np.append(table.limit, np.inf)
        self.held = self._best_per_job(self._net)
        """Row of the current move of each job."""
        self._free = self._left()

    @property
    def choice(self) -> Ints64:
        """Option of each job, -1 = none."""
        picked: Ints64 = self._option[self.held]
        return picked

    @property
    def objective(self) -> float:
        """Value of the current choice."""
        return float(self._value[self.held].sum())

    @property
    def fits(self) -> bool:
        """Whether all limits hold."""
        return bool(self._free.min() >= 0)

    def shrink(self) -> None:
        """Give up the cheapest net value per share of the exceeded limits."""
        for _ in range(ROUNDS):
            over = np.maximum(-self._free, 0.0)
            if not over.any():
                return
            # Relief is a share of the excess, over all exceeded limits; the use of other limits
            # must not grow. Rows come first: moves that repair them free units and power as well.
            weight = np.where(over > 0, 1.0 / np.maximum(over, 1.0), 0.0)
            if weight[2:].any():
                weight[:2] = 0.0
            relief = np.zeros(self._job.size)
            allowed = np.ones(self._job.size, dtype=np.bool_)
            for channel, extra in enumerate(self._extra()):
                price, room = self._spread(channel, weight), self._spread(channel, self._free)
                relief -= price * extra
                allowed &= (extra <= 0) | (extra <= room)
            loss = np.maximum(self._net[self.held][self._job] - self._net, 0.0)
            tiny = 1e-12 * (self._net.max(initial=0.0) - self._net.min(initial=0.0)) + 1e-300
            helps = allowed & (relief > 0)
            ratio = np.full(relief.size, np.inf)
            np.divide(loss + tiny, relief, out=ratio, where=helps)
            best = self._best_per_job(-ratio)
            order = np.argsort(ratio[best], kind="stable")
            moves = best[order[np.isfinite(ratio[best[order]])]]
            if not moves.size:
                return
            self._apply(self._needed(moves, over))

    def fill(self) -> None:
        """Take the largest gain per share of the remaining resources, while a move fits."""
        for _ in range(ROUNDS):
            gain = self._value - self._value[self.held][self._job]
            possible = gain > 0
            burden = np.zeros(self._job.size)
            for channel, extra in enumerate(self._extra()):
                room = self._spread(channel, self._free)
                possible &= extra <= room
                np.maximum(burden, extra / np.maximum(room, 1.0), out=burden)
            rows = np.flatnonzero(possible)
            if not rows.size:
                return
            rate = np.full(self._job.size, -np.inf)
            rate[rows] = gain[rows] / np.maximum(burden[rows], 1e-9)
            best = self._best_per_job(rate)
            best = best[np.isfinite(rate[best])]
            moves = best[np.argsort(-rate[best], kind="stable")]
            self._apply(self._fitting(moves))

    def exchange(self, enough: float, rounds: int, most: int = NEAR_MOVES) -> None:
        """Make the best single move or pair of moves that fits, until the value is enough.

        The ``most`` moves of smallest loss are considered.
        """
        for _ in range(rounds):
            if self.fits and self.objective >= enough:
                return
            pair = self._best_pair(most)
            if pair is None:
                return
            self._apply(pair)

    def _best_pair(self, most: int) -> Ints64 | None:
        if self._free[2:].min() < 0:
            return None
        loss = self._net[self.held][self._job] - self._net
        count = min(most, loss.size)
        near = np.sort(np.argpartition(loss, count - 1)[:count]) if count else np.zeros(0, int)
        if not near.size:
            return None
        job = self._job[near]
        gain = self._value[near] - self._value[self.held][job]
        # Staying is a move too: paired with it, a move is a single move.
        possible = job[:, None] != job[None, :]
        staying = near == self.held[job]
        possible |= staying[:, None] | staying[None, :]
        sums = gain[:, None] + gain[None, :]
        allowed = self._mends(near, possible)
        if self.fits:
            allowed &= sums > 1e-12 * abs(self.objective)
        sums[~allowed] = -np.inf
        best = int(np.argmax(sums))
        if not np.isfinite(sums.flat[best]):
            return None
        first, second = divmod(best, near.size)
        chosen = near[[first, second]]
        moved: Ints64 = chosen[chosen != self.held[self._job[chosen]]]
        return moved if moved.size else None

    def _mends(self, near: Ints64, feasible: Bools) -> Bools:
        """Return which of the possible pairs of moves respect all limits."""
        job = self._job[near]
        fits = feasible
        for channel, cost in enumerate(self._cost):
            extra = cost[near] - cost[self.held][job]
            if channel < 2:
                fits = fits & (extra[:, None] + extra[None, :] <= self._free[channel])
                continue
            resource = self._table.where[channel][job]
            same = resource[:, None] == resource[None, :]
            ours = extra[:, None] + same * extra[None, :]
            room = np.where(np.isinf(self._cap[resource]), np.inf, self._free[resource])
            held = ours <= room[:, None]
            fits = fits & held & held.T
        return fits

    def _extra(self) -> list[Floats]:
        return [cost - cost[self.held][self._job] for cost in self._cost]

    def _spread(self, channel: int, per_resource: Floats) -> Floats | float:
        if channel < 2:
            return float(per_resource[channel])
        spread: Floats = per_resource[self._table.where[channel]][self._job]
        return spread

    def _left(self) -> Floats:
        free = self._cap.copy()
        for channel, cost in enumerate(self._cost):
            taken = cost[self.held]
            if channel < 2:
                free[channel] -= taken.sum()
            else:
                free -= np.bincount(self._table.where[channel], weights=taken, minlength=free.size)
        return free

    def _best_per_job(self, score: Floats) -> Ints64:
        if not self._firsts.size:
            return np.zeros(0, dtype=np.int64)
        best = np.maximum.reduceat(score, self._firsts)
        hits = np.flatnonzero(score == best[self._job])
        owners = self._job[hits]
        return hits[np.r_[True, owners[1:] != owners[:-1]]]

    def _apply(self, moves: Ints64) -> None:
        self.held[self._job[moves]] = moves
        self._free = self._left()

    def _needed(self, moves: Ints64, over: Floats) -> Ints64:
        """Return the moves, in order, that repair exceeded rows, or else units or power."""
        job = self._job[moves]
        if over[2:].any():
            needed = np.zeros(moves.size, dtype=np.bool_)
            for channel in range(2, len(self._cost)):
                resource = self._table.where[channel][job]
                relieved = self._cost[channel][self.held[job]] - self._cost[channel][moves]
                before = _running_sum(resource, np.maximum(relieved, 0.0)) - relieved
                needed |= (relieved > 0) & (before < over[resource])
            return moves[needed]
        count = moves.size
        for dense in np.flatnonzero(over[:2]).tolist():
            cost = self._cost[dense]
            relieved = np.cumsum(cost[self.held[job]] - cost[moves])
            reached = int(np.searchsorted(relieved, over[dense]))
            count = min(count, max(1, reached))
        return moves[:count]

    def _fitting(self, moves: Ints64) -> Ints64:
        """Return the first moves that fit together; at least the first move."""
        for channel in range(2, len(self._cost)):
            job = self._job[moves]
            resource = self._table.where[channel][job]
            extra = self._cost[channel][moves] - self._cost[channel][self.held[job]]
            moves = moves[_running_sum(resource, np.maximum(extra, 0.0)) <= self._free[resource]]
        job = self._job[moves]
        count = moves.size
        for channel, cost in enumerate(self._cost[:2]):
            taken = np.cumsum(cost[moves] - cost[self.held[job]])
            beyond = np.flatnonzero(taken > self._free[channel])
            if beyond.size:
                count = min(count, int(beyond[0]))
        return moves[: max(1, count)]


def _running_sum(group: Ints64, amount: Floats) -> Floats:
    """Return the sum of the group of each entry up to and including it, in the given order."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(amount[order])
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    before = total[first] - amount[order][first]
    sums = np.empty_like(amount)
    sums[order] = total - np.repeat(before, np.diff(np.append(first, group.size)))
    return sums
