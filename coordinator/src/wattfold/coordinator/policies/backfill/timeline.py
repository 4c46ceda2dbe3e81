"""Expected free resources over time: cores, memory and GPUs of every node, and power.

The timeline is a table with a row for each time of a change and a column for each node. It counts
resources; the cores and GPUs of a job are chosen when it starts. A place consists of named nodes,
so it remains available at its time, whatever else is reserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.model.reservation import ENDLESS_NS, Closed
from wattfold.coordinator.policies.backfill.promises import Hold, Space, TimedRequest
from wattfold.coordinator.policies.placement.choice import Chooser
from wattfold.coordinator.policies.placement.unit_places import Chosen, Fit, chosen, in_turn

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
BLOCK = 64
"""Number of times that are examined together."""
TRIES = 6
"""Number of suitable but too short times after which all remaining times are examined at once."""


def _no_units(column: int, units: int) -> int:
    raise AssertionError(f"{units} units on node {column} of a job that has none")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """Resources of a job: ``cores`` on each of ``count`` nodes (0 = whole nodes).

    ``alone``: no other job may use these nodes. ``power_uw`` is its power on each of all nodes,
    ``least_uw`` a lower bound for any choice, in microwatts. ``able`` marks the nodes that satisfy
    its request (None: all), and ``closed`` lists when it must not begin on which nodes.
    """

    count: int
    cores: int
    alone: bool
    power_uw: Ints
    least_uw: int
    able: Bools | None = None
    memory_bytes: int = 0
    gpus: int = 0
    closed: Sequence[Closed] = ()
    until_ns: int = ENDLESS_NS
    """End of its reservation, after which nothing is held for it."""
    units: int = 0
    """Number of units, which replaces ``count`` nodes; ``spread`` limits their placement.

    Cores, memory and GPUs then apply to each unit, and so does ``power_uw``. ``takes_uw`` returns
    the power of several units on a node.
    """
    spread: Spread = Spread.ANY
    takes_uw: Callable[[int, int], int] = _no_units
    """Function of a column and a number of units: their power on that node, in microwatts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesHold(Hold):
    """Resources reserved on nodes, given by column; each as an array or one number for all."""

    columns: Ints
    cores: Ints | int
    power_uw: int
    memory_bytes: Ints | int = 0
    gpus: Ints | int = 0
    units: Ints | None = None
    """Number of units of a job on each node."""

    def names(self, nodes: Sequence[NodeId]) -> tuple[NodeId, ...]:
        """Return the nodes, as named in a planned start."""
        columns = self.columns if self.units is None else np.repeat(self.columns, self.units)
        return tuple(nodes[column] for column in columns)


