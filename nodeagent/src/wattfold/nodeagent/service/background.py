"""Background tasks of an agent, until it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

Spawn = Callable[[Coroutine[None, None, None]], None]
"""Begins a background task."""


class Background:
    """Holds references to its tasks, which the event loop does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Begin a task. Call it from the event loop."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()
