"""Starting a job through its keeper, and watching processes by pidfd.

Starting has two halves, so that a job is on record before its first instruction: ``prepare`` leaves
a process that is confined and waits, ``go`` lets it become the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import NamedTuple

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.keeper_messages import GO, KeeperOrder, fields_of
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource, reap
from wattfold.nodeagent.core.errors import Broken, InvalidRequest, NoSpace, NotPermitted, Refused

_ANSWER_S = 30.0
_OF_THE_NODE = {"start a keeper", "set up its keeper", "set the affinity", "enter the cgroup"}
"""Steps of a launch that depend on nothing that the user has chosen. Failures of the others, such
as of a full home directory, are no faults of the node: one user could close all nodes otherwise."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


class Starting:
    """A job that is prepared and not yet running."""

    def __init__(self, job: JobId, keeper: int, channel: socket.socket) -> None:
        self._job = job
        self._channel = channel
        self.keeper = keeper
        self.pid = 0
        # It waits for its order and is not collected before it has ended: this is no other process.
        self._keeper_fd = os.pidfd_open(keeper)

    @classmethod
    async def prepare(cls, keepers: KeeperSource, job: JobId, order: KeeperOrder) -> Starting:
        """Starts a keeper and has it prepare the job. Raises Refused; nothing is left then."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            message = order.message()
            starting = cls(job, keepers.keeper(theirs.fileno(), order.inherited), ours)
        except OSError as error:
            ours.close()
            failure = Failure("start a keeper", "", error.errno or 0)
            raise refusal(job, failure) from None
        except ValueError as error:
            ours.close()
            raise refusal(job, Failure(f"prepare ({error})", "", 0)) from None
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            for fd in order.inherited:
                os.close(fd)
        try:
            starting.pid = int(await starting._ask(message))
        except BaseException:
            await starting.abandon()
            raise
        return starting

    async def go(self) -> None:
        """Lets the job run. Raises Refused if its program cannot be executed."""
        try:
            await self._ask(GO)
        except BaseException:
            await self.abandon()
            raise
        self._channel.close()
        os.close(self._keeper_fd)

    async def abandon(self) -> None:
        """Ends the keeper; a job that has not been let go ends with it."""
        self._channel.close()
        try:
            await readable(self._keeper_fd)
            reap(self.keeper)
        finally:
            os.close(self._keeper_fd)

    async def _ask(self, message: bytes) -> bytes:
        """Return what the keeper answers to this message besides the kind of the answer."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await self._exchange(message)
        except TimeoutError:
            signal.pidfd_send_signal(self._keeper_fd, signal.SIGKILL)
            raise Broken(
                f"job {self._job}: its keeper did not answer within {_ANSWER_S} s"
            ) from None
        match found:
            case [b"pid" | b"running", *values]:
                return b"".join(values)
            case [b"error", number, what, path]:
                text = path.decode("utf-8", "surrogateescape")
                raise refusal(self._job, Failure(what.decode(), text, int(number)))
        raise Broken(f"job {self._job}: its keeper ended before the job was started")

    async def _exchange(self, message: bytes) -> list[bytes]:
        """The fields of the answer to this message; empty when the keeper has ended."""
        loop, data = asyncio.get_running_loop(), b""
        with contextlib.suppress(BrokenPipeError):
            await loop.sock_sendall(self._channel, message)
        while (found := fields_of(data)) is None:
            try:
                chunk = await loop.sock_recv(self._channel, 65536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return []
            data += chunk
        return found


class Failure(NamedTuple):
    """A step of a keeper that failed."""

    what: str
    path: str
    error: int
    """Number of the error; 0 = none."""


def refusal(job: JobId, failure: Failure) -> Refused:
    """The refusal for what a keeper reports: what it tried, with the path and the reason."""
    text = f"job {job}: cannot {failure.what} {_shown(failure.path)}".rstrip()
    text += f": {os.strerror(failure.error)}" if failure.error else ""
    if failure.what in _OF_THE_NODE:
        return NoSpace(text) if failure.error in _NO_ROOM else Broken(text)
    return NotPermitted(text) if failure.what == "become the user" else InvalidRequest(text)


def _shown(path: str) -> str:
    """Return the path in UTF-8, with other bytes as in ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Watch:
    """Calls back once when a process ends. Also works for processes that are not children."""

    def __init__(self, pid: int, start_ticks: int, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._fd: int | None = None
        loop = asyncio.get_running_loop()
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            loop.call_soon(on_end)
            return
        stat = procfs.read_stat(pid)
        if stat is None or stat.start_ticks != start_ticks:
            self.close()
            loop.call_soon(on_end)
            return
        loop.add_reader(self._fd, self._ended)

    def close(self) -> None:
        """Stop watching."""
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _ended(self) -> None:
        self.close()
        self._on_end()


async def ended(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await readable(fd)
    finally:
        os.close(fd)


async def readable(fd: int) -> None:
    """Wait until the descriptor is readable or at its end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)
