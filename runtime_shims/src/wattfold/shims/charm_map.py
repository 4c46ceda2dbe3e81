"""Moves of the chares of a charm4py program to the PEs of the job's processor map.

    class Block(MappedChare, Chare):
        ...

    def main(args):
        blocks = Array(Block, 64)
        placement = follow_map([blocks], steps)
        for step in range(steps):
            blocks.work(awaitable=True).get()
            placement.update()              # a comparison, unless there is a new map

The agent sends the map over CCS. ``update`` moves the chares; call it when all chares have finished
their work of the step. charm4py has no interface to CCS, so this module calls the library below it.
It assumes elements of equal weight. Processes outside the map are residual: they stay and take part
in reductions. Chares that wait in a coroutine, and members of sections, cannot move in charm4py.
Every call of ``update`` counts as a step and is reported to the agent as progress, if the shim is
in the process. Start such a program with ``python -m wattfold.shims.charm_start --charm4py``.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.contract.processor_map import (
    COST,
    MARKER,
    SET_HANDLER,
    STATE_HANDLER,
    MapError,
    MapOrder,
    MapState,
    parse_order,
    refusal,
)
from wattfold.shims.charm_idle import nap_when_idle
from wattfold.shims.client import NoShim, Shim, connect

_ROUNDS_MAX = 200
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Location of a chare: its array, its index there, its PE and the process of the PE."""

    array: int
    index: Any
    pe: int
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A PE: its process and host, and the number of its node in the job, from 1; 0 = none."""

    pe: int
    pid: int
    host: str
    node: int


class MapKeeper:
    """The map in force, the ordered map, and the replies about them. It does not use Charm++."""

    def __init__(self, pes: int, seats: Sequence[Seat] = ()) -> None:
        self._pes = pes
        self.wanted = MapOrder(id=0, map=b"\1" * pes)
        self._pids, nodes = [0] * pes, [0] * pes
        for seat in seats:
            nodes[seat.pe] = seat.node
            if seat.host == platform.node():
                self._pids[seat.pe] = seat.pid
        self._nodes = tuple(nodes) if any(nodes) else ()
        self._objects = (0,) * pes
        self._in_force = self.wanted
        self._stalled_ns = self._moved_bytes = -1

    @property
    def pending(self) -> bool:
        """Whether a map waits to be applied."""
        return self.wanted.id != self._in_force.id

    def order(self, data: bytes) -> bytes:
        """Accept a received map and return the reply. The last map before a step counts."""
        try:
            self.wanted = parse_order(data, self._pes)
        except MapError as error:
            return refusal(str(error))
        return self.say()

    def answer(self, data: bytes) -> bytes:
        """Return the state; with the cost of the map, if the request asks for it."""
        return self.say(cost=data == COST)

    def say(self, *, cost: bool = False) -> bytes:
        """Return the state."""
        return MapState(
            wanted=self.wanted.id,
            in_force=self._in_force.id,
            map=self._in_force.map,
            objects=self._objects,
            pids=tuple(self._pids),
            nodes=self._nodes,
            stalled_ns=self._stalled_ns,
            moved_bytes=self._moved_bytes,
        ).text(cost=cost)

    def applied(
        self,
        order: MapOrder,
        places: Sequence[Place],
        *,
        stalled_ns: int = -1,
        moved_bytes: int = -1,
    ) -> None:
        """Record a map in force, the places of the objects, and its cost; -1 = unknown."""
        self._stalled_ns, self._moved_bytes = stalled_ns, moved_bytes
        here = platform.node()
        counts = [0] * self._pes
        for place in places:
            counts[place.pe] += 1
            if place.host == here:
                self._pids[place.pe] = place.pid
        self._objects = tuple(counts)
        self._in_force = order


class MappedChare:
    """Base class of movable chares, in addition to ``Chare``."""

    # Defined by Chare.
    thisIndex: Any  # noqa: N815
    thisProxy: Any  # noqa: N815
    migrate: Callable[[int], None]

    def __init_subclass__(cls, **given: Any) -> None:
        """Define the group of stations, which must exist before the program starts."""
        super().__init_subclass__(**given)
        _stations()

    def wattfold_place(self) -> tuple[Any, int, int, str]:
        """Entry method: return its index, its PE, and the process and host of the PE."""
        return self.thisIndex, _charm().myPe(), os.getpid(), platform.node()

    def wattfold_move(self, targets: dict[Any, int]) -> None:
        """Entry method: move to its target, if it has one."""
        target = targets.get(self.thisIndex)
        if target is not None and target != _charm().myPe():
            self.migrate(target)


class Placement:
    """Chares of a program, moved to the PEs of the map. Created by ``follow_map``, on PE 0."""

    def __init__(
        self,
        arrays: Sequence[Any],
        keeper: MapKeeper,
        shim: Shim | None = None,
        steps: float = 0,
        departed: Callable[[], int] = lambda: -1,
    ) -> None:
        """``departed``: bytes of chares that have left any PE so far; -1 = unknown."""
        self._arrays = list(arrays)
        self._keeper = keeper
        self._shim: Shim = shim or NoShim()
        self._steps = steps
        self._done = 0.0
        self._departed = departed
        self._bytes_before = 0

    def update(self, done: float | None = None) -> bool:
        """Move the chares if there is a new map, and wait; return whether there was a map.

        Call it from the main chare, or another coroutine on PE 0. ``done``: number of steps so far,
        if a call is not exactly one step.
        """
        self._done = self._done + 1 if done is None else done
        if self._steps > 0:
            self._shim.progress(min(self._done, self._steps), self._steps)
        if not self._keeper.pending:
            return False
        order, began_ns = self._keeper.wanted, time.perf_counter_ns()
        places = self._places()
        targets = balance([place.pe for place in places], order.map)
        for number, array in enumerate(self._arrays):
            moves = {
                place.index: target
                for place, target in zip(places, targets, strict=True)
                if place.array == number and place.pe != target
            }
            if moves:
                array.wattfold_move(moves)
        found = self._settled(targets)
        stalled_ns = time.perf_counter_ns() - began_ns
        self._keeper.applied(order, found, stalled_ns=stalled_ns, moved_bytes=self._moved())
        return True

    def count(self) -> None:
        """Count the chares again, for instance after some were created or have ended."""
        order = self._keeper.wanted
        if not self._keeper.pending:
            self._keeper.applied(order, self._places())

    def _moved(self) -> int:
        """Return the bytes of chares that have left a PE since the last call; -1 = unknown."""
        total = self._departed()
        moved, self._bytes_before = total - self._bytes_before, max(total, 0)
        return moved if total >= 0 else -1

    def _settled(self, targets: list[int]) -> list[Place]:
        """Return the places of the chares, once all have arrived or cannot move."""
        found: list[Place] = []
        for _ in range(_ROUNDS_MAX):
            # Every question travels behind the moves: this waits for messages, it does not spin.
            found = self._places()
            if [place.pe for place in found] == targets:
                break
        return found

    def _places(self) -> list[Place]:
        return [
            Place(array=number, index=index, pe=pe, pid=pid, host=host)
            for number, array in enumerate(self._arrays)
            for index, pe, pid, host in array.wattfold_place(ret=True).get()
        ]


def follow_map(arrays: Sequence[Any], steps: float = 0) -> Placement:
    """Register the handlers and follow the map with these arrays of ``MappedChare``.

    Call it once, in the main chare (on PE 0). Without a CCS server it has no effect. ``steps``:
    total number of steps; 0 = unknown, so no progress is reported.
    """
    charm = _charm()
    if charm.myPe() != 0:
        raise RuntimeError(f"call follow_map on PE 0; this is PE {charm.myPe()}")
    stations = _Group(_stations())
    seats = stations.attend([array.aid for array in arrays], ret=True).get()
    keeper = MapKeeper(charm.numPes(), [Seat(pe=p, pid=i, host=h, node=n) for p, i, h, n in seats])
    departed = functools.partial(_departed, stations)
    placement = Placement(arrays, keeper, connect(), steps, departed)
    # Before any request can arrive: the agent would believe a state without objects.
    placement.count()
    library = _library()
    _register(library, SET_HANDLER, keeper.order)
    _register(library, STATE_HANDLER, keeper.answer)
    _registered.append(os.memfd_create(MARKER, os.MFD_CLOEXEC))
    return placement


def balance(places: Sequence[int], pe_map: bytes) -> list[int]:
    """Return PEs for objects of equal weight: evenly on the map's PEs, with the fewest moves.

    ``places`` has the PE of every object. If the number is not divisible, PEs with the most objects
    keep one more, then PEs with lower numbers.
    """
    enabled = [pe for pe, use in enumerate(pe_map) if use]
    have = dict.fromkeys(enabled, 0)
    for pe in places:
        if pe in have:
            have[pe] += 1
    share, odd = divmod(len(places), len(enabled))
    ranked = sorted(enabled, key=lambda pe: (-have[pe], pe))
    room = {pe: share + (at < odd) for at, pe in enumerate(ranked)}
    targets: list[int] = []
    moving: list[int] = []
    for index, pe in enumerate(places):
        stays = room.get(pe, 0) > 0
        targets.append(pe)
        if stays:
            room[pe] -= 1
        else:
            moving.append(index)
    free = [pe for pe in enabled for _ in range(room[pe])]
    for index, pe in zip(moving, free, strict=True):
        targets[index] = pe
    return targets


@functools.cache
def _stations() -> Any:
    """Return the class of a group with one chare per PE; Charm++ must know it before it starts."""
    from charm4py import Chare, register

    class Station(Chare):
        def attend(self, arrays: list[Any]) -> tuple[int, int, str, int]:
            _sleep_without_chares(arrays)
            self.departures = Departures()
            self.departures.watch(_charm())
            return _charm().myPe(), os.getpid(), platform.node(), node_of_job(os.environ)

        def departed(self) -> int:
            return self.departures.total

    return register(Station)


class Departures:
    """Bytes of chares that have left this PE; ``total`` -1 if unknown."""

    def __init__(self) -> None:
        self.total = -1

    def watch(self, charm: Any) -> None:
        """Count all data that the runtime packs from now on."""
        pack = getattr(charm, "arrayElemLeave", None)
        if pack is None:
            return
        self.total = 0

        def counted(array: Any, index: Any) -> bytes:
            data: bytes = pack(array, index)
            self.total += len(data)
            return data

        charm.arrayElemLeave = counted


def _departed(stations: Any) -> int:
    totals = stations.departed(ret=True).get()
    return sum(totals) if min(totals) >= 0 else -1


def _Group(kind: Any) -> Any:  # noqa: N802 - the name of what it makes
    from charm4py import Group

    return Group(kind)


def node_of_job(environment: Mapping[str, str]) -> int:
    """Return the number of this process's node in a job on several nodes, from 1; else 0."""
    told = [environment.get(name, "") for name in ("WATTFOLD_RANKS", "WATTFOLD_RANK")]
    if not all(text.isascii() and text.isdecimal() for text in told):
        return 0
    ranks, rank = map(int, told)
    return rank + 1 if ranks > 1 else 0


