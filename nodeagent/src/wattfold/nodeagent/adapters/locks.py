"""Locks that keep a second agent away from a folder, and from the power zones of the node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
from pathlib import Path

from wattfold.nodeagent import logs

LOCK_WAIT_S = 1.0
"""A guard that ends the lease of a killed agent holds the lock for some milliseconds."""


class InUseError(RuntimeError):
    """Another agent holds the lock. The message names the agent and the remedy."""


def locked(fd: int, wait_s: float = LOCK_WAIT_S) -> bool:
    """Take the lock on an open file or folder. Returns False if it is not free within this time."""
    deadline = time.monotonic() + wait_s
    pause = threading.Event()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            # The kernel does not report when a lock becomes free.
            if time.monotonic() >= deadline:
                return False
        pause.wait(0.02)


def lock_folder(path: Path, remedy: str) -> int:
    """Lock a folder until the descriptor is closed. Raises InUseError or OSError.

    Every user may read the folder of the power zones, so every job could lock it and keep the agent
    from starting. A process of an ordinary account cannot set limits, so its lock does not count. A
    lock whose process has ended but passed the descriptor on does not count either, because an
    agent holds its lock itself. In a PID namespace, such as a container, the kernel does not show
    who took that lock, so it counts.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    if locked(fd):
        return fd
    pid = _holder(fd)
    if pid is not None and (uid := _uid(pid)) not in (0, os.geteuid()):
        logs.warning("foreign_lock_ignored", path=path, pid=pid, uid=uid)
        return fd
    os.close(fd)
    who = f" (process {pid})" if pid is not None else ""
    raise InUseError(f"{path}: another agent{who} uses this folder; stop it, or {remedy}")


def check_unused(path: Path) -> None:
    """Raise InUseError if a process listens on a unix socket, but not for a leftover file."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            pass
        except OSError:
            # No process listens there, or the file is missing.
            return
    raise InUseError(
        f"{path}: another process listens on this socket; stop it, or set another address in listen"
    )


def _holder(fd: int) -> int | None:
    """Return the process that holds the lock on an open file, if it is visible from here."""
    found = os.fstat(fd)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as locks:
        for line in locks:
            words = line.split()
            if words[1] == "FLOCK" and words[5] == file:
                return int(words[4])
    return None


def _uid(pid: int) -> int | None:
    """Return the account of a process; None if it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