class Timeline(Space[Need, NodesHold]):
    """All nodes from now on. ``times`` are the known times of changes.

    Without ``amounts`` no job may request memory or GPUs.
    """

    def __init__(
        self,
        nodes: Sequence[NodeView],
        power_uw: int,
        now_ns: int,
        times: Iterable[int],
        *,
        amounts: bool,
    ) -> None:
        self.now_ns = now_ns
        self.names = [node.spec.node_id for node in nodes]
        self.columns = {name: column for column, name in enumerate(self.names)}
        known = np.unique(np.array([now_ns, *times], dtype=np.int64))
        self._times: Ints = known[known >= now_ns]
        self._rows = len(self._times)
        self._whole = np.array([len(node.spec.cpus) for node in nodes], dtype=np.int16)
        self._chooser = Chooser(nodes)
        free = [len(node.spec.cpus - node.blocked) for node in nodes]
        self._cores: Ints = self._spread(free).astype(np.int16)
        self._power = self._spread([power_uw])
        asked = nodes if amounts else ()
        self._bytes = self._spread([n.spec.memory_bytes - n.blocked_bytes for n in asked])
        gpus = [len({*n.spec.gpus} - {*n.blocked_gpus}) for n in asked]
        self._gpus: Ints = self._spread(gpus).astype(np.int16)

    def at(self, request: TimedRequest[Need], start_ns: int, end_ns: int) -> NodesHold | None:
        """Return a place from a start to an end: on the promised nodes, or else on other nodes."""
        need = request.need
        end_ns = min(end_ns, need.until_ns)
        if end_ns <= start_ns:
            return None
        first, last = self._row(start_ns), int(self._known().searchsorted(end_ns))
        fed_uw = int(self._power[first:last].min())
        if fed_uw < need.least_uw:
            return None
        if need.units:
            return self._units_at(request, start_ns, end_ns, fed_uw)
        least = self._cores[first:last].min(axis=0)
        fits: Bools = least >= self._needed(need)
        if need.able is not None:
            fits &= need.able
        if need.memory_bytes:
            fits &= self._bytes[first:last].min(axis=0) >= need.memory_bytes
        if need.gpus:
            fits &= self._gpus[first:last].min(axis=0) >= need.gpus
        fits[self._closed(need, start_ns)] = False
        where = self._chosen(request, fits, least, fed_uw, start_ns)
        if where is None:
            return None
        return NodesHold(
            start_ns=start_ns,
            end_ns=end_ns,
            promised_ns=start_ns,
            columns=where,
            cores=self._whole[where] if need.alone else need.cores,
            power_uw=int(need.power_uw[where].sum()),
            memory_bytes=need.memory_bytes,
            gpus=need.gpus,
        )

    def earliest(
        self, request: TimedRequest[Need], takes_ns: int, from_ns: int, before_ns: int | None
    ) -> NodesHold | None:
        """Return the earliest place for ``takes_ns`` within a range of starts (None = no end)."""
        first = self._row(from_ns)
        last = self._rows
        if before_ns is not None:
            last = min(int(self._known().searchsorted(before_ns)), last)
        tries = 0
        for block in range(first, last, BLOCK):
            until = min(block + BLOCK, last)
            for row in np.flatnonzero(self._would_do(request.need, block, until)):
                start_ns = max(int(self._times[block + row]), from_ns)
                hold = self.at(request, start_ns, start_ns + takes_ns)
                if hold is not None:
                    return hold
                tries += 1
                if tries > TRIES and not request.need.units:
                    return self._swept(request, takes_ns, block + int(row) + 1, last)
        return None

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """Return the times of changes after one time and up to another."""
        known = self._known()
        after, last = known.searchsorted(from_ns, "right"), known.searchsorted(until_ns, "right")
        return [int(time_ns) for time_ns in known[after:last]]

    def take(self, hold: NodesHold) -> None:
        """Reserve a place."""
        self._add(hold, -1)

    def give_back(self, hold: NodesHold) -> None:
        """Undo `take`."""
        self._add(hold, 1)

    # Searching.

    def _closed(self, need: Need, start_ns: int) -> list[int]:
        """Return the nodes on which it must not begin at a time."""
        spans = [span for span in need.closed if span.from_ns <= start_ns < span.to_ns]
        return [self.columns[n] for span in spans for n in span.nodes if n in self.columns]

    def _would_do(self, need: Need, first: int, last: int) -> Bools:
        """Return the rows with enough free resources, regardless of how long they stay free."""
        if need.units:
            rows = slice(first, last)
            held = self._units(need, self._cores[rows], self._bytes[rows], self._gpus[rows])
            together = need.spread is Spread.TOGETHER
            most = held.max(axis=1) if together else held.sum(axis=1)
            return np.asarray((most >= need.units) & (self._power[first:last, 0] >= need.least_uw))
        enough: Bools = np.count_nonzero(self._fits(need, first, last), axis=1) >= need.count
        enough &= self._power[first:last, 0] >= need.least_uw
        return enough

    def _fits(self, need: Need, first: int, last: int) -> Bools:
        fits: Bools = self._cores[first:last] >= self._needed(need)
        if need.able is not None:
            fits &= need.able
        if need.memory_bytes:
            fits &= self._bytes[first:last] >= need.memory_bytes
        if need.gpus:
            fits &= self._gpus[first:last] >= need.gpus
        return fits

    def _needed(self, need: Need) -> Ints | np.int16:
        """Return the number of cores that must be free on a node, or on each node."""
        return np.maximum(self._whole, need.cores) if need.alone else np.int16(need.cores)

    def _swept(
        self, request: TimedRequest[Need], takes_ns: int, first: int, last: int
    ) -> NodesHold | None:
        """Return `earliest` among these rows, examining all of them at once."""
        if first >= last:
            return None
        times, need = self._known(), request.need
        starts = times[first:last]
        # Row up to which a job must fit, for each starting row.
        until = times.searchsorted(np.minimum(starts + takes_ns, need.until_ns)) - first
        rows = max(int(until[-1]), last - first)
        fits = self._fits(need, first, first + rows)
        fits &= self._power[first : first + rows] >= need.least_uw
        good = _first_not(fits)[: last - first] >= until[:, None]
        for row in np.flatnonzero(np.count_nonzero(good, axis=1) >= need.count):
            start_ns = int(starts[row])
            hold = self.at(request, start_ns, start_ns + takes_ns)
            if hold is not None:
                return hold
        return None

    def _chosen(
        self, request: TimedRequest[Need], fits: Bools, smallest: Ints, fed_uw: int, start_ns: int
    ) -> Ints | None:
        need = request.need
        if request.promise is not None and request.promise.nodes:
            own = [self.columns.get(name, -1) for name in request.promise.nodes]
            there = min(own) >= 0 and len(own) == need.count and fits[own].all()
            if there and need.power_uw[own].sum() <= fed_uw:
                return np.array(own)
        found = np.flatnonzero(fits)
        if len(found) < need.count:
            return None
        if need.cores:
            found = found[need.power_uw[found] <= fed_uw]
            return found[[np.argmin(smallest[found])]] if len(found) else None
        first = found[: need.count]
        if start_ns == self.now_ns:
            names = self._chooser.choose([self.names[column] for column in found], need.count)
            first = np.array([self.columns[name] for name in names])
        if need.power_uw[first].sum() > fed_uw:
            first = found[np.argsort(need.power_uw[found], kind="stable")[: need.count]]
        return first if need.power_uw[first].sum() <= fed_uw else None

    # Units.

    def _units(self, need: Need, cores: Ints, memory_bytes: Ints, gpus: Ints) -> Ints:
        """Return the number of units that fit on each node, for one or several rows."""
        held = cores // need.cores
        if need.memory_bytes:
            held = np.minimum(held, memory_bytes // need.memory_bytes)
        if need.gpus:
            held = np.minimum(held, gpus // need.gpus)
        if need.able is not None:
            held = held * need.able
        if need.alone:
            held = held * (cores >= self._whole)
        return np.clip(held, 0, 1 if need.spread is Spread.APART else None)

    def _units_at(
        self, request: TimedRequest[Need], start_ns: int, end_ns: int, fed_uw: int
    ) -> NodesHold | None:
        """Return `at` for a job of units."""
        need = request.need
        first, last = self._row(start_ns), int(self._known().searchsorted(end_ns))
        rows = slice(first, last)
        least = self._cores[rows].min(axis=0)
        asked = self._bytes[rows], self._gpus[rows]
        # Division by an amount is monotone: the row with the fewest free resources holds the fewest
        # units.
        memory_bytes, gpus = (part.min(axis=0) if part.size else part for part in asked)
        most = self._units(need, least, memory_bytes, gpus)
        most[self._closed(need, start_ns)] = 0
        together = need.spread is Spread.TOGETHER
        if (most.max() if together else most.sum()) < need.units:
            return None
        for places in self._unit_places(request, most, least):
            power_uw = sum(need.takes_uw(column, units) for column, units in places)
            if power_uw > fed_uw:
                continue
            columns, units = (np.array(part) for part in zip(*places, strict=True))
            return NodesHold(
                start_ns=start_ns,
                end_ns=end_ns,
                promised_ns=start_ns,
                columns=columns,
                cores=self._whole[columns] if need.alone else need.cores * units,
                power_uw=power_uw,
                memory_bytes=need.memory_bytes * units,
                gpus=need.gpus * units,
                units=units,
            )
        return None

    def _unit_places(
        self, request: TimedRequest[Need], most: Ints, fewest: Ints
    ) -> Iterator[Chosen]:
        """Yield placements of units: as promised, by `unit_places`, then with the lowest power."""
        need = request.need
        if request.promise is not None and len(request.promise.nodes) == need.units:
            own = Counter(self.columns.get(name, -1) for name in request.promise.nodes)
            if min(own) >= 0 and all(most[column] >= units for column, units in own.items()):
                yield sorted(own.items())
        fits = [Fit(int(most[at]), int(fewest[at]), int(at)) for at in np.flatnonzero(most)]
        found = chosen(need.spread, need.units, fits)
        if found is not None:
            yield found
            thrifty = sorted(fits, key=lambda fit: int(need.power_uw[fit.at]))
            frugal = in_turn(need.spread, need.units, thrifty)
            assert frugal is not None, "there is room for them"
            yield frugal

    # Changes.

    def _add(self, hold: NodesHold, sign: int) -> None:
        if hold.end_ns <= hold.start_ns:
            return
        first, last = self._split(hold.start_ns), self._split(hold.end_ns)
        self._power[first:last] += sign * hold.power_uw
        where = slice(first, last), hold.columns
        self._cores[where] += np.asarray(sign * hold.cores, dtype=np.int16)
        if self._bytes.size:
            self._bytes[where] += sign * hold.memory_bytes
            self._gpus[where] += np.asarray(sign * hold.gpus, dtype=np.int16)

    def _split(self, time_ns: int) -> int:
        """Return the row that begins at a time, inserting it if necessary."""
        row = int(self._known().searchsorted(time_ns))
        if row < self._rows and self._times[row] == time_ns:
            return row
        if row == 0:
            return 0
        if self._rows == len(self._times):
            self._times = np.concatenate((self._times, self._times))
            self._cores, self._power, self._bytes, self._gpus = (
                np.concatenate((table, np.empty_like(table)))
                for table in (self._cores, self._power, self._bytes, self._gpus)
            )
        rows = self._rows
        for table in (self._cores, self._power, self._bytes, self._gpus):
            table[row + 1 : rows + 1] = table[row:rows]
            table[row] = table[row - 1]
        self._times[row + 1 : rows + 1] = self._times[row:rows]
        self._times[row] = time_ns
        self._rows = rows + 1
        return row

    def _known(self) -> Ints:
        return self._times[: self._rows]

    def _row(self, time_ns: int) -> int:
        """Return the row of a time."""
        return max(int(self._known().searchsorted(time_ns, "right")) - 1, 0)

    def _spread(self, amounts: Sequence[int]) -> Ints:
        return np.tile(np.array(amounts, dtype=np.int64), (self._rows, 1))


def _first_not(marked: Bools) -> npt.NDArray[np.int16]:
    """Return, for each row and column, the first unmarked row from there on."""
    rows = len(marked)
    numbers = np.arange(rows, dtype=np.int16)[:, None]
    found = np.where(marked, np.int16(rows), numbers)
    return np.minimum.accumulate(found[::-1], axis=0)[::-1]
