"""Keeps the processor map of Charm++ jobs (mode map) in step with their cores.

There is one task per job, from its launch or adoption to its end, and only this task communicates
with the program. It compares the map in force with the requested map. While they differ, it sends
the requested map and checks again, first soon (if a caller waits) and later less often. So no
special case is needed for a program that has just started, is late, was restarted by its script, or
was adopted after a restart of the agent. A map in force is checked from time to time, because
another client may have changed it, and because this accounts for the objects on PEs outside it.

A program that does not follow in time is held only by the kernel's mask. It is *confined* until it
follows. This module never slows a process, in particular no residual process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from wattfold.contract.ids import JobId
from wattfold.contract.processor_map import MapError, MapOrder, MapRefusedError, digits
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.charm_program import MapWay, NotUpError, Processor, Seen
from wattfold.nodeagent.service.jobs.followers import NOBODY, Follower, Reaction
from wattfold.nodeagent.service.jobs.job_maps import fitting_map, misplaced
from wattfold.nodeagent.service.jobs.processor_maps import new_order
from wattfold.nodeagent.service.jobs.records import Job, Placement

MESSAGE_MAX = 200
_LATE = "the program has not reached its next step"


class MapProgram(Protocol):
    """Requests to a program; `charm_program` implements them."""

    def ready(self) -> bool:
        """Whether the program accepts requests."""
        ...

    async def look(self) -> Seen:
        """Return its state. Raises NotUpError, MapError."""
        ...

    async def order(self, order: MapOrder) -> None:
        """Send a map. Raises NotUpError, MapError."""
        ...

    def resize(self, current: int, wanted: int) -> None:
        """Request a number of PEs from a program that restarts."""
        ...

    def processors(self, seen: Seen) -> tuple[tuple[Processor, ...], int]:
        """Return its PEs, and the number of leftover processes."""
        ...

    def close(self) -> None:
        """Stop waiting for replies."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPace:
    """Intervals of requests to a program, in seconds."""

    least: float = 0.005
    waited_for: float = 0.1
    """The longest pause while a change of mask waits."""
    soon: float = 0.25
    """The longest pause before the deadline, or in the first time of a program."""
    late: float = 2.0
    """The longest pause after that."""
    settled: float = 30.0
    """Pause between checks of a map in force. Some programs print a line for each check.

    A program that has not counted its objects yet, as before its first balancing step, is checked
    like a late program.
    """
    answer: float = 10.0
    """Maximum time of one answer: PE 0 answers between its other work."""
    restart: float = 1.0
    """First timeout of an answer if a restarting program may accept a call and never answer it."""
    again: float = 30.0
    """Pause before a map that left objects behind, or a change of size, is requested again."""
    first_map: float = 10.0
    """Maximum time of a program between its start and its first map."""


@dataclass(slots=True, kw_only=True)
class _Following:
    """State of one job. ``done`` is set when the map is in force, or if waiting cannot help."""

    job: Job
    program: MapProgram
    wanted: bytes
    pause_s: float = 0.0
    due_s: float | None = None
    expected_s: float = 0.0
    order: MapOrder | None = None
    sent_s: float = 0.0
    cost_told: int = 0
    """ID of the last order with a reported cost."""
    waiting: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    answer_s: float = 0.0
    seen: Seen | None = None
    restarts: bool = False
    """Whether the program restarts itself. Its absence may then be a requested restart."""


class MapFollow:
    """The follow tasks of a node. ``changed`` is called with a job when its state has changed."""

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
        """Follow a job of mode map from now on. Other jobs are ignored."""
        # A step host has no server: maps are sent on the node where the program started.
        if job.mode is not ResizeMode.MAP or job.steps_only or job.id in self._jobs:
            return
        job.wanted_map = fitting_map(job)
        following = _Following(job=job, program=self._programs(job), wanted=job.wanted_map)
        following.expected_s = _now_s() + self._pace.first_map
        self._jobs[job.id] = following
        following.task = asyncio.get_running_loop().create_task(self._follow(following))

    def end(self, job: Job) -> None:
        """Stop following a job that has ended."""
        following = self._jobs.pop(job.id, None)
        if following is not None:
            following.program.close()
            following.done.set()
            if following.task is not None:
                following.task.cancel()

    def stop(self) -> None:
        """Leave all programs with their current maps."""
        for following in list(self._jobs.values()):
            self.end(following.job)

    async def tell(self, job: Job, deadline_s: float) -> Reaction:
        """Make a job follow ``job.wanted_map``. Waits until the deadline if the program is up."""
        # Shims in the program learn its cores, but no caller waits for them.
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
        told = Reaction(attached=True, acknowledged=applied, took_ns=took_ns)
        return self._with_cost(following, told) if applied else told

    @staticmethod
    def _with_cost(following: _Following, told: Reaction) -> Reaction:
        """Add the cost of the map in force, which is reported once.

        This includes a map that was late and is requested again.
        """
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
        """Return the last state of the program."""
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
        """Check the map once and act on the result."""
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
        """Record the state of a job, and return the map to send now, if any.

        ``following.wanted`` may have changed during the request. Only the map requested now counts,
        and a map of this agent is in force only with its own ID.
        """
        following.seen, following.restarts = seen, seen.way is MapWay.RESTART
        wanted, pes = following.wanted, len(seen.map)
        if seen.holds(wanted) and not misplaced(following.job, seen):
            self._say(following, up=True, applied=True)
            return None
        if pes != len(wanted) and (seen.way is MapWay.MAP or pes > len(wanted)):
            wrong = f"the program has {pes} PEs; it must be started with {len(wanted)}"
            self._say(following, up=True, message=wrong, final=True)
            return None
        if wrong := misplaced(following.job, seen):
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
        """Record the state of a job. ``final``: waiting cannot help."""
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
        if not before.same_state(job.placement) or confined != job.confined:
            self._log(following)
            self._changed(job)

    def _placement(
        self, following: _Following, *, up: bool, applied: bool, message: str
    ) -> Placement:
        seen, before = following.seen, following.job.placement
        pe_map = seen.map if seen else b""
        if seen is not None and seen.way is MapWay.RESTART:
            # After a restart the program has fewer PEs than at its start.
            pe_map = pe_map.ljust(len(following.wanted), b"\0")
        if seen is None or len(pe_map) != len(following.wanted):
            # Telemetry is limited to the maximum number of PEs of the job.
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


def _counted(seen: Seen | None) -> bool:
    """Whether the positions of the objects are known as far as possible."""
    return seen is None or seen.objects is None or any(seen.objects)


def _readable(text: str) -> str:
    """Return a printable text of limited length, because the program may have written it."""
    line = "".join(char if char.isprintable() else "?" for char in text[:MESSAGE_MAX])
    return line if len(text) <= MESSAGE_MAX else f"{line}..."


def _now_s() -> float:
    return asyncio.get_running_loop().time()
