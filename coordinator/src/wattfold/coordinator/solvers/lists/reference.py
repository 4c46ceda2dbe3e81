"""The scheduler of lists, in numpy: jobs in an order become a plan of starts and places.

Time goes from event to event: now, every end of what runs or was placed, every begin of what was
placed ahead, every change of the budget or end of a closing. At each, jobs that have no place are
looked at in their order. One starts if nodes and power are there for all of its duration. Else, if
fewer than ``depth`` jobs are placed ahead, it is: at its earliest start; who comes later has to
leave that place alone. With depth 0 that is the parallel list schedule, with a depth of all jobs
the serial one, which is conservative backfilling; PBS looks ahead for some. Where run times are as
expected, to keep the places of jobs and to look for them anew at every event comes to the same
starts: what was placed since can only have left less room.

*Shapes are the trick*: what has failed at an event fails until something ends, for all jobs that
demand as much for as long. So the work grows with events times demands, not with events times jobs.

`compiled` does the same; the two are compared by a property test.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wattfold.coordinator.solvers.lists.arrays import FLEXIBLE, Arrays, Ints, List, Schedule
from wattfold.coordinator.solvers.lists.problem import ENDLESS_NS, NEVER, Spread

BLOCK = 64
"""So many times are looked at together."""


class Lists:
    """Makes list schedules of one problem."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def schedule(self, order: List, choice: List, depth: int) -> Schedule:
        """The list schedule of all jobs in an order.

        ``choice`` has the option of each job, or `FLEXIBLE`: the first that lets it start when its
        turn has come, and of those it could be placed ahead with the one that starts first.
        """
        return _Run(self._arrays, choice, depth).scheduled(order)


class _Table:
    """What is free from each time on, of each node and of the power; row 0 is the present."""

    def __init__(self, arrays: Arrays) -> None:
        known = np.concatenate((arrays.part_end_ns, arrays.power_times_ns))
        times = np.unique(np.append(known, arrays.now_ns))
        self.times = times
        self.free = np.tile(arrays.capacity, (len(times), 1, 1))
        ends = np.searchsorted(times, arrays.part_end_ns)
        for end, node, amounts in zip(ends, arrays.part_node, arrays.part_amounts, strict=True):
            self.free[:end, node] -= amounts
        rows = np.searchsorted(arrays.power_times_ns, times, side="right") - 1
        self.power_uw = arrays.power_uw[rows]

    def forget(self, at_ns: int) -> None:
        """Drops what has passed."""
        gone = int(np.searchsorted(self.times, at_ns, side="right")) - 1
        if gone > 0:
            self.times, self.free = self.times[gone:], self.free[gone:]
            self.power_uw = self.power_uw[gone:]
        if self.times[0] < at_ns:
            self.times[0] = at_ns

    def rows(self, start_ns: int, end_ns: int) -> slice:
        """Those that meet an interval."""
        first = int(np.searchsorted(self.times, start_ns, side="right")) - 1
        return slice(first, int(np.searchsorted(self.times, end_ns)))

    def take(self, start_ns: int, end_ns: int, taken: Ints, power_uw: int) -> None:
        """Gives something away for an interval; ``taken`` is nodes x resources."""
        where = slice(self._split(start_ns), self._split(end_ns))
        self.free[where] -= taken
        self.power_uw[where] -= power_uw

    def _split(self, time_ns: int) -> int:
        row = int(np.searchsorted(self.times, time_ns))
        if row == len(self.times) or self.times[row] != time_ns:
            self.times = np.insert(self.times, row, time_ns)
            self.free = np.insert(self.free, row, self.free[row - 1], axis=0)
            self.power_uw = np.insert(self.power_uw, row, self.power_uw[row - 1])
        return row


class _Demand(NamedTuple):
    """One demand, as it is looked up."""

    units: int
    most: int
    """On one node."""
    together: bool
    tried: Ints
    asked: tuple[tuple[int, int], ...]
    """The resources it asks for, and how much of each."""


def _demands(arrays: Arrays) -> list[_Demand]:
    found = []
    for what, units in enumerate(arrays.units.tolist()):
        amounts = enumerate(arrays.amounts[what].tolist())
        found.append(
            _Demand(
                units=units,
                most=1 if arrays.spread[what] == Spread.APART else units,
                together=bool(arrays.spread[what] == Spread.TOGETHER),
                tried=arrays.tried[arrays.tried_from[what] : arrays.tried_from[what + 1]],
                asked=tuple((resource, amount) for resource, amount in amounts if amount),
            )
        )
    return found


