"""What is expected to be free over time: cores, memory and GPUs of every node, and the power.

A table with a row for each time at which anything changes and a column for each node. It counts;
which cores and GPUs of a node a job gets is decided when it starts. A place that was found is one
of named nodes, so it is still there when its time has come, whatever is kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.core.plan import NodeView
from wattfold.coordinator.core.reservation import ENDLESS_NS, Closed
from wattfold.coordinator.policies.node_selection.choice import Chooser
from wattfold.coordinator.policies.promises import Hold, Request, Space

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BLOCK = 64
"""So many times are looked at together."""
TRIES = 6
"""After so many times that would do but not for long enough, all that are left are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed(Request):
    """Room on ``count`` nodes: ``cores`` of each (0 = whole nodes), and nobody else if ``alone``.

    ``power_uw`` is what it would draw on each of all nodes, ``able`` (None: all) which of them have
    what it asks for, ``closed`` when it may not begin on which.
    """

    count: int
    cores: int
    alone: bool
    power_uw: Ints
    able: Bools | None = None
    memory_bytes: int = 0
    gpus: int = 0
    closed: Sequence[Closed] = ()
    until_ns: int = ENDLESS_NS
    """Beyond that nothing is kept for it: its reservation is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesHold(Hold):
    """What is kept of nodes, each by its column: numbers of each, or one number for all."""

    columns: Ints
    cores: Ints | int
    power_uw: int
    memory_bytes: Ints | int = 0
    gpus: Ints | int = 0


class Timeline(Space[Placed, NodesHold]):
    """All nodes from now on. ``times`` are those at which something is known to change.

    Without ``amounts`` no job is taken to ask for memory or GPUs.
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
        self._whole = np.array([len(node.spec.cpus) for node in nodes], dtype=np.int64)
        self._chooser = Chooser(nodes)
        self._cores = self._spread([len(node.spec.cpus - node.blocked) for node in nodes])
        self._power = self._spread([power_uw])
        asked = nodes if amounts else ()
        self._bytes = self._spread([n.spec.memory_bytes - n.blocked_bytes for n in asked])
        self._gpus = self._spread([len({*n.spec.gpus} - {*n.blocked_gpus}) for n in asked])

    def at(self, one: Placed, start_ns: int, end_ns: int) -> NodesHold | None:
        """A place from a start up to an end: on the nodes promised, or else on others."""
        end_ns = min(end_ns, one.until_ns)
        if end_ns <= start_ns:
            return None
        first, last = self._row(start_ns), int(self._known().searchsorted(end_ns))
        least = self._cores[first:last].min(axis=0)
        fits: Bools = least >= self._needed(one)
        fits &= self._open(one, start_ns)
        if one.memory_bytes:
            fits &= self._bytes[first:last].min(axis=0) >= one.memory_bytes
        if one.gpus:
            fits &= self._gpus[first:last].min(axis=0) >= one.gpus
        fed_uw = int(self._power[first:last].min())
        chosen = self._chosen(one, fits, least, fed_uw, start_ns)
        if chosen is None:
            return None
        return NodesHold(
            start_ns=start_ns,
            end_ns=end_ns,
            promised_ns=start_ns,
            columns=chosen,
            cores=self._whole[chosen] if one.alone else one.cores,
            power_uw=int(one.power_uw[chosen].sum()),
            memory_bytes=one.memory_bytes,
            gpus=one.gpus,
        )

    def earliest(
        self, one: Placed, takes_ns: int, from_ns: int, before_ns: int | None
    ) -> NodesHold | None:
        """The first place for so long from a time on, and before another one (None = ever)."""
        first = self._row(from_ns)
        last = self._rows
        if before_ns is not None:
            last = min(int(self._known().searchsorted(before_ns)), last)
        tries = 0
        for block in range(first, last, BLOCK):
            until = min(block + BLOCK, last)
            for row in np.flatnonzero(self._would_do(one, block, until)):
                start_ns = max(int(self._times[block + row]), from_ns)
                hold = self.at(one, start_ns, start_ns + takes_ns)
                if hold is not None:
                    return hold
                tries += 1
                if tries > TRIES:
                    return self._swept(one, takes_ns, block + int(row) + 1, last)
        return None

    def moments(self, from_ns: int, until_ns: int) -> Iterable[int]:
        """When anything changes."""
        known = self._known()
        between = known[
            known.searchsorted(from_ns, "right") : known.searchsorted(until_ns, "right")
        ]
        return [int(time_ns) for time_ns in between]

    def take(self, hold: NodesHold) -> None:
        """Keeps a place."""
        self._add(hold, -1)

    def give_back(self, hold: NodesHold) -> None:
        """Undoes `take`."""
        self._add(hold, 1)

    # Looking.

    def _would_do(self, one: Placed, first: int, last: int) -> Bools:
        """In which rows there is room for it, were it only long enough."""
        enough = self._fits(one, first, last).sum(axis=1) >= one.count
        enough &= self._power[first:last, 0] >= self._least_uw(one)
        return np.asarray(enough, dtype=np.bool_)

    def _fits(self, one: Placed, first: int, last: int) -> Bools:
        fits: Bools = self._cores[first:last] >= self._needed(one)
        if one.able is not None:
            fits &= one.able
        if one.memory_bytes:
            fits &= self._bytes[first:last] >= one.memory_bytes
        if one.gpus:
            fits &= self._gpus[first:last] >= one.gpus
        return fits

    def _needed(self, one: Placed) -> Ints | int:
        """Cores that must be free of a node, or of each node."""
        return np.maximum(self._whole, one.cores) if one.alone else one.cores

    def _swept(self, one: Placed, takes_ns: int, first: int, last: int) -> NodesHold | None:
        """`earliest` among these rows, all of them at once."""
        rows = self._rows - first
        if first >= last:
            return None
        times = np.append(self._times[first : self._rows], ENDLESS_NS)
        numbers = np.arange(rows)[:, None]
        ends = _first_after(np.where(self._fits(one, first, self._rows), rows, numbers))
        until = np.minimum(times[:-1] + takes_ns, one.until_ns)
        long_enough = times[ends] >= until[:, None]
        fed = (self._power[first : self._rows, 0] >= self._least_uw(one))[:, None]
        fed_until = _first_after(np.where(fed, rows, numbers))
        good = long_enough.sum(axis=1) >= one.count
        good &= times[fed_until[:, 0]] >= until
        for row in np.flatnonzero(good[: last - first]):
            start_ns = int(times[row])
            hold = self.at(one, start_ns, start_ns + takes_ns)
            if hold is not None:
                return hold
        return None

    def _least_uw(self, one: Placed) -> int:
        """No place draws less."""
        return int(one.power_uw.min()) * one.count

    def _open(self, one: Placed, start_ns: int) -> Bools:
        """The nodes it may begin on then."""
        able = np.ones(len(self.names), np.bool_) if one.able is None else one.able.copy()
        for span in one.closed:
            if span.from_ns <= start_ns < span.to_ns:
                able[[self.columns[name] for name in span.nodes if name in self.columns]] = False
        return able

    def _chosen(
        self, one: Placed, fits: Bools, least: Ints, fed_uw: int, start_ns: int
    ) -> Ints | None:
        if one.promise is not None and one.promise.nodes:
            own = [self.columns.get(name, -1) for name in one.promise.nodes]
            there = min(own) >= 0 and len(own) == one.count and fits[own].all()
            if there and one.power_uw[own].sum() <= fed_uw:
                return np.array(own)
        found = np.flatnonzero(fits)
        if len(found) < one.count:
            return None
        if one.cores:
            found = found[one.power_uw[found] <= fed_uw]
            best = found[np.argmin(least[found])] if len(found) else None
            return None if best is None else np.array([best])
        chosen = found[: one.count]
        if start_ns == self.now_ns:
            names = self._chooser.choose([self.names[column] for column in found], one.count)
            chosen = np.array([self.columns[name] for name in names])
        if one.power_uw[chosen].sum() > fed_uw:
            chosen = found[np.argsort(one.power_uw[found], kind="stable")[: one.count]]
        return chosen if one.power_uw[chosen].sum() <= fed_uw else None

    # Changing.

    def _add(self, hold: NodesHold, sign: int) -> None:
        if hold.end_ns <= hold.start_ns:
            return
        first, last = self._split(hold.start_ns), self._split(hold.end_ns)
        self._power[first:last] += sign * hold.power_uw
        where = slice(first, last), hold.columns
        self._cores[where] += sign * hold.cores
        if self._bytes.size:
            self._bytes[where] += sign * hold.memory_bytes
            self._gpus[where] += sign * hold.gpus

    def _split(self, time_ns: int) -> int:
        """The row that begins at a time."""
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
        """The row of a time."""
        return max(int(self._known().searchsorted(time_ns, "right")) - 1, 0)

    def _spread(self, amounts: Sequence[int]) -> Ints:
        return np.tile(np.array(amounts, dtype=np.int64), (self._rows, 1))


def _first_after(marked: Ints) -> Ints:
    """Of every row and column the least of it and all rows after it."""
    return np.minimum.accumulate(marked[::-1], axis=0)[::-1]
