"""Checkpoints and moves of the log outside the event loop, which renews leases.

A worker serialises the state, and the journal stores the text. A thread moves the log. With 6,000
jobs, serialisation takes seconds. With 100,000 jobs, it takes a minute, longer than a lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.replica import Replica
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal.file import crc_of
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.forecast import RunHistory
from wattfold.coordinator.solvers.worker import Crashed, Success

DEADLINE_S = 300.0

log = logging.getLogger("wattfold.coordinator")


def state_text(
    replica: Replica, keys: dict[str, JobId], prints: dict[str, str], history: RunHistory
) -> tuple[str, int]:
    """Return the state and its checksum for `Journal.store_checkpoint`. Runs in the worker."""
    state = replica.state
    state.keys, state.key_prints, state.history = keys, prints, history
    try:
        text = codec.dump_state(state)
        return text, crc_of(text)
    finally:
        state.keys, state.key_prints, state.history = {}, {}, RunHistory()


class BesideTheLoop:
    """Makes one checkpoint at a time. The copied state must contain whole submissions."""

    def __init__(self, feed: ReplicaFeed, journal: Journal, clock: Clock, state: State) -> None:
        self._feed = feed
        self._journal = journal
        self._clock = clock
        self._state = state
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start a checkpoint, unless one is already in progress."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._make())

    async def done(self) -> None:
        """Wait for the checkpoint in progress."""
        if self._task is not None:
            await self._task

    async def last(self) -> None:
        """Make a checkpoint of the current state, or finish the checkpoint in progress."""
        self.begin()
        await self.done()

    async def close(self) -> None:
        """Cancel the checkpoint in progress. The journal still has the events."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _make(self) -> None:
        at: list[tuple[int, int]] = []

        def arguments(_anew: bool) -> tuple[dict[str, JobId], dict[str, str], RunHistory]:
            # The copy equals the current state: every numbered event has been handled.
            at[:] = [(self._journal.last_number, self._clock.now_ns())]
            return self._state.keys, self._state.key_prints, self._state.history

        result = await self._feed.ask(state_text, arguments, DEADLINE_S)
        if not isinstance(result, Success):
            reason = result.reason if isinstance(result, Crashed) else "no answer in time"
            log.error("checkpoint_failed reason=%r", reason)
            return
        number, time_ns = at[0]
        try:
            self._journal.store_checkpoint(number, time_ns, *result.value)
        except JournalError as error:
            log.error("checkpoint_failed reason=%s", error)


class MoveBeside:
    """Moves the log of a journal into its file in a thread, one move at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start a move, unless one is already in progress."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._move())

    async def close(self) -> None:
        """Wait for the move in progress."""
        if self._task is not None:
            await self._task

    async def _move(self) -> None:
        try:
            await asyncio.to_thread(self._journal.move)
        except JournalError as error:
            log.error("journal_not_moved reason=%s", error)
