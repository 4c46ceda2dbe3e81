"""What a service must not do whatever it receives: write a traceback, or lose a task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import grpc

FAULTS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED}
"""No answer to a request: something failed that nobody has foreseen."""

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""For folders: a sync of a disk takes as long as many requests."""


class Tracebacks(logging.Handler):
    """Collects tracebacks of all loggers, and of tasks that failed unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "Traceback" in record.getMessage():
            self.found.append(self._formatter.format(record))

    def failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.found.append(repr(context))


@contextlib.contextmanager
def no_traceback() -> Iterator[Tracebacks]:
    """Fails if anything in the block logs a traceback. In a running loop."""
    seen, root = Tracebacks(), logging.getLogger()
    asyncio.get_running_loop().set_exception_handler(seen.failed)
    root.addHandler(seen)
    try:
        yield seen
    finally:
        root.removeHandler(seen)
    assert not seen.found, seen.found[0]
