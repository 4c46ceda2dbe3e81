"""Keeps the processor map of Charm++ jobs (mode map) what their cores ask for.

One task a job, from its launch or adoption to its end, and only this task talks to the program. It
looks at the map in force and at the one wanted; as long as they differ it tells the program and
looks again, soon while somebody waits for it, ever more seldom later. So a program that has just
started, that is late, that was started anew by its script, or that an agent finds after a restart
needs no case of its own. A map that holds is looked at again from time to time: somebody else may
have changed it, and what is left on the PEs outside of it is accounted that way.

A program that does not follow in time is held by the kernel's mask alone: *confined*, until it
does. Nothing here slows a process, residual ones least of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.contract.processor_map import (
    MapError,
    MapOrder,
    MapRefusedError,
    check_map,
    digits,
    first_pes,
)
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.charm_program import MapWay, NotUpError, Processor, Seen
from wattfold.nodeagent.service.followers import NOBODY, Follower, Told
from wattfold.nodeagent.service.processor_maps import new_order
from wattfold.nodeagent.service.records import Job, Placement

MESSAGE_MAX = 200
_LATE = "the program has not reached its next step"


class MapProgram(Protocol):
    """What is asked of a program; ``charm_program`` has the real one."""

    def ready(self) -> bool:
        """Whether it can be asked."""
        ...

    async def look(self) -> Seen:
        """Its state. Raises NotUpError, MapError."""
        ...

    async def order(self, order: MapOrder) -> None:
        """Tells it a map. Raises NotUpError, MapError."""
        ...

    def resize(self, current: int, wanted: int) -> None:
        """Asks a program that restarts for so many PEs."""
        ...

    def processors(self, seen: Seen) -> tuple[tuple[Processor, ...], int]:
        """Its PEs, and the number of processes left over."""
        ...

    def close(self) -> None:
        """Waits for nothing any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPace:
    """How often a program is asked, seconds."""

    least: float = 0.005
    waited_for: float = 0.1
    """The longest pause while a change of mask waits."""
    soon: float = 0.25
    """The longest pause before the deadline, or in the first while of a program."""
    late: float = 2.0
    """The longest pause after that."""
    settled: float = 30.0
    """Between looks at a map that holds; some programs print a line for each. While a program has
    not counted its objects yet, as at its first balancing step, it is asked like a late one."""
    answer: float = 10.0
    """How long one answer may take: PE 0 answers between its other work."""
    restart: float = 1.0
    """The same at first where a restarting program may take a call and never answer it."""
    again: float = 30.0
    """A map that left objects behind, or a change of size, is asked for again after so long."""
    first_map: float = 10.0
    """A program that has come up may take so long for its first map."""


@dataclass(slots=True, kw_only=True)
class _Following:
    """One job. ``done`` is set when the map wanted holds, or never will by waiting."""

    job: Job
    program: MapProgram
    wanted: bytes
    pause_s: float = 0.0
    due_s: float | None = None
    expected_s: float = 0.0
    order: MapOrder | None = None
    sent_s: float = 0.0
    cost_told: int = 0
    """Id of the order of which the cost was told."""
    waiting: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    answer_s: float = 0.0
    seen: Seen | None = None
    restarts: bool = False
    """What was seen last restarts itself: that it is away may be what it was asked for."""


