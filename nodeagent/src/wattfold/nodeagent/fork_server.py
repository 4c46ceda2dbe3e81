"""Forks a keeper for each job of an agent: a process that has loaded all that keepers use.

A new Python takes several times the CPU time of a fork. The agent executes one fork server before
its first job. Keepers therefore have all capabilities of root, and the limits and control groups of
the agent. The server holds no state. It may be killed at any time, and ends with its agent. Keepers
outlive both.

Talks on descriptor 0, a socket that keeps messages apart. In, the descriptors of a keeper, with the
numbers that they get there in JSON. Out ``{"pid": ...}`` or ``{"errno": ...}``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket

from wattfold.nodeagent import keeper

NAME = "wattfold-forks"
_MESSAGE_BYTES_MAX = 4096
_FDS_MAX = 250


def main() -> None:
    """Serves one agent until its end of the socket is closed."""
    keeper.be_called(NAME)
    keeper.ignore_ends()
    signal.signal(signal.SIGCHLD, lambda _number, _frame: _reap())
    control = socket.socket(fileno=0)
    with contextlib.suppress(ConnectionError):
        while True:
            message, fds, _, _ = socket.recv_fds(control, _MESSAGE_BYTES_MAX, _FDS_MAX)
            if not message:
                return
            answer = _answer(fds, json.loads(message))
            control.send(json.dumps(answer).encode())


def _answer(fds: list[int], numbers: list[int]) -> dict[str, int]:
    try:
        if len(fds) != len(numbers):
            # The kernel drops descriptors above the limit of a process.
            return {"errno": errno.EMFILE}
        pid = os.fork()
        if pid == 0:
            _become_keeper(fds, numbers)
        return {"pid": pid}
    except OSError as error:
        return {"errno": error.errno or errno.EIO}
    finally:
        for fd in fds:
            os.close(fd)


def _become_keeper(fds: list[int], numbers: list[int]) -> None:
    """The life of a keeper."""
    status = 70
    try:
        os.setsid()
        _renumber(fds, numbers)
        keeper.main()
        status = 0
    finally:
        os._exit(status)


def _renumber(fds: list[int], numbers: list[int]) -> None:
    """Gives descriptors their numbers; closes all others but that of errors."""
    # First above all numbers, so that none is replaced before it has been moved.
    above = max(2, *numbers) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)
    kept = sorted({2, *numbers})
    for low, high in zip((-1, *kept), (*kept, os.sysconf("SC_OPEN_MAX")), strict=True):
        if high - low > 1:  # An empty range would be all descriptors.
            os.closerange(low + 1, high)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
