"""Holds jobs of a site until a test opens their gates."""

from __future__ import annotations

import os
from pathlib import Path


class Gate:
    """Holds jobs until it is opened: each waits at its own FIFO, as a line of shell."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def line(self, name: str, code: int = 0) -> list[str]:
        """A job that records its start in ``<name>.ran``, waits at its gate and exits with
        ``code``.
        """
        fifo = self._folder / name
        if not fifo.exists():
            os.mkfifo(fifo)
        # Opened for reading and writing, so that the job never blocks in open().
        script = f'echo $$ >> "$0.ran"; read _ <> "$0"; exit {code}'
        return ["/bin/sh", "-c", script, str(fifo)]

    def open(self, name: str) -> None:
        """Let a job continue, even if it has not reached its gate yet."""
        fd = os.open(self._folder / name, os.O_RDWR)
        os.write(fd, b"go\n")
        # Kept open: data in a FIFO without an open descriptor is lost.
        _KEPT.append(fd)

    def starts(self, name: str) -> list[int]:
        """The pids started under this name, one for each start."""
        path = self._folder / f"{name}.ran"
        return [int(line) for line in path.read_text().split()] if path.exists() else []


_KEPT: list[int] = []
