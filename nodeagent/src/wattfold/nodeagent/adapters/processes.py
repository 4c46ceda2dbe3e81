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
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters import procfs
from wattfold.nodeagent.core.errors import Broken, InvalidRequest, NoSpace, NotPermitted, Refused

_SOURCES = Path(__file__).resolve().parents[3]
_START = (
    "import sys; sys.path.append(sys.argv[1]); from wattfold.nodeagent.keeper import main; main()"
)
_ANSWER_S = 30.0
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOrder:
    """What a keeper is told; becomes JSON."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    snapshot_path: str
    """A folder that is made for the job; empty = none."""
    keep_output: bool
    """What earlier attempts have written stays."""
    affinity: list[int]
    procs_paths: list[str]
    uid: int | None
    gid: int | None
    user: str
    exit_path: str
    agent_pid_path: str
    stopped_path: str
    """Where the agent keeps what it has stopped of the job; empty = it stops nothing."""
    files_soft_max: int
    processes_max: int
    """Limit of the account, threads counted; 0 = a control group limits the job."""
    groups: list[str]
    """Control groups with the processes of this job and no others, by which they can be ended."""
    umask: int
    limits: list[tuple[str, int | None]]
    """Soft limits by name; None = none."""
    inherited: list[int]
    """Descriptors that go to the job, and are closed here once its keeper has them."""


class Starting:
    """A job that is prepared and not yet running."""

    def __init__(self, job: JobId, process: subprocess.Popen[bytes]) -> None:
        self._job = job
        self._process = process
        self.keeper = process.pid
        self.pid = 0

    @classmethod
    async def prepare(cls, job: JobId, order: KeeperOrder) -> Starting:
        """Starts a keeper and has it prepare the job. Raises Refused; nothing is left then."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(_SOURCES)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                pass_fds=order.inherited,
            )
        except OSError as error:
            report = {"what": "start a keeper", "path": "", "errno": error.errno}
            raise refusal(job, report) from None
        finally:
            for fd in order.inherited:
                os.close(fd)
        starting = cls(job, process)
        try:
            starting._say(json.dumps(asdict(order)))
            starting.pid = int((await starting._answer())["pid"])
        except BaseException:
            await starting.abandon()
            raise
        return starting

    async def go(self) -> None:
        """Lets the job run. Raises Refused if its program cannot be executed."""
        try:
            self._say("go")
            await self._answer()
        except BaseException:
            await self.abandon()
            raise
        self._close_pipes()

    async def abandon(self) -> None:
        """Ends the keeper; a job that has not been let go ends with it."""
        self._close_pipes()
        await ended(self.keeper)
        self._process.wait()

    def reap(self) -> None:
        """Collects the keeper after it has ended."""
        self._process.poll()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode("utf-8", "surrogateescape") + b"\n")
            self._process.stdin.flush()

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(_read_line(self._process.stdout.fileno()), _ANSWER_S)
        except TimeoutError:
            self._process.kill()
            raise Broken(
                f"job {self._job}: its keeper did not answer within {_ANSWER_S} s"
            ) from None
        if not line:
            raise Broken(f"job {self._job}: its keeper ended before the job was started")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise refusal(self._job, answer["error"])
        return answer

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def refusal(job: JobId, report: dict[str, Any]) -> Refused:
    """The refusal for what a keeper reports: what it tried, with the path and the reason."""
    number = int(report["errno"] or 0)
    text = f"job {job}: cannot {report['what']} {report['path']}".rstrip()
    text += f": {os.strerror(number)}" if number else ""
    if number in _NO_ROOM:
        return NoSpace(text)
    if report["what"] == "become the user":
        return NotPermitted(text)
    if report["what"] in ("enter the cgroup", "set the affinity", "start a keeper"):
        return Broken(text)
    return InvalidRequest(text)


class Watch:
    """Calls back once when a process ends. Works for processes that are not our children."""

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
        """Stops watching."""
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _ended(self) -> None:
        self.close()
        self._on_end()


async def ended(pid: int) -> None:
    """Waits until a process has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await readable(fd)
    finally:
        os.close(fd)


async def readable(fd: int) -> None:
    """Waits until there is something to read, or the end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def _read_line(fd: int) -> str:
    data = b""
    while not data.endswith(b"\n"):
        await readable(fd)
        chunk = os.read(fd, 65536)
        if not chunk:
            return ""
        data += chunk
    return data.decode()
