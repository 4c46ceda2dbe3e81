"""The list scheduler compiled by numba: equal to `reference`, some hundred times faster.

Each node has rows of the free amounts from a time on; the first row is now. After a failure for
lack of free resources, a demand is tried again only when enough resources became free on its
possible nodes; `bound` counts them. Loops are explicit, because numba compiles them well.

Importing this module needs numba. The first call compiles for some seconds, unless numba's cache
has the machine code of an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from wattfold.coordinator.solvers.lists.arrays import FLEXIBLE, Arrays, Bools, Ints, List, Schedule
from wattfold.coordinator.solvers.lists.problem import ENDLESS_NS, NEVER, UNLIMITED_UW, NodeSpread

ROWS = 16
"""Initial number of rows of a node in addition to the known changes."""

_TOGETHER, _APART = int(NodeSpread.TOGETHER), int(NodeSpread.APART)


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, with a cache on disk if there is a place for it."""
    try:
        return numba.njit(cache=True)(function)
    except RuntimeError:  # There is no writable folder.
        return numba.njit(function)


class _Given(NamedTuple):
    """Constant inputs, as in `Arrays`."""

    units: Ints
    spread: Ints
    amounts: Ints
    unit_uw: Ints
    tried: Ints
    tried_from: Ints
    able: Bools
    """D x N: whether a node is a possible node."""
    least_uw: Ints
    """D: minimum power of all units."""
    concerned: Bools
    closed: Bools
    closed_from_ns: Ints
    closed_to_ns: Ints
    option_from: Ints
    demand: Ints
    duration_ns: Ints
    stay_ns: Ints


class _Space(NamedTuple):
    """Free amounts over time, to be modified."""

    times: Ints
    """N x rows."""
    free: Ints
    """N x rows x R."""
    counts: Ints
    """N: number of rows in use of each node."""
    power_times: Ints
    left_uw: Ints
    powers: Ints
    """A single number: the rows in use of the power."""


