"""Sets the processor map of a Charm++ job and answers with what was verified.

Two ways, chosen by what the program offers:

- *map*: it answers ``getmap_wattfold`` (our load balancer in C++, or our module for charm4py). It
  keeps all its processes; those outside the map are residual.
- *restart*: it was built with ``--enable-shrinkexpand`` and has ``set_bitmap``. It restarts with as
  many PEs as the map has, numbered anew, so only maps without gaps mean something.

A program answers a handler it does not have as it answers a successful ``set_bitmap``. So no reply
counts as done: a map is in force when a later request says so. Older programs whose ``set_bitmap``
cannot be verified are left alone (their map reads back unchanged).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from wattfold.contract.ccs_protocol import set_bitmap_data
from wattfold.contract.processor_map import (
    ID_MAX,
    PORT_VARIABLE,
    SET_HANDLER,
    STATE_HANDLER,
    MapError,
    MapOrder,
    MapRefusedError,
    MapState,
    check_map,
    digits,
    parse_state,
)
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.ccs import CcsClient, CcsError
from wattfold.nodeagent.adapters.ccs_endpoint import (
    CcsStatementError,
    CharmProcess,
    charm_processes,
    find_endpoint,
)
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState

MAP_DEADLINE_NS_DEFAULT = 10 * NS_PER_S
"""A map is applied at the next load-balancing step or iteration: longer than for a mask."""
MAP_DEADLINE_NS_MAX = 60 * NS_PER_S
_ANSWER_S_MIN = 0.25
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.005, 0.1


class MapWay(enum.Enum):
    """How a program takes maps."""

    MAP = "map"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """One PE. ``objects`` and ``process`` are None where they are not known."""

    pe: int
    enabled: bool
    objects: int | None
    process: CharmProcess | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutcome:
    """What holds now. ``applied``: the map asked for, verified, and no object outside of it."""

    way: MapWay
    map: bytes
    applied: bool
    applied_in_ns: int
    processors: tuple[Processor, ...]
    surplus: int
    """Processes on this node beyond those of the program: left over by restarts."""


async def set_processor_map(
    job: str, members: Callable[[], Sequence[int]], pe_map: bytes, deadline_ns: int
) -> MapOutcome:
    """Has a job use these PEs only; returns at the latest at the deadline. Raises Refused."""
    if deadline_ns > MAP_DEADLINE_NS_MAX:
        raise InvalidRequest(f"deadline {deadline_ns} ns is above {MAP_DEADLINE_NS_MAX} ns")
    started_ns = time.monotonic_ns()
    wait_s = (deadline_ns or MAP_DEADLINE_NS_DEFAULT) / NS_PER_S
    end_s = asyncio.get_running_loop().time() + wait_s
    with _as_refusal(job):
        check_map(pe_map)
        async with asyncio.timeout_at(end_s):
            client = _connect(members())
            pes = await client.pes()
            state = await _state(client)
        if state is None:
            now = await _restart(client, pes, pe_map, end_s)
        else:
            now = await _remap(client, pes, state, pe_map, end_s)
    took_ns = time.monotonic_ns() - started_ns
    outcome = _outcome(now, charm_processes(members()), took_ns)
    _log(job, pe_map, outcome)
    return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """What the program said last. ``pes``: of every process."""

    way: MapWay
    pes: tuple[int, ...]
    map: bytes
    objects: tuple[int, ...] | None
    pids: tuple[int, ...] | None
    applied: bool


@contextlib.contextmanager
def _as_refusal(job: str) -> Iterator[None]:
    """What goes wrong in or with the program is no fault of the node."""
    try:
        yield
    except MapRefusedError as error:
        raise WrongState(f"job {job} does not take the map: {error}") from None
    except MapError as error:
        raise InvalidRequest(f"job {job}: {error}") from None
    except (CcsError, CcsStatementError) as error:
        raise WrongState(f"job {job}: {error}") from None
    except TimeoutError:
        raise WrongState(f"job {job}: its CCS server did not answer in time") from None


def _connect(members: Sequence[int]) -> CcsClient:
    endpoint = find_endpoint(members)
    if endpoint is None:
        raise CcsStatementError(
            f"no process of it has {PORT_VARIABLE}: start it with"
            " python -m wattfold.shims.charm_start"
        )
    return CcsClient(endpoint.port, key=endpoint.key)


async def _state(client: CcsClient) -> MapState | None:
    """The state of a program that follows maps, None of one that does not know what that is."""
    reply = await client.request(STATE_HANDLER)
    return parse_state(reply) if reply else None


async def _remap(
    client: CcsClient, pes: tuple[int, ...], state: MapState, pe_map: bytes, end_s: float
) -> _Now:
    check_map(pe_map, len(state.map))
    order = MapOrder(id=1 + secrets.randbelow(ID_MAX), map=pe_map)

    async def look() -> bool:
        nonlocal state
        state = await _state(client) or state
        # Another order has come after ours: ours will never be in force.
        return state.in_force == order.id or state.wanted != order.id

    async with asyncio.timeout_at(end_s):
        parse_state(await client.request(SET_HANDLER, order.text()))
    await _until(look, end_s)
    applied = state.in_force == order.id and state.map == pe_map
    return _Now(
        way=MapWay.MAP,
        pes=pes,
        map=state.map,
        objects=state.objects,
        pids=state.pids,
        applied=applied,
    )


async def _restart(client: CcsClient, pes: tuple[int, ...], pe_map: bytes, end_s: float) -> _Now:
    wanted = sum(pe_map)
    if any(pe_map[wanted:]):
        raise MapError(
            f"map {digits(pe_map)}: a program that restarts with fewer PEs numbers them anew,"
            " so the enabled ones must be the first"
        )

    answer_s = _ANSWER_S_MIN

    async def look() -> bool:
        nonlocal pes, answer_s
        # A restarting program does not answer, or takes a call and never answers it; a busy one
        # answers late. So every wait is longer than the one before.
        with contextlib.suppress(CcsError, TimeoutError):
            async with asyncio.timeout(answer_s):
                pes = await client.pes()
        answer_s *= 2
        return sum(pes) == wanted

    if sum(pes) != wanted:
        data = set_bitmap_data(sum(pes), wanted)
        # The reply comes after the restart, or never: what counts is the number of PEs.
        asking = asyncio.create_task(client.request("set_bitmap", data))
        try:
            await _until(look, end_s)
        finally:
            asking.cancel()
            with contextlib.suppress(CcsError, asyncio.CancelledError):
                await asking
    now = sum(pes)
    in_force = b"\1" * now + b"\0" * (len(pe_map) - now)
    return _Now(
        way=MapWay.RESTART,
        pes=pes,
        map=in_force,
        objects=None,
        pids=None,
        applied=in_force == pe_map,
    )


async def _until(look: Callable[[], Awaitable[bool]], end_s: float) -> None:
    """Asks again until it is so, or the deadline has passed: CCS has no way to be told."""
    pause_s = _PAUSE_S_MIN
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(end_s):
            while not await look():
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)


def _outcome(now: _Now, processes: Sequence[CharmProcess], took_ns: int) -> MapOutcome:
    # What a program says of pids counts only where it is a process of the job.
    by_pid = {process.pid: process for process in processes}
    processors = tuple(
        Processor(
            pe=pe,
            enabled=bool(enabled),
            objects=None if now.objects is None else now.objects[pe],
            process=None if now.pids is None else by_pid.get(now.pids[pe]),
        )
        for pe, enabled in enumerate(now.map)
    )
    # Left-over processes sleep or spin, and look like the others; their number is what is sure.
    surplus = len(processes) - len(now.pes) if now.way is MapWay.RESTART else 0
    return MapOutcome(
        way=now.way,
        map=now.map,
        applied=now.applied,
        applied_in_ns=took_ns if now.applied else 0,
        processors=processors,
        surplus=max(0, surplus),
    )


def _log(job: str, wanted: bytes, outcome: MapOutcome) -> None:
    residual = [p for p in outcome.processors if not p.enabled and p.process is not None]
    logs.info(
        "processor_map_set",
        job=job,
        way=outcome.way.value,
        wanted=digits(wanted),
        map=digits(outcome.map),
        applied=outcome.applied,
        applied_ns=outcome.applied_in_ns,
        residual=len(residual),
        residual_bytes=sum(p.process.memory_bytes for p in residual if p.process),
        stray_objects=sum(p.objects or 0 for p in outcome.processors if not p.enabled),
    )
    if outcome.surplus:
        logs.warning("charm_processes_left_over", job=job, processes=outcome.surplus)
