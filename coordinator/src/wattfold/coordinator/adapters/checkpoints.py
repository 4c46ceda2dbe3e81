"""Checkpoints made beside the loop: a worker writes the state out, the journal takes the text.

With 6,000 jobs the text takes seconds to make, with 100,000 a minute: longer than a lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters import codec
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import Journal, JournalError
from wattfold.coordinator.adapters.replica import Replica
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed
from wattfold.coordinator.core.state import State
from wattfold.coordinator.models.forecast import RunHistory
from wattfold.coordinator.solvers.worker import Crashed, Success

DEADLINE_S = 300.0

log = logging.getLogger("wattfold.coordinator")


def state_text(
    replica: Replica, keys: dict[str, JobId], prints: dict[str, str], history: RunHistory
) -> str:
    """Called in the worker: the state as `Journal.store_checkpoint` takes it."""
    state = replica.state
    state.keys, state.key_prints, state.history = keys, prints, history
    try:
        return codec.dump_state(state)
    finally:
        state.keys, state.key_prints, state.history = {}, {}, RunHistory()


class BesideTheLoop:
    """Makes one checkpoint at a time; the copy of the state must have whole submissions."""

    def __init__(self, feed: ReplicaFeed, journal: Journal, clock: Clock, state: State) -> None:
        self._feed = feed
        self._journal = journal
        self._clock = clock
        self._state = state
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts one, unless one is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._make())

    async def done(self) -> None:
        """Waits for the one under way."""
        if self._task is not None:
            await self._task

    async def last(self) -> None:
        """Makes one of the state as it is now, or at most as old as one under way."""
        self.begin()
        await self.done()

    async def close(self) -> None:
        """Gives it up: the journal has the events."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _make(self) -> None:
        at: list[tuple[int, int]] = []

        def arguments(_anew: bool) -> tuple[dict[str, JobId], dict[str, str], RunHistory]:
            # The copy is as the state is now: every event that has a number was handled.
            at[:] = [(self._journal.last_number, self._clock.now_ns())]
            return self._state.keys, self._state.key_prints, self._state.history

        result = await self._feed.ask(state_text, arguments, DEADLINE_S)
        if not isinstance(result, Success):
            reason = result.reason if isinstance(result, Crashed) else "no answer in time"
            log.error("checkpoint_failed reason=%r", reason)
            return
        number, time_ns = at[0]
        try:
            self._journal.store_checkpoint(number, time_ns, result.value)
        except JournalError as error:
            log.error("checkpoint_failed reason=%s", error)