class CompiledLists:
    """`reference.CompiledLists`, compiled."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        demands, nodes = len(arrays.units), len(arrays.capacity)
        able = np.zeros((demands, nodes), dtype=np.bool_)
        able[np.repeat(np.arange(demands), np.diff(arrays.tried_from)), arrays.tried] = True
        drawn = np.where(able, arrays.unit_uw, UNLIMITED_UW)
        cheapest = drawn.min(axis=1, initial=UNLIMITED_UW)
        self._given = _Given(
            units=arrays.units,
            spread=arrays.spread,
            amounts=arrays.amounts,
            unit_uw=arrays.unit_uw,
            tried=arrays.tried,
            tried_from=arrays.tried_from,
            able=able,
            least_uw=arrays.units * np.where(able.any(axis=1), cheapest, 0),
            concerned=arrays.concerned,
            closed=arrays.closed,
            closed_from_ns=arrays.closed_from_ns,
            closed_to_ns=arrays.closed_to_ns,
            option_from=arrays.option_from,
            demand=arrays.demand,
            duration_ns=arrays.duration_ns,
            stay_ns=arrays.stay_ns,
        )
        self._rows = _rows_of(arrays)
        first = arrays.demand[arrays.option_from[:-1]]
        self._nodes_from = np.concatenate(([0], np.cumsum(arrays.units[first]))).astype(np.int64)

    def schedule(self, order: List, choice: List, depth: int) -> Schedule:
        """Return the list schedule of all jobs in an order."""
        arrays, jobs = self._arrays, len(self._arrays.option_from) - 1
        times, free, counts = (rows.copy() for rows in self._rows)
        more = np.zeros(2 * jobs, dtype=np.int64)
        space = _Space(
            times=times,
            free=free,
            counts=counts,
            power_times=np.concatenate((arrays.power_times_ns, more)),
            left_uw=np.concatenate((arrays.power_uw, more)),
            powers=np.array([len(arrays.power_uw)], dtype=np.int64),
        )
        starts_ns, options, nodes = _schedule(
            self._given,
            space,
            arrays.now_ns,
            arrays.ends_ns,
            np.array(order, dtype=np.int64),
            np.array(choice, dtype=np.int64),
            depth,
            self._nodes_from,
        )
        return _dense(starts_ns, options, nodes, self._nodes_from)


def _dense(starts_ns: Ints, options: Ints, nodes: Ints, nodes_from: Ints) -> Schedule:
    """Return a schedule without the nodes of jobs that have no place."""
    there = starts_ns != NEVER
    if not there.all():
        counts = np.diff(nodes_from)
        nodes = nodes[np.repeat(there, counts)]
        nodes_from = np.concatenate(([0], np.cumsum(np.where(there, counts, 0))))
    return Schedule(starts_ns=starts_ns, options=options, nodes=nodes, nodes_from=nodes_from)


def _rows_of(arrays: Arrays) -> tuple[Ints, Ints, Ints]:
    """Return the rows of `_Space` (``times``, ``free``, ``counts``) with the running jobs."""
    nodes, resources = arrays.capacity.shape
    known = np.bincount(arrays.part_node, minlength=nodes)
    rows = int(known.max(initial=0)) + ROWS
    times = np.zeros((nodes, rows), dtype=np.int64)
    free = np.zeros((nodes, rows, resources), dtype=np.int64)
    counts = np.zeros(nodes, dtype=np.int64)
    by_node = np.lexsort((arrays.part_end_ns, arrays.part_node))
    parts = arrays.part_node[by_node], arrays.part_end_ns[by_node], arrays.part_amounts[by_node]
    _fill(arrays.now_ns, arrays.capacity, *parts, times, free, counts)
    return times, free, counts


# The following functions are compiled. Arguments are numbers and integer arrays as named above.


@_compiled
def _fill(now_ns, capacity, part_node, part_end_ns, part_amounts, times, free, counts):  # type: ignore[no-untyped-def]
    """Fill the rows of every node from the parts of running jobs, sorted by node and end."""
    at = 0
    for node in range(len(capacity)):
        times[node, 0] = now_ns
        free[node, 0] = capacity[node]
        count = 1
        while at < len(part_node) and part_node[at] == node:
            if part_end_ns[at] != times[node, count - 1]:
                times[node, count] = part_end_ns[at]
                free[node, count] = capacity[node]
                count += 1
            for row in range(count - 1):
                for r in range(capacity.shape[1]):
                    free[node, row, r] -= part_amounts[at, r]
            at += 1
        counts[node] = count


@_compiled
def _fits(amounts, free, most):  # type: ignore[no-untyped-def]
    """Return how many units of these amounts fit into the free amounts, at most ``most``."""
    for r in range(len(amounts)):
        if amounts[r] > 0 and most * amounts[r] > free[r]:
            if free[r] < amounts[r]:
                return 0
            most = free[r] // amounts[r]
    return most


@_compiled
def _fits_now(given, space, what, node):  # type: ignore[no-untyped-def]
    """Return how many units of a demand fit on a node now; 0 if they must all fit and do not."""
    most = given.units[what]
    if given.spread[what] == _APART:
        most = 1
    fits = _fits(given.amounts[what], space.free[node, 0], most)
    if given.spread[what] == _TOGETHER and fits < most:
        return 0
    return fits


@_compiled
def _fit_now(given, space, what):  # type: ignore[no-untyped-def]
    """Return how many units of a demand fit now, at most the number that it needs."""
    total = 0
    for i in range(given.tried_from[what], given.tried_from[what + 1]):
        total += _fits_now(given, space, what, given.tried[i])
        if total >= given.units[what]:
            break
    return total


@_compiled
def _is_closed(given, what, node, start_ns, end_ns):  # type: ignore[no-untyped-def]
    for c in range(len(given.closed)):
        met = start_ns < given.closed_to_ns[c] and given.closed_from_ns[c] < end_ns
        if met and given.concerned[what, c] and given.closed[c, node]:
            return True
    return False


@_compiled
def _is_fed(space, start_ns, end_ns, needed_uw):  # type: ignore[no-untyped-def]
    """Whether the remaining budget suffices at all times between two times."""
    count = space.powers[0]
    row = np.searchsorted(space.power_times[:count], start_ns, side="right") - 1
    while row < count and (space.power_times[row] < end_ns):
        if space.left_uw[row] < needed_uw:
            return False
        row += 1
    return True


@_compiled
def _placed(given, space, option, start_ns, ready_ns, row_at, on):  # type: ignore[no-untyped-def]
    """Place the units of an option with this start: ``on`` for each node tried.

    Returns how many nodes were tried, 0 if there is no place. ``ready_ns`` is the earliest time at
    which a node may have room, ``row_at`` one of its rows that begins no later; both are advanced.
    """
    what = given.demand[option]
    if given.least_uw[what] and not _is_fed(space, start_ns, start_ns + 1, given.least_uw[what]):
        return 0
    end_ns, stays_until_ns = start_ns + given.duration_ns[option], start_ns + given.stay_ns[option]
    needed, needed_uw = given.units[what], 0
    first = given.tried_from[what]
    for i in range(first, given.tried_from[what + 1]):
        node = given.tried[i]
        on[node] = 0
        if start_ns < ready_ns[node]:
            continue
        count, row = space.counts[node], row_at[node]
        while row + 1 < count and space.times[node, row + 1] <= start_ns:
            row += 1
        row_at[node] = row
        fits = needed
        if given.spread[what] == _APART:
            fits = 1
        while True:
            fits = _fits(given.amounts[what], space.free[node, row], fits)
            if fits == 0:
                ready_ns[node] = space.times[node, row + 1] if row + 1 < count else ENDLESS_NS
                break
            row += 1
            if row >= count or space.times[node, row] >= end_ns:
                break
        if fits == 0 or (given.spread[what] == _TOGETHER and fits < needed):
            continue
        if len(given.closed) and _is_closed(given, what, node, start_ns, stays_until_ns):
            continue
        on[node] = fits
        needed -= fits
        needed_uw += fits * given.unit_uw[what, node]
        if needed == 0:
            if needed_uw and not _is_fed(space, start_ns, end_ns, needed_uw):
                return 0
            return i + 1 - first
    return 0


@_compiled
def _row_of(times, count, time_ns):  # type: ignore[no-untyped-def]
    """Return the row that begins at a time, and the number of rows: increased if it is new."""
    row = np.searchsorted(times[:count], time_ns)
    if row < count and times[row] == time_ns:
        return row, count
    for i in range(count, row, -1):
        times[i] = times[i - 1]
    times[row] = time_ns
    return row, count + 1


@_compiled
def _split(space, node, time_ns):  # type: ignore[no-untyped-def]
    """Return the row of a node that begins at a time, which is created if necessary."""
    count, free = space.counts[node], space.free[node]
    row, space.counts[node] = _row_of(space.times[node], count, time_ns)
    if space.counts[node] > count:
        for i in range(count, row - 1, -1):
            for r in range(free.shape[1]):
                free[i, r] = free[i - 1, r]
    return row


@_compiled
def _split_power(space, time_ns):  # type: ignore[no-untyped-def]
    """Return the row of the power that begins at a time, as in `_split`."""
    count = space.powers[0]
    row, space.powers[0] = _row_of(space.power_times, count, time_ns)
    if space.powers[0] > count:
        for i in range(count, row - 1, -1):
            space.left_uw[i] = space.left_uw[i - 1]
    return row


@_compiled
def _take(given, space, what, tried, on, start_ns, end_ns):  # type: ignore[no-untyped-def]
    """Take the units of a demand on the first ``tried`` nodes."""
    needed_uw = 0
    for i in range(given.tried_from[what], given.tried_from[what] + tried):
        node = given.tried[i]
        if on[node] == 0:
            continue
        needed_uw += on[node] * given.unit_uw[what, node]
        row, until = _split(space, node, start_ns), _split(space, node, end_ns)
        for step in range(row, until):
            for r in range(space.free.shape[2]):
                space.free[node, step, r] -= on[node] * given.amounts[what, r]
    if needed_uw:
        row, until = _split_power(space, start_ns), _split_power(space, end_ns)
        for step in range(row, until):
            space.left_uw[step] -= needed_uw


@_compiled
def _with_room(given, space, what, tried):  # type: ignore[no-untyped-def]
    """Return the space, with spare rows for another job on these nodes."""
    rows = space.times.shape[1]
    for i in range(given.tried_from[what], given.tried_from[what] + tried):
        if space.counts[given.tried[i]] + 2 > rows:
            times = np.zeros((space.times.shape[0], 2 * rows), dtype=np.int64)
            free = np.zeros((space.free.shape[0], 2 * rows, space.free.shape[2]), dtype=np.int64)
            times[:, :rows], free[:, :rows] = space.times, space.free
            return _Space(times, free, space.counts, space.power_times, space.left_uw, space.powers)
    return space


@_compiled
def _pass_time(given, space, at_ns, bound, bounded):  # type: ignore[no-untyped-def]
    """Drop past rows, and count resources that became free for demands that lacked them."""
    for node in range(len(space.counts)):
        times, count, gone = space.times[node], space.counts[node], 0
        while gone + 1 < count and times[gone + 1] <= at_ns:
            gone += 1
        if gone:
            free = space.free[node]
            for row in range(gone, count):
                times[row - gone] = times[row]
                for r in range(free.shape[1]):
                    free[row - gone, r] = free[row, r]
            space.counts[node] = count - gone
            for what in range(len(bound)):
                if bounded[what] and given.able[what, node]:
                    bound[what] += _fits_now(given, space, what, node)
                    bounded[what] = bound[what] < given.units[what]
        times[0] = max(times[0], at_ns)


@_compiled
def _inserted(sorted_times, count, time_ns):  # type: ignore[no-untyped-def]
    """Insert a time into sorted times, and return their new number."""
    return _row_of(sorted_times, count, time_ns)[1]


@_compiled
def _schedule(given, space, now_ns, known_ends, order, choice, depth, nodes_from):  # type: ignore[no-untyped-def]
    """Return `reference.CompiledLists.schedule`: starts, options and the nodes of all units."""
    jobs, demands, nodes = len(order), len(given.units), len(space.counts)
    starts_ns, options = np.full(jobs, NEVER, dtype=np.int64), np.zeros(jobs, dtype=np.int64)
    placed_on = np.zeros(nodes_from[-1], dtype=np.int64)
    waits, waiting = order.copy(), jobs
    ends = np.zeros(len(known_ends) + jobs, dtype=np.int64)
    ends[: len(known_ends)] = known_ends
    ending, next_end = len(known_ends), 0
    begins, beginning, next_begin = np.zeros(jobs, dtype=np.int64), 0, 0
    failed_ns, failed_stay_ns = np.zeros(demands, dtype=np.int64), np.zeros(demands, dtype=np.int64)
    bound, bounded = np.zeros(demands, dtype=np.int64), np.zeros(demands, dtype=np.bool_)
    hopeless = np.zeros(demands, dtype=np.bool_)
    # Jobs keep their places: a demand of equal or longer duration starts no earlier than before.
    known_ns, known_stay_ns = np.full(demands, ENDLESS_NS), np.full(demands, ENDLESS_NS)
    soonest_ns = np.zeros(demands, dtype=np.int64)
    on, ready_ns, row_at = (
        np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64),
        np.zeros(nodes, dtype=np.int64),
    )  # fmt: skip
    at_ns = now_ns
    while True:
        _pass_time(given, space, at_ns, bound, bounded)
        failed_ns[:] = ENDLESS_NS
        failed_stay_ns[:] = ENDLESS_NS
        left = 0
        for turn in range(waiting):
            job = waits[turn]
            first, last = given.option_from[job], given.option_from[job + 1]
            if choice[job] != FLEXIBLE:
                first += choice[job]
                last = first + 1
            best, best_ns, tried = -1, ENDLESS_NS, 0
            for option in range(first, last):
                what, lasts_ns = given.demand[option], given.duration_ns[option]
                stays_ns = given.stay_ns[option]
                if bounded[what] or (
                    lasts_ns >= failed_ns[what] and stays_ns >= failed_stay_ns[what]
                ):
                    continue
                bound[what] = _fit_now(given, space, what)
                bounded[what] = bound[what] < given.units[what]
                if bounded[what]:
                    continue
                ready_ns[:] = 0
                row_at[:] = 0
                tried = _placed(given, space, option, at_ns, ready_ns, row_at, on)
                if tried:
                    best, best_ns = option, at_ns
                    break
                if lasts_ns < failed_ns[what]:
                    failed_ns[what], failed_stay_ns[what] = lasts_ns, stays_ns
            if best < 0 and beginning - next_begin < depth:
                for option in range(first, last):
                    what, lasts_ns = given.demand[option], given.duration_ns[option]
                    stays_ns = given.stay_ns[option]
                    if hopeless[what]:
                        continue
                    ready_ns[:] = 0
                    row_at[:] = 0
                    e = next_end
                    if lasts_ns >= known_ns[what] and stays_ns >= known_stay_ns[what]:
                        e += np.searchsorted(ends[next_end:ending], soonest_ns[what])
                    while e < ending and ends[e] < best_ns:
                        if _placed(given, space, option, ends[e], ready_ns, row_at, on):
                            best, best_ns = option, ends[e]
                            break
                        e += 1
                    if e < ending:
                        known_ns[what], known_stay_ns[what] = lasts_ns, stays_ns
                        soonest_ns[what] = ends[e]
                    # It does not fit even when all jobs have ended.
                    if e == ending and len(given.closed) == 0:
                        hopeless[what] = True
                if best >= 0:
                    ready_ns[:] = 0
                    row_at[:] = 0
                    tried = _placed(given, space, best, best_ns, ready_ns, row_at, on)
            if best < 0:
                waits[left] = job
                left += 1
                continue
            what, end_ns = given.demand[best], best_ns + given.duration_ns[best]
            space = _with_room(given, space, what, tried)
            _take(given, space, what, tried, on, best_ns, end_ns)
            at = nodes_from[job]
            for i in range(given.tried_from[what], given.tried_from[what] + tried):
                for _ in range(on[given.tried[i]]):
                    placed_on[at] = given.tried[i]
                    at += 1
            placed_on[nodes_from[job] : at].sort()
            ending = _inserted(ends, ending, end_ns)
            if best_ns > at_ns:
                begins[beginning] = best_ns
                beginning += 1
                begins[next_begin:beginning].sort()
            starts_ns[job], options[job] = best_ns, best
        waiting = left
        then_ns = ENDLESS_NS
        if next_end < ending:
            then_ns = ends[next_end]
        if next_begin < beginning:
            then_ns = min(then_ns, begins[next_begin])
        if waiting == 0 or then_ns == ENDLESS_NS:
            return starts_ns, options, placed_on
        at_ns = then_ns
        while next_end < ending and ends[next_end] <= at_ns:
            next_end += 1
        while next_begin < beginning and begins[next_begin] <= at_ns:
            next_begin += 1
