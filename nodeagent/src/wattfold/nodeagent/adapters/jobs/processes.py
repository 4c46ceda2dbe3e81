"""Starting a job through its keeper, and watching processes by pidfd.

Starting has two halves, so that a job is on record before its first instruction: ``prepare`` leaves
a process that is confined and waits, ``go`` lets it become the program.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.core.errors import Broken, InvalidRequest, NoSpace, NotPermitted, Refused

_ANSWER_S = 30.0
_OF_THE_NODE = {"start a keeper", "set up its keeper", "set the affinity", "enter the cgroup"}
"""Steps of a launch that depend on nothing that the user has chosen. Failures of the others, such
as of a full home directory, are no faults of the node: one user could close all nodes otherwise."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOrder:
    """The order to a keeper; sent as JSON."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    script: str
    """Text of the script to run instead of the first word of ``argv``; empty = none."""
    snapshot_path: str
    """A folder to create for the job; empty = none."""
    keep_output: bool
    """Whether the output of earlier attempts is kept."""
    affinity: list[int]
    procs_paths: list[str]
    uid: int | None
    gid: int | None
    user: str
    exit_path: str
    agent_pid_path: str
    stopped_path: str
    """Where the agent records the processes it has stopped; empty = it stops none."""
    files_soft_max: int
    processes_max: int
    """Limit of the account, including threads; 0 = a control group limits the job."""
    groups: list[str]
    """Control groups with exactly the processes of this job, which can end them."""
    umask: int
    limits: list[tuple[str, int | None]]
    """Soft limits by name; None = none."""
    inherited: list[int]
    """Descriptors that go to the job, and are closed here once its keeper has them."""

    def line(self) -> str:
        """The order as JSON."""
        # Not `asdict`, which copies the whole environment.
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)})


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
        number = theirs.fileno()
        try:
            fds = {0: number, 1: number, **{fd: fd for fd in order.inherited}}
            starting = cls(job, await keepers.keeper(fds), ours)
        except OSError as error:
            ours.close()
            report = {"what": "start a keeper", "path": "", "errno": error.errno}
            raise refusal(job, report) from None
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            for fd in order.inherited:
                os.close(fd)
        try:
            starting.pid = int((await starting._ask(order.line()))["pid"])
        except BaseException:
            await starting.abandon()
            raise
        return starting

    async def go(self) -> None:
        """Lets the job run. Raises Refused if its program cannot be executed."""
        try:
            await self._ask("go")
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
        finally:
            os.close(self._keeper_fd)

    async def _ask(self, line: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await self._exchange(line.encode("utf-8", "surrogateescape") + b"\n")
        except TimeoutError:
            signal.pidfd_send_signal(self._keeper_fd, signal.SIGKILL)
            raise Broken(
                f"job {self._job}: its keeper did not answer within {_ANSWER_S} s"
            ) from None
        if not found:
            raise Broken(f"job {self._job}: its keeper ended before the job was started")
        answer: dict[str, Any] = json.loads(found)
        if "error" in answer:
            raise refusal(self._job, answer["error"])
        return answer

    async def _exchange(self, line: bytes) -> bytes:
        """The line that answers this one; empty when the keeper has ended."""
        loop, data = asyncio.get_running_loop(), b""
        with contextlib.suppress(BrokenPipeError):
            await loop.sock_sendall(self._channel, line)
        while not data.endswith(b"\n"):
            try:
                chunk = await loop.sock_recv(self._channel, 65536)
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return b""
            data += chunk
        return data


def refusal(job: JobId, report: dict[str, Any]) -> Refused:
    """The refusal for what a keeper reports: what it tried, with the path and the reason."""
    number = int(report["errno"] or 0)
    text = f"job {job}: cannot {report['what']} {_shown(report['path'])}".rstrip()
    text += f": {os.strerror(number)}" if number else ""
    if report["what"] in _OF_THE_NODE:
        return NoSpace(text) if number in _NO_ROOM else Broken(text)
    return NotPermitted(text) if report["what"] == "become the user" else InvalidRequest(text)


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
