"""Supervision of the guard, which acts if the agent is killed.

There is no lease before a guard and its second hold its end. A guard that dies, or does not read or
confirm in time, is replaced. The current lease continues meanwhile, under the agent's own timer.
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
from wattfold.nodeagent.adapters.guard_process import GuardProcess, Writes, is_guard, kill_guard
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.errors import Refused, WrongState
from wattfold.nodeagent.guard_records import GUARD_RECORD, LAPSE_RECORD, WRITES_RECORD

_CHECK_S = 5.0
"""A guard that has read none of its pending input in this time is replaced."""
_STEADY_S = 5.0
_SOON_S = 0.05
_DELAYS_S = (0.0, 0.5, 2.0, 10.0)
"""Pauses before the next try, by the number of consecutive guards that ended soon."""


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
        self._soon: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, writes: Callable[[], Writes]) -> None:
        """End the guard of an earlier agent and start a new guard; retries in the background.

        The node is already at its floor. ``writes`` returns the writes that bring it there.
        """
        self._writes = writes
        self.relieve()
        self._task = asyncio.create_task(self._keep())
        await self._tried.wait()

    async def stop(self, *, at_floor: bool = True) -> None:
        """End the guard after the agent has brought the node to its floor.

        If the agent could not reach the floor, the guard stays. It treats the end of this process,
        which frees the lock, as a kill, and sets the floors repeatedly for some time.
        """
        if self._soon is not None:
            self._soon.cancel()
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

    async def hold_until(self, deadline_ns: int) -> None:
        """Set the end of the lease (monotonic clock), and wait until guard and second hold it.

        Raises WrongState if they do not in time, or if the lease has ended meanwhile.
        """
        before_ns, self._deadline_ns = self._deadline_ns, deadline_ns
        if not await self._held(deadline_ns):
            if self._deadline_ns == deadline_ns:
                self._deadline_ns = before_ns
            raise WrongState(
                "the guard of this node has not confirmed the lease: it ends the lease if the agent"
                " is killed or hangs, so the agent grants no lease without it"
            )

    async def _held(self, deadline_ns: int) -> bool:
        guard = self._guard
        if guard is None or not guard.hold_until(deadline_ns):
            return False
        try:
            return await guard.confirms()
        except TimeoutError:
            logs.warning("guard_stuck", pid=guard.pid, reason="it does not confirm a lease")
            guard.kill()
            return False

    def lapsed(self) -> None:
        """Record that the lease has ended."""
        self._deadline_ns = 0
        if self._guard is not None:
            # A guard without this message also acts at the end of a lease that is over.
            self._guard.hold_until(0)

    def refresh(self) -> None:
        """Send the writes to the guard if they have changed."""
        if self._task is None:
            # Before the start, the guard of the previous agent has the writes.
            return
        writes = self._writes()
        if writes != self._told:
            self._told = writes
            self._leave_on_disk(writes)
            if self._guard is not None:
                self._guard.replace_writes(writes, self._deadline_ns)

    def refresh_soon(self) -> None:
        """Send the writes within 50 ms, once for all changes until then.

        Good enough when there is less to write: the guard passes over files that are gone.
        """
        if self._soon is None and self._task is not None:
            self._soon = asyncio.get_running_loop().call_later(_SOON_S, self._refresh_late)

    def _refresh_late(self) -> None:
        self._soon = None
        self.refresh()

    def _leave_on_disk(self, writes: Writes) -> None:
        """Store the writes for the substitutes of a killed guard: its second, and keepers."""
        pairs = [(str(path), text) for path, text in writes]
        try:
            self._store.write(WRITES_RECORD, {"writes": pairs}, durable=False)
        except Refused as error:
            logs.warning("guard_writes_not_stored", reason=error)
            # The second prefers them to what it was told.
            self._store.remove(WRITES_RECORD)

    def relieve(self) -> None:
        """End the guard of an earlier agent. The lock of the state folder must be held."""
        acted = self._store.read(LAPSE_RECORD)
        if acted is not None:
            _log_lapse(acted)
            self._store.remove(LAPSE_RECORD)
        record = self._store.read(GUARD_RECORD) or {}
        pid, ticks = record.get("pid"), record.get("start_ticks")
        # The guard writes only under the lock that this agent holds, so it can be killed at any
        # point.
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
                logs.warning("guard_not_started", reason=error or repr(error))
            finally:
                self._tried.set()
            if time.monotonic() - began >= _STEADY_S:
                failures = 0
            await asyncio.sleep(_DELAYS_S[min(failures, len(_DELAYS_S) - 1)])
            failures += 1

    async def _serve(self) -> None:
        """Run one guard from its start to its end. Raises OSError, Refused."""
        instance = uuid.uuid4().hex
        guard = await GuardProcess.start(self._store.root, instance)
        try:
            stat = procfs.read_stat(guard.pid)
            record = {
                "instance": instance,
                "pid": guard.pid,
                "start_ticks": stat.start_ticks if stat else 0,
            }
            # Before it is on record, so that the second of the previous guard stays until then.
            guard.replace_writes(self._writes(), self._deadline_ns)
            if not await guard.confirms():
                raise OSError("the guard ended before it held the lease")
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
    told, at_unix_ns = record.get("failed"), record.get("at_unix_ns")
    failed = told if isinstance(told, list) else []
    since_s: float | str = "unknown"
    if isinstance(at_unix_ns, int) and 0 < at_unix_ns < 2**63:
        since_s = round((time.time_ns() - at_unix_ns) / NS_PER_S, 1)
    logs.warning(
        "guard_set_floors",
        seconds_ago=since_s,
        reason=record.get("cause"),
        failed=len(failed),
        failures="; ".join(map(str, failed[:5])) or "none",
    )
