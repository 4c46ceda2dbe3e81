"""Brings written records to the disk in a thread, so that the event loop never waits for a disk.

A written record survives the agent at once. A synced record also survives a loss of power. All
records that are written within 50 ms, or during a sync, are synced together. A record that was
removed meanwhile costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from wattfold.contract.repeats import Repeats
from wattfold.nodeagent import logs

_GATHER_S = 0.05
"""Time in which records gather for one sync."""


class StateSync:
    """Syncs the records of one folder. Used from the event loop only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._repeats = Repeats()

    def soon(self, name: str) -> None:
        """Sync a record of the folder that was just written."""
        self._names.add(name)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._names:
            # A sync costs more than a record. A short job has left nothing to sync by then.
            await asyncio.sleep(_GATHER_S)
            names, self._names = self._names, set()
            try:
                await asyncio.to_thread(_sync, self._folder, names)
            except OSError as error:
                if count := self._repeats.one_more("sync", time.monotonic()):
                    logs.warning(
                        "state_not_synced",
                        path=self._folder,
                        reason=error,
                        means="a loss of power may lose records of jobs",
                        times=count,
                    )


def _sync(folder: Path, names: set[str]) -> None:
    """Sync the files that still exist, then their folder. Raises OSError."""
    found = False
    for name in names:
        try:
            fd = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        found = True
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    if found:
        sync_folder(folder)


def sync_folder(path: Path) -> None:
    """Sync the entries of a folder. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
