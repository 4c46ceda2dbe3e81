"""Sets the processor map of a Charm++ job once, and returns the verified map.

It is for jobs whose map a user sets by hand. The map of a job of mode map follows its cores
(`map_follow`).

A program answers an unknown handler in the same way as a successful ``set_bitmap``. So no reply
counts as success: a map is in force when a later request reports it. Older programs whose
``set_bitmap`` cannot be verified are left alone (their map reads back unchanged).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wattfold.contract.processor_map import (
    ID_MAX,
    MapError,
    MapOrder,
    MapRefusedError,
    check_map,
    digits,
)
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState
from wattfold.nodeagent.service.jobs.charm_program import (
    CharmProgram,
    MapWay,
    NotUpError,
    Processor,
    Seen,
)

MAP_DEADLINE_NS_DEFAULT = 10 * NS_PER_S
"""Longer than for a mask: a map is applied at the next load-balancing step or iteration."""
MAP_DEADLINE_NS_MAX = 60 * NS_PER_S
_ANSWER_S_MIN = 0.25
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.005, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOutcome:
    """Current state. ``applied``: the requested map is verified, and no object is outside it."""

    way: MapWay
    map: bytes
    applied: bool
    applied_in_ns: int
    processors: tuple[Processor, ...]
    surplus: int
    """Processes on this node in excess of those of the program, left over from restarts."""


def new_order(pe_map: bytes) -> MapOrder:
    """Return a map with a unique ID."""
    return MapOrder(id=1 + secrets.randbelow(ID_MAX), map=pe_map)


async def set_processor_map(
    job: str, members: Callable[[], Sequence[int]], pe_map: bytes, deadline_ns: int
) -> MapOutcome:
    """Restrict a job to these PEs. Returns at the deadline or earlier. Raises Refused."""
    check_deadline(deadline_ns)
    started_ns = time.monotonic_ns()
    wait_s = (deadline_ns or MAP_DEADLINE_NS_DEFAULT) / NS_PER_S
    end_s = asyncio.get_running_loop().time() + wait_s
    program = CharmProgram(members)
    with _as_refusal(job), contextlib.closing(program):
        check_map(pe_map)
        async with asyncio.timeout_at(end_s):
            seen = await program.look()
        change = _Change(program, seen, pe_map)
        async with asyncio.timeout_at(end_s):
            await change.begin()
        await change.wait(end_s)
    took_ns = time.monotonic_ns() - started_ns
    return outcome_of(job, program, change.seen, pe_map, took_ns if change.holds else 0)


def check_deadline(deadline_ns: int) -> None:
    """Raise InvalidRequest if the deadline is too long."""
    if deadline_ns > MAP_DEADLINE_NS_MAX:
        raise InvalidRequest(f"deadline {deadline_ns} ns is above {MAP_DEADLINE_NS_MAX} ns")


def outcome_of(
    job: str, program: CharmProgram, seen: Seen, pe_map: bytes, applied_in_ns: int
) -> MapOutcome:
    """Return the answer to a requested map. ``applied_in_ns`` 0: it is not in force."""
    processors, surplus = program.processors(seen)
    in_force = seen.map
    if seen.way is MapWay.RESTART:
        in_force = in_force.ljust(len(pe_map), b"\0")
        processors = tuple(
            Processor(pe=pe, enabled=bool(enabled), objects=None, process=None)
            for pe, enabled in enumerate(in_force)
        )
    outcome = MapOutcome(
        way=seen.way,
        map=in_force,
        applied=bool(applied_in_ns),
        applied_in_ns=applied_in_ns,
        processors=processors,
        surplus=surplus,
    )
    _log(job, pe_map, outcome)
    return outcome


class _Change:
    """One pending map of a program."""

    def __init__(self, program: CharmProgram, seen: Seen, pe_map: bytes) -> None:
        self._program = program
        self.seen = seen
        self._map = pe_map
        self._order: MapOrder | None = None
        self._answer_s = _ANSWER_S_MIN

    @property
    def holds(self) -> bool:
        """Whether the requested map is in force."""
        ours = self._order is None or self.seen.in_force == self._order.id
        return ours and self.seen.holds(self._map)

    async def begin(self) -> None:
        """Send the map in the way that the program accepts."""
        if self.seen.way is MapWay.MAP:
            check_map(self._map, len(self.seen.map))
            self._order = new_order(self._map)
            await self._program.order(self._order)
            return
        wanted = sum(self._map)
        if any(self._map[wanted:]):
            raise MapError(
                f"map {digits(self._map)}: a program that restarts renumbers its PEs, so the"
                " enabled PEs must come first"
            )
        if not self.holds:
            self._program.resize(sum(self.seen.pes), wanted)

    async def wait(self, end_s: float) -> None:
        """Poll until the map is in force or the deadline has passed: CCS has no notifications."""
        pause_s = _PAUSE_S_MIN
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                while not await self._look():
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _look(self) -> bool:
        if self._order is not None:
            self.seen = await self._program.look()
            # Another order has come later, so this order will never be in force.
            return self.seen.in_force == self._order.id or self.seen.wanted != self._order.id
        if self.holds:
            return True
        # A restarting program does not answer, or accepts a call and never answers it. A busy
        # program answers late. So every wait is longer than the previous wait.
        with contextlib.suppress(NotUpError, TimeoutError):
            async with asyncio.timeout(self._answer_s):
                self.seen = await self._program.look()
        self._answer_s *= 2
        if self.seen.way is MapWay.MAP:
            # It had only begun, and has its handlers now.
            await self.begin()
        return self.holds


@contextlib.contextmanager
def _as_refusal(job: str) -> Iterator[None]:
    """Convert errors of the program, which are not faults of the node, to refusals."""
    try:
        yield
    except MapRefusedError as error:
        raise WrongState(f"job {job} rejects the map: {error}") from None
    except MapError as error:
        raise InvalidRequest(f"job {job}: {error}") from None
    except NotUpError as error:
        raise WrongState(f"job {job}: {error}") from None
    except TimeoutError:
        raise WrongState(
            f"job {job}: the CCS server of the program did not answer in time"
        ) from None


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
