"""The list scheduler, in numpy: jobs in an order become a plan of starts and places.

Time advances from event to event. Events are now, ends of running and placed jobs, starts of jobs
placed ahead, changes of the budget and ends of closings. At each event, jobs without a place are
considered in their order. A job starts if nodes and power are available for all of its duration.
Otherwise, if fewer than ``depth`` jobs are placed ahead, it is placed ahead at its earliest start,
and later jobs have to respect this place. Depth 0 gives the parallel list schedule. A depth of all
jobs gives the serial list schedule, which is conservative backfilling; PBS looks ahead for some
jobs. If run times are as expected, fixed places and a new search at every event give the same
starts, because jobs placed since can only have reduced the room.

*Shapes are the trick*: a failure at an event holds until something ends, for all jobs of equal
demand and duration. So the work grows with events times demands, not with events times jobs.

`compiled` does the same; a property test compares the two.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wattfold.coordinator.solvers.lists.arrays import FLEXIBLE, Arrays, Ints, List, Schedule
from wattfold.coordinator.solvers.lists.problem import ENDLESS_NS, NEVER, NodeSpread

BLOCK = 64
"""Number of times that are examined together."""


class ReferenceLists:
    """Maker of list schedules for a problem."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def schedule(self, order: List, choice: List, depth: int) -> Schedule:
        """Return the list schedule of all jobs in an order.

        ``choice`` has the option of each job, or `FLEXIBLE`: the first option that lets it start at
        its turn; if it is placed ahead, the option with the earliest start.
        """
        return _ReferenceRun(self._arrays, choice, depth).scheduled(order)


class _ReferenceTable:
    """Free amounts of each node, and free power, from each time on; row 0 is now."""

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
        """Drop past rows."""
        gone = int(np.searchsorted(self.times, at_ns, side="right")) - 1
        if gone > 0:
            self.times, self.free = self.times[gone:], self.free[gone:]
            self.power_uw = self.power_uw[gone:]
        if self.times[0] < at_ns:
            self.times[0] = at_ns

    def rows(self, start_ns: int, end_ns: int) -> slice:
        """Return the rows that overlap an interval."""
        first = int(np.searchsorted(self.times, start_ns, side="right")) - 1
        return slice(first, int(np.searchsorted(self.times, end_ns)))

    def take(self, start_ns: int, end_ns: int, taken: Ints, power_uw: int) -> None:
        """Take amounts for an interval; ``taken`` is nodes x resources."""
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
    """A demand in a form for fast access."""

    units: int
    most: int
    """Maximum number of units on a node."""
    together: bool
    tried: Ints
    asked: tuple[tuple[int, int], ...]
    """The requested resources, with their amounts."""


def _demands(arrays: Arrays) -> list[_Demand]:
    found = []
    for what, units in enumerate(arrays.units.tolist()):
        amounts = enumerate(arrays.amounts[what].tolist())
        found.append(
            _Demand(
                units=units,
                most=1 if arrays.spread[what] == NodeSpread.APART else units,
                together=bool(arrays.spread[what] == NodeSpread.TOGETHER),
                tried=arrays.tried[arrays.tried_from[what] : arrays.tried_from[what + 1]],
                asked=tuple((resource, amount) for resource, amount in amounts if amount),
            )
        )
    return found


class _ReferenceRun:
    """A run through time."""

    def __init__(self, arrays: Arrays, choice: List, depth: int) -> None:
        self._arrays, self._choice, self._depth = arrays, choice, depth
        self._demands = _demands(arrays)
        self._table = _ReferenceTable(arrays)
        self._ends: list[int] = arrays.ends_ns.tolist()
        self._begins: list[int] = []
        """Starts of jobs placed ahead."""
        self._tried = np.zeros((len(arrays.units), len(arrays.capacity)), dtype=np.bool_)
        whose = np.repeat(np.arange(len(arrays.units)), np.diff(arrays.tried_from))
        self._tried[whose, arrays.tried] = True
        self._fits = np.zeros(self._tried.shape, dtype=np.int64)
        """Units of each demand that each node can take now."""
        self._failed_ns = np.zeros(len(arrays.units), dtype=np.int64)
        """Duration with which each demand failed at this event; its stay is in the next field."""
        self._failed_stay_ns = np.zeros(len(arrays.units), dtype=np.int64)
        jobs = len(arrays.option_from) - 1
        chosen = np.array(choice, dtype=np.int64)
        whose = np.repeat(np.arange(jobs), np.diff(arrays.option_from))
        number = np.arange(len(arrays.demand)) - arrays.option_from[whose]
        self._open = (chosen[whose] == FLEXIBLE) | (chosen[whose] == number)
        """Whether an option may be chosen."""
        self._starts_ns = np.full(jobs, NEVER, dtype=np.int64)
        self._options = np.zeros(jobs, dtype=np.int64)
        self._places: list[Ints] = [np.zeros(0, dtype=np.int64)] * jobs

    def scheduled(self, order: List) -> Schedule:
        """Schedule all jobs, until nothing ends any more."""
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
        """Count the units that fit on nodes now."""
        arrays = self._arrays
        fits = np.repeat(arrays.units[:, None], len(nodes), axis=1)
        for resource, free in enumerate(self._table.free[0, nodes].T):
            asked = arrays.amounts[:, resource]
            rows = np.flatnonzero(asked)
            holds = np.maximum(free, 0) // asked[rows, None]
            fits[rows] = np.minimum(fits[rows], holds)
        fits[arrays.spread == NodeSpread.APART] = np.minimum(
            fits[arrays.spread == NodeSpread.APART], 1
        )
        together = (arrays.spread == NodeSpread.TOGETHER)[:, None] & (fits < arrays.units[:, None])
        self._fits[:, nodes] = np.where(together | ~self._tried[:, nodes], 0, fits)

    def _pass(self, waits: Ints, at_ns: int) -> Ints:
        """Consider all jobs without a place; return those that still have none."""
        self._failed_ns[:] = self._failed_stay_ns[:] = ENDLESS_NS
        left = np.ones(len(waits), dtype=np.bool_)
        turn = self._turn(waits, 0)
        while turn < len(waits):
            left[turn] = not self._placed(int(waits[turn]), at_ns)
            turn = self._turn(waits, turn + 1)
        return waits[left]

    def _turn(self, waits: Ints, turn: int) -> int:
        """Return the next job; once ``depth`` jobs are ahead, skip demands that have failed."""
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
        """Place a job now or ahead, if it may be placed."""
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
        """Yield ends after now at which enough is free for an option, if only for a moment."""
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
        """Return the units on each node with this start; None if it is impossible."""
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
        """Return the indices of the nodes that are closed at some time from the start on."""
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
        """Return the next event; None if there is none."""
        del self._ends[: bisect_left(self._ends, at_ns + 1)]
        then = min([*self._ends[:1], *self._begins[:1]], default=None)
        if then is not None:
            del self._begins[: bisect_left(self._begins, then + 1)]
        return then
