"""Work that goes on beside the calls of an agent, until it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

Spawn = Callable[[Coroutine[None, None, None]], None]
"""Begins work that goes on by itself."""


class Background:
    """Holds its tasks, which the event loop does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Begins it; used from the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Gives all of it up."""
        for task in self._tasks:
            task.cancel()