class _Run:
    """One run through time."""

    def __init__(self, arrays: Arrays, choice: List, depth: int) -> None:
        self._arrays, self._choice, self._depth = arrays, choice, depth
        self._demands = _demands(arrays)
        self._table = _Table(arrays)
        self._ends: list[int] = arrays.ends_ns.tolist()
        self._begins: list[int] = []
        """Of what is placed ahead."""
        self._tried = np.zeros((len(arrays.units), len(arrays.capacity)), dtype=np.bool_)
        whose = np.repeat(np.arange(len(arrays.units)), np.diff(arrays.tried_from))
        self._tried[whose, arrays.tried] = True
        self._fits = np.zeros(self._tried.shape, dtype=np.int64)
        """Units of each demand that each node can take at present."""
        self._failed_ns = np.zeros(len(arrays.units), dtype=np.int64)
        """Who demands it for so long has failed at this event, if it may stay for so long."""
        self._failed_stay_ns = np.zeros(len(arrays.units), dtype=np.int64)
        jobs = len(arrays.option_from) - 1
        chosen = np.array(choice, dtype=np.int64)
        whose = np.repeat(np.arange(jobs), np.diff(arrays.option_from))
        number = np.arange(len(arrays.demand)) - arrays.option_from[whose]
        self._open = (chosen[whose] == FLEXIBLE) | (chosen[whose] == number)
        """Which options may be chosen."""
        self._starts_ns = np.full(jobs, NEVER, dtype=np.int64)
        self._options = np.zeros(jobs, dtype=np.int64)
        self._places: list[Ints] = [np.zeros(0, dtype=np.int64)] * jobs

    def scheduled(self, order: List) -> Schedule:
        """All jobs, until nothing ends any more."""
        waits = np.array(order, dtype=np.int64)
        at_ns: int | None = self._arrays.now_ns
        while len(waits) and at_ns is not None:
            before = self._table.free[0]
            self._table.forget(at_ns)
            changed = (self._table.free[0] != before).any(axis=1)
            self._count(np.flatnonzero(changed | (at_ns == self._arrays.now_ns)))
            waits = self._pass(waits, at_ns)
            at_ns = self._next(at_ns)
        counts = [len(place) for place in self._places]
        return Schedule(
            starts_ns=self._starts_ns,
            options=self._options,
            nodes=np.concatenate([np.zeros(0, dtype=np.int64), *self._places]),
            nodes_from=np.cumsum([0, *counts], dtype=np.int64),
        )

    def _count(self, nodes: Ints) -> None:
        """Counts what fits on nodes at present."""
        arrays = self._arrays
        fits = np.repeat(arrays.units[:, None], len(nodes), axis=1)
        for resource, free in enumerate(self._table.free[0, nodes].T):
            asked = arrays.amounts[:, resource]
            rows = np.flatnonzero(asked)
            holds = np.maximum(free, 0) // asked[rows, None]
            fits[rows] = np.minimum(fits[rows], holds)
        fits[arrays.spread == Spread.APART] = np.minimum(fits[arrays.spread == Spread.APART], 1)
        together = (arrays.spread == Spread.TOGETHER)[:, None] & (fits < arrays.units[:, None])
        self._fits[:, nodes] = np.where(together | ~self._tried[:, nodes], 0, fits)

    def _pass(self, waits: Ints, at_ns: int) -> Ints:
        """One look at all that have no place; those that still have none."""
        self._failed_ns[:] = self._failed_stay_ns[:] = ENDLESS_NS
        left = np.ones(len(waits), dtype=np.bool_)
        turn = self._turn(waits, 0)
        while turn < len(waits):
            left[turn] = not self._placed(int(waits[turn]), at_ns)
            turn = self._turn(waits, turn + 1)
        return waits[left]

    def _turn(self, waits: Ints, turn: int) -> int:
        """The next to be looked at: one for which nothing that demands as much has failed."""
        if len(self._begins) < self._depth or turn >= len(waits):
            return turn
        arrays = self._arrays
        able = self._open & (self._fits.sum(axis=1) >= arrays.units)[arrays.demand]
        brief = arrays.duration_ns < self._failed_ns[arrays.demand]
        brief |= arrays.stay_ns < self._failed_stay_ns[arrays.demand]
        any_option = np.logical_or.reduceat(able & brief, arrays.option_from[:-1])
        found = np.flatnonzero(any_option[waits[turn:]])
        return turn + int(found[0]) if len(found) else len(waits)

    def _placed(self, job: int, at_ns: int) -> bool:
        """Places a job now or ahead, if it may be."""
        arrays = self._arrays
        first, last = arrays.option_from[job], arrays.option_from[job + 1]
        options = [option for option in range(first, last) if self._open[option]]
        for option in options:
            what, lasts_ns = arrays.demand[option], arrays.duration_ns[option]
            stays_ns = arrays.stay_ns[option]
            brief = lasts_ns < self._failed_ns[what] or stays_ns < self._failed_stay_ns[what]
            if not brief or self._fits[what].sum() < arrays.units[what]:
                continue
            units = self._place(option, at_ns)
            if units is not None:
                self._take(job, option, at_ns, units)
                self._count(np.flatnonzero(units))
                return True
            if lasts_ns < self._failed_ns[what]:
                self._failed_ns[what], self._failed_stay_ns[what] = lasts_ns, stays_ns
        if len(self._begins) >= self._depth:
            return False
        best: tuple[int, int, Ints] | None = None
        for option in options:
            for start_ns in self._ahead(option, at_ns):
                if best is not None and start_ns >= best[1]:
                    break
                units = self._place(option, start_ns)
                if units is not None:
                    best = option, start_ns, units
                    break
        if best is None:
            return False
        insort(self._begins, best[1])
        self._take(job, *best)
        return True

    def _ahead(self, option: int, at_ns: int) -> Iterator[int]:
        """Ends after now at which enough is free for an option, if only for a moment."""
        one = self._demands[int(self._arrays.demand[option])]
        ends = self._ends[bisect_left(self._ends, at_ns + 1) :]
        for first in range(0, len(ends), BLOCK):
            block = ends[first : first + BLOCK]
            rows = np.searchsorted(self._table.times, block, side="right") - 1
            fits = np.full((len(rows), len(one.tried)), one.most)
            for resource, amount in one.asked:
                free = self._table.free[rows[:, None], one.tried, resource]
                fits = np.minimum(fits, np.maximum(free, 0) // amount)
            for row in np.flatnonzero(fits.sum(axis=1) >= one.units):
                yield block[row]

    def _place(self, option: int, start_ns: int) -> Ints | None:
        """How many units each node gets if it starts then; None if it cannot."""
        arrays, what = self._arrays, int(self._arrays.demand[option])
        one = self._demands[what]
        rows = self._table.rows(start_ns, start_ns + int(arrays.duration_ns[option]))
        fits = np.full(len(one.tried), one.most)
        for resource, amount in one.asked:
            free = self._table.free[rows, :, resource].min(axis=0)[one.tried]
            fits = np.minimum(fits, np.maximum(free, 0) // amount)
        if len(arrays.closed):
            fits[self._closed(what, one.tried, start_ns, int(arrays.stay_ns[option]))] = 0
        if one.together:
            fits[fits < one.units] = 0
        total = np.cumsum(fits)
        if not len(total) or total[-1] < one.units:
            return None
        given = np.minimum(np.maximum(one.units - total + fits, 0), fits)
        if arrays.limited:
            needed_uw = int((given * arrays.unit_uw[what][one.tried]).sum())
            if needed_uw and needed_uw > self._table.power_uw[rows].min():
                return None
        found = np.zeros(len(arrays.capacity), dtype=np.int64)
        found[one.tried] = given
        return found

    def _closed(self, what: int, tried: Ints, start_ns: int, stays_ns: int) -> Ints:
        """Which of the nodes are closed at some time from a start on, as indices."""
        arrays = self._arrays
        met = arrays.concerned[what] & (start_ns < arrays.closed_to_ns)
        met &= arrays.closed_from_ns < start_ns + stays_ns
        return np.flatnonzero(arrays.closed[met].any(axis=0)[tried])

    def _take(self, job: int, option: int, start_ns: int, units: Ints) -> None:
        arrays, what = self._arrays, self._arrays.demand[option]
        end_ns = start_ns + int(arrays.duration_ns[option])
        power_uw = int((units * arrays.unit_uw[what]).sum())
        self._table.take(start_ns, end_ns, units[:, None] * arrays.amounts[what], power_uw)
        at = bisect_left(self._ends, end_ns)
        if at == len(self._ends) or self._ends[at] != end_ns:
            self._ends.insert(at, end_ns)
        self._starts_ns[job], self._options[job] = start_ns, option
        self._places[job] = np.repeat(np.arange(len(units)), units)

    def _next(self, at_ns: int) -> int | None:
        """The event after this one; None if there is none."""
        del self._ends[: bisect_left(self._ends, at_ns + 1)]
        then = min([*self._ends[:1], *self._begins[:1]], default=None)
        if then is not None:
            del self._begins[: bisect_left(self._begins, then + 1)]
        return then
