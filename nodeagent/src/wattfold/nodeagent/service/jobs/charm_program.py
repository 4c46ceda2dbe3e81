"""A Charm++ program of a job, controlled through its CCS server.

There are two ways to accept maps. The answers of the program distinguish them:

- *map*: it answers ``getmap_wattfold`` (Wattfold's load balancer in C++, or its module for
  charm4py). It keeps all its processes, and those outside the map are residual.
- *restart*: it was built with ``--enable-shrinkexpand`` and has ``set_bitmap``. It restarts with as
  many PEs as the map has and renumbers them, so only maps without gaps are possible. A program that
  has not registered its handlers yet looks the same.

A program that receives an unknown request writes a line into the output of its user. So a program
that has just begun receives no request until it reports that it accepts maps, or until
``PATIENCE_NS`` have passed. If it does not know maps, the request for its map is sent only once.

This module decides nothing: its callers decide whether a map holds, and when to retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wattfold.contract.ccs_protocol import set_bitmap_data
from wattfold.contract.processor_map import (
    COST,
    PORT_VARIABLE,
    SET_HANDLER,
    STATE_HANDLER,
    MapOrder,
    parse_state,
)
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.adapters.shims.ccs import CcsClient, CcsError
from wattfold.nodeagent.adapters.shims.ccs_endpoint import (
    CcsStatementError,
    CharmProcess,
    charm_processes,
    find_endpoint,
    follows_maps,
)

_KEPT_NS = 5 * NS_PER_S
"""A port is used for this time before its owner is checked again."""


PATIENCE_NS = 20 * NS_PER_S
SPREAD_PATIENCE_NS = 60 * NS_PER_S
"""The same for a program over several nodes, which begins more slowly and cannot restart at a size.
"""


class MapWay(enum.Enum):
    """How a program accepts maps."""

    MAP = "map"
    RESTART = "restart"


class NotUpError(Exception):
    """The program has no CCS server (yet), or it does not answer. The text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """State of a program. ``pes``: of every process. Way *restart* has only these.

    ``wanted`` and ``in_force`` are the IDs of maps; ``map`` is the map in force.
    """

    way: MapWay
    pes: tuple[int, ...]
    map: bytes
    wanted: int = 0
    in_force: int = 0
    objects: tuple[int, ...] | None = None
    pids: tuple[int, ...] | None = None
    nodes: tuple[int, ...] = ()
    """Node of every PE of a program over several nodes, from 1; 0 = unknown."""
    stalled_ns: int = -1
    """Time without work that the map in force has cost, as reported; -1 = not reported."""
    moved_bytes: int = -1
    """Bytes of objects that moved for the map in force; -1 = not reported."""

    @property
    def strays(self) -> int:
        """Number of objects outside the map in force."""
        pairs = zip(self.map, self.objects or (), strict=False)
        return sum(objects for enabled, objects in pairs if not enabled)

    def holds(self, pe_map: bytes) -> bool:
        """Whether this map is in force, none is pending, and no object is outside it."""
        if self.way is MapWay.RESTART:
            return any(pe_map) and not any(pe_map[sum(self.map) :]) and sum(pe_map) == sum(self.map)
        return self.map == pe_map and self.wanted == self.in_force and not self.strays


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """One PE. ``objects`` and ``process`` are None if they are unknown."""

    pe: int
    enabled: bool
    objects: int | None
    process: CharmProcess | None


class CharmProgram:
    """The program of a job whose processes ``members`` returns. The caller sets deadlines."""

    def __init__(self, members: Callable[[], Sequence[int]], patience_ns: int = 0) -> None:
        self._members = members
        self._patience_ns = patience_ns
        self._client: CcsClient | None = None
        self._found_ns = 0
        self._first_ns: int | None = None
        self._knows_maps: bool | None = None
        self._resizing: asyncio.Task[bytes] | None = None

    def ready(self) -> bool:
        """Whether the program accepts requests."""
        try:
            self._connect()
        except CcsStatementError:
            return False
        return True

    async def look(self) -> Seen:
        """Query the state. Raises NotUpError, MapError."""
        with self._reached() as client:
            pes = await client.pes()
            ask = self._knows_maps is not False
            reply = await client.request(STATE_HANDLER, COST) if ask else b""
            self._knows_maps = bool(reply)
        if not reply:
            return Seen(way=MapWay.RESTART, pes=pes, map=b"\1" * sum(pes))
        state = parse_state(reply)
        return Seen(
            way=MapWay.MAP,
            pes=pes,
            map=state.map,
            wanted=state.wanted,
            in_force=state.in_force,
            objects=state.objects,
            pids=state.pids,
            nodes=state.nodes,
            stalled_ns=state.stalled_ns,
            moved_bytes=state.moved_bytes,
        )

    async def order(self, order: MapOrder) -> None:
        """Send a map. Raises NotUpError, MapError (MapRefusedError with the program's text)."""
        with self._reached() as client:
            parse_state(await client.request(SET_HANDLER, order.text()))

    def resize(self, current: int, wanted: int) -> None:
        """Request another number of PEs from a program of way *restart*, without an answer.

        The reply comes after the restart, or never, so only the number of PEs counts.
        """
        if self._client is None:
            return
        self.close()
        data = set_bitmap_data(current, wanted)
        self._resizing = asyncio.create_task(self._client.request("set_bitmap", data))
        self._resizing.add_done_callback(_ignore_result)

    def close(self) -> None:
        """Stop waiting for the reply to a change of size."""
        if self._resizing is not None:
            self._resizing.cancel()
            self._resizing = None

    def processors(self, seen: Seen) -> tuple[tuple[Processor, ...], int]:
        """Return its PEs with their processes, and the number of leftover processes."""
        processes = charm_processes(self._members())
        # The PIDs reported by a program count only if they are processes of the job.
        by_pid = {process.pid: process for process in processes}
        found = tuple(
            Processor(
                pe=pe,
                enabled=bool(enabled),
                objects=None if seen.objects is None else seen.objects[pe],
                process=None if seen.pids is None else by_pid.get(seen.pids[pe]),
            )
            for pe, enabled in enumerate(seen.map)
        )
        # Leftover processes sleep or spin and look like the others; only their number is certain.
        surplus = len(processes) - len(seen.pes) if seen.way is MapWay.RESTART else 0
        return found, max(0, surplus)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[CcsClient]:
        try:
            yield self._connect()
        except (CcsError, CcsStatementError) as error:
            self._client = self._knows_maps = None
            raise NotUpError(str(error)) from None
        except BaseException:
            # Cut short by a deadline: the session of a signed connection may be out of step.
            self._client = None
            raise

    def _connect(self) -> CcsClient:
        now_ns = time.monotonic_ns()
        if self._client is None or now_ns - self._found_ns > _KEPT_NS:
            endpoint = find_endpoint(self._members())
            if endpoint is None:
                raise CcsStatementError(
                    f"no process of the job has {PORT_VARIABLE}: start the program with"
                    " python -m wattfold.shims.charm_start"
                )
            self._first_ns = self._first_ns or now_ns
            if not self._knows_maps and follows_maps(self._members()):
                self._knows_maps = True
            if not self._knows_maps and now_ns - self._first_ns < self._patience_ns:
                raise CcsStatementError("the program does not accept maps yet")
            self._client = CcsClient(endpoint.port, key=endpoint.key)
            self._found_ns = now_ns
        return self._client


def _ignore_result(task: asyncio.Task[bytes]) -> None:
    if not task.cancelled():
        task.exception()
