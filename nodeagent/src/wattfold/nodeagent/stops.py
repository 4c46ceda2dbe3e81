"""Stopped processes: how a process is stopped, and how it is continued.

Keepers continue processes by the same rules (`runtime_shims/keeper/stops.c`).
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple


def continue_stopped(pid: int, start_ticks: int) -> None:
    """Continue a process that the throttle has stopped, unless another stop is pending."""
    found = read_stop(pid)
    if found is None or found.start_ticks != start_ticks or (found.stopped and found.waits):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGCONT)
        if found.terminal_waits:
            # The kernel drops it with SIGCONT, but the program may handle it.
            os.kill(pid, signal.SIGTSTP)


class Stop(NamedTuple):
    """Whether a process is stopped, and which stop signals are pending."""

    start_ticks: int
    stopped: bool
    waits: bool
    """A pending SIGSTOP. It stays pending while the process is stopped."""
    terminal_waits: bool
    """A pending SIGTSTP."""


def read_stop(pid: int) -> Stop | None:
    """Return how a process is stopped; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except OSError:
        return None
    waiting = 0
    for line in status.splitlines():
        if line.startswith((b"ShdPnd:", b"SigPnd:")):
            waiting |= int(line.split()[1], 16)
    return Stop(
        start_ticks=int(fields[19]),
        stopped=fields[0] in (b"T", b"t"),
        waits=bool(waiting >> (signal.SIGSTOP - 1) & 1),
        terminal_waits=bool(waiting >> (signal.SIGTSTP - 1) & 1),
    )