class MapFollow:
    """The follow tasks of a node. ``changed`` is called with a job when there is news of it."""

    def __init__(
        self,
        programs: Callable[[Job], MapProgram],
        changed: Callable[[Job], None],
        also: Follower,
        pace: FollowPace | None = None,
    ) -> None:
        self._programs = programs
        self._changed = changed
        self._also = also
        self._pace = pace or FollowPace()
        self._jobs: dict[JobId, _Following] = {}

    def begin(self, job: Job) -> None:
        """Follows a job of mode map from now on; others are left alone."""
        # A step host has no server: the program is told where it was started.
        if job.mode is not ResizeMode.MAP or job.steps_only or job.id in self._jobs:
            return
        job.wanted_map = fitting_map(job)
        following = _Following(job=job, program=self._programs(job), wanted=job.wanted_map)
        following.expected_s = _now_s() + self._pace.first_map
        self._jobs[job.id] = following
        following.task = asyncio.get_running_loop().create_task(self._follow(following))

    def end(self, job: Job) -> None:
        """The job has ended."""
        following = self._jobs.pop(job.id, None)
        if following is not None:
            following.program.close()
            following.done.set()
            if following.task is not None:
                following.task.cancel()

    def stop(self) -> None:
        """Leaves all programs with the maps they have."""
        for following in list(self._jobs.values()):
            self.end(following.job)

    async def tell(self, job: Job, deadline_s: float) -> Told:
        """Has a job follow ``job.wanted_map``; waits for it until the deadline, if it is up."""
        # What a program in it has of our shim learns its cores; nobody waits for that.
        await self._also.tell(job, 0.0)
        following = self._jobs.get(job.id)
        if following is None:
            return NOBODY
        began_ns = time.monotonic_ns()
        up = self._up(following) or following.program.ready()
        self._want(following, job.wanted_map, deadline_s if up else None)
        if not up:
            return NOBODY
        following.waiting += 1
        try:
            async with asyncio.timeout(deadline_s):
                await following.done.wait()
        except TimeoutError:
            logs.warning("processor_map_late", job=job.id, wanted=digits(job.wanted_map))
        finally:
            following.waiting -= 1
        applied = job.placement.applied
        took_ns = time.monotonic_ns() - began_ns if applied else 0
        told = Told(attached=True, acknowledged=applied, took_ns=took_ns)
        return self._with_cost(following, told) if applied else told

    @staticmethod
    def _with_cost(following: _Following, told: Told) -> Told:
        """With what the map in force has cost, told once; also where the program was late with it
        and is asked again."""
        seen, order = following.seen, following.order
        if seen is None or order is None or order.id == following.cost_told:
            return told
        following.cost_told = order.id
        took_ns = max(told.took_ns, round((_now_s() - following.sent_s) * NS_PER_S))
        return replace(
            told,
            took_ns=took_ns,
            stalled_ns=seen.stalled_ns if seen.stalled_ns >= 0 else took_ns,
            moved_bytes=seen.moved_bytes,
        )

    def seen(self, job: Job) -> Seen | None:
        """What the program said last."""
        following = self._jobs.get(job.id)
        return following.seen if following else None

    def _want(self, following: _Following, pe_map: bytes, deadline_s: float | None) -> None:
        following.wanted = pe_map
        following.job.placement = replace(following.job.placement, applied=False, message=_LATE)
        following.done.clear()
        now_s = asyncio.get_running_loop().time()
        following.due_s = None if deadline_s is None else now_s + deadline_s
        following.pause_s = 0.0
        following.wake.set()

    @staticmethod
    def _up(following: _Following) -> bool:
        return following.job.placement.up

    async def _follow(self, following: _Following) -> None:
        while following.job.live:
            following.wake.clear()
            try:
                await self._step(following)
            except Exception as error:  # noqa: BLE001 - a defect met with one job must not end its task
                logs.warning("map_follow_failed", job=following.job.id, error=repr(error))
                self._say(following, up=False, message=f"the map was not applied: {error!r}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(following)):
                    await following.wake.wait()

    def _pause_s(self, following: _Following) -> float:
        pace = self._pace
        if following.job.placement.applied:
            following.pause_s = 0.0
            return pace.settled if _counted(following.seen) else pace.late
        most_s = pace.waited_for if following.waiting else pace.soon
        if not following.waiting and _now_s() >= (following.due_s or following.expected_s):
            most_s = pace.late
        following.pause_s = min(max(2 * following.pause_s, pace.least), most_s)
        return following.pause_s

    async def _step(self, following: _Following) -> None:
        """One look, and what follows from it."""
        program, pace = following.program, self._pace
        try:
            async with asyncio.timeout(following.answer_s or pace.answer):
                seen = await program.look()
                following.answer_s = pace.restart if seen.way is MapWay.RESTART else pace.answer
                order = self._judge(following, seen)
                if order is not None:
                    following.order, following.sent_s = order, _now_s()
                    await program.order(order)
        except NotUpError as error:
            self._say(following, up=False, message=str(error))
        except MapRefusedError as error:
            self._say(
                following, up=True, message=f"the program rejects the map: {error}", final=True
            )
        except MapError as error:
            self._say(following, up=True, message=f"the program sent an invalid answer: {error}")
        except TimeoutError:
            following.answer_s = min(2 * following.answer_s, pace.answer)
            self._say(following, up=True, message="the CCS server of the program does not answer")

    def _judge(self, following: _Following, seen: Seen) -> MapOrder | None:
        """Says how things stand, and gives the map to send, if there is one to send now.

        ``following.wanted`` may have changed while the program was asked: what counts is the map
        wanted now, and that a map of ours is in force only under its own id.
        """
        following.seen, following.restarts = seen, seen.way is MapWay.RESTART
        wanted, pes = following.wanted, len(seen.map)
        if seen.holds(wanted) and not _misplaced(following.job, seen):
            self._say(following, up=True, applied=True)
            return None
        if pes != len(wanted) and (seen.way is MapWay.MAP or pes > len(wanted)):
            wrong = f"the program has {pes} PEs; it must be started with {len(wanted)}"
            self._say(following, up=True, message=wrong, final=True)
            return None
        if wrong := _misplaced(following.job, seen):
            self._say(following, up=True, message=wrong, final=True)
            return None
        if seen.way is MapWay.RESTART:
            self._resize(following, seen)
            return None
        ours = following.order
        if ours is None or ours.map != wanted or seen.wanted != ours.id:
            self._say(following, up=True, message=_LATE)
            return new_order(wanted)
        if seen.in_force != ours.id:
            self._say(following, up=True, message=_LATE)
            return None
        stray = f"{seen.strays} objects remain on PEs outside the map"
        self._say(following, up=True, message=stray, final=True)
        return new_order(wanted) if self._may_repeat(following) else None

    def _resize(self, following: _Following, seen: Seen) -> None:
        message = "the program accepts no maps, or not yet"
        self._say(following, up=True, message=message)
        ours = following.order
        if ours is None or ours.map != following.wanted or self._may_repeat(following):
            following.order, following.sent_s = new_order(following.wanted), _now_s()
            following.program.resize(sum(seen.pes), sum(following.wanted))

    def _may_repeat(self, following: _Following) -> bool:
        return _now_s() - following.sent_s >= self._pace.again

    def _say(
        self,
        following: _Following,
        *,
        up: bool,
        applied: bool = False,
        message: str = "",
        final: bool = False,
    ) -> None:
        """Writes down how a job stands. ``final``: no use in waiting for it."""
        job, before = following.job, following.job.placement
        message = _readable(message)
        if not up:
            following.seen = following.due_s = None
            following.order = following.order if following.restarts else None
        elif following.due_s is None:
            following.due_s = _now_s() + self._pace.first_map
        job.placement = self._placement(following, up=up, applied=applied, message=message)
        confined = job.confined
        if applied or not up:
            job.confined = False
        elif final or (following.due_s is not None and _now_s() >= following.due_s):
            job.confined = True
        if applied or final:
            following.done.set()
        if not _alike(before, job.placement) or confined != job.confined:
            self._log(following)
            self._changed(job)

    def _placement(
        self, following: _Following, *, up: bool, applied: bool, message: str
    ) -> Placement:
        seen, before = following.seen, following.job.placement
        pe_map = seen.map if seen else b""
        if seen is not None and seen.way is MapWay.RESTART:
            # After a restart the program has fewer PEs than it was started with.
            pe_map = pe_map.ljust(len(following.wanted), b"\0")
        if seen is None or len(pe_map) != len(following.wanted):
            # Telemetry has room for as many PEs as the job may have, not for any number it names.
            return Placement(up=up, message=message)
        stale = applied or pe_map != before.map or not before.processors
        processors, surplus = (
            following.program.processors(seen) if stale else (before.processors, before.surplus)
        )
        return Placement(
            up=up,
            map=pe_map,
            applied=applied,
            message=message,
            processors=processors,
            surplus=surplus,
        )

    def _log(self, following: _Following) -> None:
        job, now = following.job, following.job.placement
        residual = [p for p in now.processors if not p.enabled and p.process is not None]
        logs.info(
            "processor_map",
            job=job.id,
            wanted=digits(following.wanted),
            map=digits(now.map),
            applied=now.applied,
            confined=job.confined,
            residual=len(residual),
            residual_bytes=sum(p.process.memory_bytes for p in residual if p.process),
            stray_objects=sum(p.objects or 0 for p in now.processors if not p.enabled),
            left_over=now.surplus,
            note=now.message,
        )


def fitting_map(job: Job) -> bytes:
    """The map wanted if it fits the cores of the job, else the one that follows from them.

    An agent that finds a job reads its cores from the kernel; the map on record may be older.
    """
    pe_map, cores = job.wanted_map, max(1, min(len(job.cpus), job.launch_cpus))
    # Of one over several nodes only who knows all of them can tell the map.
    if len(pe_map) == pes_of(job) and (job.pes or sum(pe_map) == cores):
        return pe_map
    return first_pes(pes_of(job), cores)


def pes_of(job: Job) -> int:
    """The PEs that its program was to be started with."""
    return job.pes or job.launch_cpus


def checked_map(job: Job, pe_map: bytes, cores: int) -> bytes:
    """The map asked for, or the one that follows from the cores if none is. Raises InvalidRequest.

    Empty for a job of another mode, and where the program is not told. Of one over several nodes
    it also has PEs of others.
    """
    if job.mode is not ResizeMode.MAP or job.steps_only:
        return b""
    if not pe_map:
        return first_pes(pes_of(job), cores)
    try:
        check_map(pe_map, pes_of(job))
    except MapError as error:
        raise InvalidRequest(f"job {job.id}: {error}") from None
    if not job.pes and sum(pe_map) > cores:
        raise InvalidRequest(
            f"job {job.id}: map {digits(pe_map)} enables {sum(pe_map)} PEs on {cores} CPUs"
        )
    return pe_map


def _misplaced(job: Job, seen: Seen) -> str:
    """Whether PEs of a program over several nodes are not in the order of these, as far as it says.

    The map takes node after node, with as many PEs on each.
    """
    if not job.pes:
        return ""
    if seen.way is MapWay.RESTART:
        return "on several nodes the program must accept maps: use WattfoldLB or charm_map"
    each = job.launch_cpus
    for pe, node in enumerate(seen.nodes):
        if node and node != pe // each + 1:
            own = pe // each + 1
            wrong = f"PE {pe} is on node {node} of the job, not on {own}"
            return f"{wrong}: start the program with +p{job.pes}"
    return ""


def _counted(seen: Seen | None) -> bool:
    """Whether where the objects are is known as far as it ever will be."""
    return seen is None or seen.objects is None or any(seen.objects)


def _readable(text: str) -> str:
    """Some of it may be the program's own words: a line of bounded length."""
    line = "".join(char if char.isprintable() else "?" for char in text[:MESSAGE_MAX])
    return line if len(text) <= MESSAGE_MAX else f"{line}..."


def _alike(one: Placement, other: Placement) -> bool:
    """Whether there is nothing new but figures that always change."""
    return (one.up, one.map, one.applied, one.message, one.surplus) == (
        other.up,
        other.map,
        other.applied,
        other.message,
        other.surplus,
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