def _sleep_without_chares(arrays: Sequence[Any]) -> None:
    """Let this PE sleep while it has no chare of these arrays."""
    charm, here = _charm(), _charm().arrays
    nap_when_idle(
        _library(),
        lambda: not any(here.get(array) for array in arrays),
        lambda: bool(charm.sched_callables),
    )


_registered: list[object] = []
"""Charm++ keeps no reference to its callbacks. The marker file must stay open too."""


def _register(library: ctypes.CDLL, name: str, answer: Callable[[bytes], bytes]) -> None:
    def called(_user: int, size: int, data: int) -> None:
        reply = answer(ctypes.string_at(data, size) if data and size > 0 else b"")
        library.CcsSendReply(len(reply), reply)

    handler = _HANDLER(called)
    _registered.append(handler)
    library.CcsRegisterHandlerFn(name.encode(), handler, None)


def _library() -> ctypes.CDLL:
    """Return the libcharm of charm4py, which is already loaded in this process."""
    import charm4py

    library = ctypes.CDLL(str(Path(charm4py.__file__).parent / ".libs" / "libcharm.so"))
    library.CcsRegisterHandlerFn.argtypes = [ctypes.c_char_p, _HANDLER, ctypes.c_void_p]
    library.CcsRegisterHandlerFn.restype = None
    library.CcsSendReply.argtypes = [ctypes.c_int, ctypes.c_char_p]
    library.CcsSendReply.restype = None
    return library


def _charm() -> Any:
    # Imported late: charm4py complains at the exit of a program that did not start it.
    from charm4py import charm

    return charm
