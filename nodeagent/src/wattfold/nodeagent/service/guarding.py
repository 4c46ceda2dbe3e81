"""Keeps a guard beside the agent and tells it what must happen if the agent is killed.

There is no lease without a guard. One that dies, or does not read what it is told, is replaced; the
lease that is running goes on meanwhile, under the agent's own timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.adapters.guard_process import GuardProcess, Writes, is_guard, kill_guard
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.errors import Refused, WrongState
from wattfold.nodeagent.guard import GUARD_RECORD, LAPSE_RECORD, WRITES_RECORD

_CHECK_S = 5.0
"""A guard that has read nothing of what waits for it in this time is replaced."""
_STEADY_S = 5.0
_DELAYS_S = (0.0, 0.5, 2.0, 10.0)
"""Before the next try, after so many guards in a row that ended soon."""


class Guarding:
    """The guard of this node. Used from the event loop only."""

    def __init__(self, store: StateStore, check_s: float = _CHECK_S) -> None:
        self._store = store
        self._check_s = check_s
        self._writes: Callable[[], Writes] = tuple
        self._told: Writes | None = None
        self._deadline_ns = 0
        self._guard: GuardProcess | None = None
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, writes: Callable[[], Writes]) -> None:
        """Relieves the guard of an earlier agent and starts one; without success it goes on trying.

        The node is at its floor already. ``writes`` gives what brings it there.
        """
        self._writes = writes
        self.relieve()
        self._task = asyncio.create_task(self._keep())
        await self._tried.wait()

    async def stop(self, *, at_floor: bool = True) -> None:
        """Ends the guard's duty, after the agent has brought the node to its floor itself.

        Where it could not, the guard is left as it is: it takes the end of this process, which
        frees the lock, for a kill, and sets the floors again and again for a while.
        """
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if not at_floor:
            return
        if self._guard is not None:
            await self._guard.goodbye()
            self._guard = None
        self._store.remove(GUARD_RECORD)

    def hold_until(self, deadline_ns: int) -> None:
        """The lease ends then (monotonic clock). Raises WrongState if no guard knows it."""
        if self._guard is None or not self._guard.hold_until(deadline_ns):
            raise WrongState(
                "the guard of this node is not running: it ends the lease if the agent is killed,"
                " so the agent grants no lease without it"
            )
        self._deadline_ns = deadline_ns

    def lapsed(self) -> None:
        """The lease has ended."""
        self._deadline_ns = 0
        if self._guard is not None:
            # One that is not told acts at the end of a lease that is over as well.
            self._guard.hold_until(0)

    def refresh(self) -> None:
        """What must be written may have changed."""
        if self._task is None:
            # Until the start it is the guard of the agent before that knows it.
            return
        writes = self._writes()
        if writes != self._told:
            self._told = writes
            self._leave_on_disk(writes)
            if self._guard is not None:
                self._guard.replace_writes(writes, self._deadline_ns)

    def _leave_on_disk(self, writes: Writes) -> None:
        """For who stands in for a guard that is killed with its agent: its second, keepers."""
        pairs = [(str(path), text) for path, text in writes]
        try:
            self._store.write(WRITES_RECORD, {"writes": pairs}, durable=False)
        except Refused as error:
            logs.warning("guard_writes_not_stored", why=error)

    def relieve(self) -> None:
        """Ends the guard of an earlier agent. The lock of the state folder must be held."""
        acted = self._store.read(LAPSE_RECORD)
        if acted is not None:
            _log_lapse(acted)
            self._store.remove(LAPSE_RECORD)
        record = self._store.read(GUARD_RECORD) or {}
        pid, ticks = record.get("pid"), record.get("start_ticks")
        # It writes under the lock that is ours now: it can be ended at any point.
        if (
            isinstance(pid, int)
            and isinstance(ticks, int)
            and procfs.same_process(pid, ticks)
            and is_guard(pid)
        ):
            kill_guard(pid)
        self._store.remove(GUARD_RECORD)

    async def _keep(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._serve()
            except (OSError, Refused) as error:
                logs.warning("guard_not_started", why=error or repr(error))
            finally:
                self._tried.set()
            if time.monotonic() - began >= _STEADY_S:
                failures = 0
            await asyncio.sleep(_DELAYS_S[min(failures, len(_DELAYS_S) - 1)])
            failures += 1

    async def _serve(self) -> None:
        """One guard from its start to its end. Raises OSError, Refused."""
        instance = uuid.uuid4().hex
        guard = await GuardProcess.start(self._store.root, instance)
        try:
            stat = procfs.read_stat(guard.pid)
            record = {
                "instance": instance,
                "pid": guard.pid,
                "start_ticks": stat.start_ticks if stat else 0,
            }
            # Before it is on record, so that the second of the one before stays until it knows.
            self._guard, self._told = guard, None
            self.refresh()
            self._store.write(GUARD_RECORD, record, durable=False)
        except BaseException:
            self._guard = None
            await guard.end()
            raise
        logs.info("guard_started", pid=guard.pid)
        self._tried.set()
        status = await self._until_end(guard)
        self._guard = None
        await guard.end()
        logs.warning("guard_ended", pid=guard.pid, status=status)

    async def _until_end(self, guard: GuardProcess) -> int:
        unread = 0
        while True:
            try:
                async with asyncio.timeout(self._check_s):
                    return await guard.ended()
            except TimeoutError:
                before, unread = unread, guard.unread_bytes()
            if before and unread >= before:
                logs.warning("guard_stuck", pid=guard.pid, unread_bytes=unread)
                guard.kill()


def _log_lapse(record: dict[str, Any]) -> None:
    failed = record.get("failed") or []
    at_unix_ns = record.get("at_unix_ns")
    since_s = round((time.time_ns() - at_unix_ns) / NS_PER_S, 1) if at_unix_ns else "unknown"
    logs.warning(
        "guard_set_floors",
        seconds_ago=since_s,
        why=record.get("cause"),
        failed=len(failed),
        failures="; ".join(map(str, failed[:5])) or "none",
    )
