"""One guard process and the pipes to and from it. No call blocks or keeps more than one message.

A lease is at most as long as the guard and its second know. Its end is one short write, which the
kernel accepts completely or not at all, and the guard answers with the same number when both hold
it. The list of writes may be long. The part that the pipe does not accept follows later, and only
the newest list is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from wattfold.nodeagent import guard
from wattfold.nodeagent.adapters.jobs.processes import ended

Writes = Sequence[tuple[Path, str]]
SOURCES = str(Path(guard.__file__).resolve().parents[2])
START = (
    "import sys; sys.path.append(sys.argv[1]); from wattfold.nodeagent.guard import main; main()"
)
"""Program of the guard. The arguments are `SOURCES`, the state folder and the instance."""
_READY_S = 20.0
_CONFIRM_S = 1.5
"""The coordinator waits for 2 s, and the guard replaces its second after 0.5 s."""
_GOODBYE_S = 5.0


class GuardProcess:
    """A guard that listens. Used from the event loop only."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self.pid = process.pid
        self._process = process
        assert process.stdout is not None
        self._fd = process.stdin.fileno()
        self._answers = process.stdout.fileno()
        self._rest = b""
        self._next = b""
        self._asked_ns = 0
        self._said = b""
        self._silent = False
        self._waiting: asyncio.Future[bool] | None = None
        os.set_blocking(self._fd, False)
        os.set_blocking(self._answers, False)
        asyncio.get_running_loop().add_reader(self._answers, self._hear)

    @classmethod
    async def start(cls, state_dir: Path, instance: str) -> GuardProcess:
        """Start a guard and wait until it and its second listen.

        Raises OSError and leaves no process then.
        """
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, SOURCES, str(state_dir), instance],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
        found = cls(process)
        try:
            if not await found.confirms(_READY_S):
                raise OSError("the guard ended before it was ready")
        except BaseException:
            await found.end()
            raise
        return found

    def hold_until(self, deadline_ns: int) -> bool:
        """Send the end of the lease. Returns False if the guard did not receive it."""
        self._asked_ns = deadline_ns
        self._settle(confirmed=False)
        if self._rest or self._next:
            return False
        return self._whole({"deadline_ns": deadline_ns})

    async def confirms(self, within_s: float = _CONFIRM_S) -> bool:
        """Wait until guard and second hold the end of the lease that was just sent.

        Returns False if another end was sent meanwhile or the guard has ended. Raises TimeoutError.
        """
        if self._silent:
            return False
        self._waiting = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(within_s):
            return await self._waiting

    def _hear(self) -> None:
        try:
            said = os.read(self._answers, 65536)
        except BlockingIOError:
            return
        *lines, self._said = (self._said + said).split(b"\n")
        if not said:
            self._silent = True
            asyncio.get_running_loop().remove_reader(self._answers)
            self._settle(confirmed=False)
        elif lines and int(lines[-1]) == self._asked_ns:
            self._settle(confirmed=True)

    def _settle(self, *, confirmed: bool) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(confirmed)

    def replace_writes(self, writes: Writes, deadline_ns: int) -> None:
        """Send the writes, with the end of their lease."""
        pairs = [(str(path), text) for path, text in writes]
        self._asked_ns = deadline_ns
        self._next = _line({"writes": pairs, "deadline_ns": deadline_ns})
        self._flush()

    def unread_bytes(self) -> int:
        """Return the number of bytes that the guard has not read yet."""
        answer = fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4)
        return int(struct.unpack("i", answer)[0]) + len(self._rest) + len(self._next)

    async def ended(self) -> int:
        """Wait for the end of the guard and return its exit status."""
        # The process was already collected, and its PID may belong to another process.
        if self._process.returncode is None:
            await ended(self.pid)
        return self._process.wait()

    async def goodbye(self) -> None:
        """End the guard without writes, and wait for its end."""
        if self._rest or not self._whole({"bye": True}):
            # It must not mistake the end of input for the death of the agent.
            await self.end()
            return
        self._close()
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await ended(self.pid)
        except TimeoutError:
            self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Kill the guard."""
        self._process.kill()

    async def end(self) -> None:
        """Kill the guard and free the pipe. No other method may be called afterwards."""
        self._process.kill()
        await self.ended()
        self._close()

    def _close(self) -> None:
        self._rest = self._next = b""
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._fd)
        loop.remove_reader(self._answers)
        self._settle(confirmed=False)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _whole(self, message: dict[str, object]) -> bool:
        # Up to PIPE_BUF (4096 bytes) a pipe accepts everything or nothing.
        try:
            os.write(self._fd, _line(message))
        except OSError:
            return False
        return True

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._fd)
        while self._rest or self._next:
            if not self._rest:
                self._rest, self._next = self._next, b""
            try:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
            except BlockingIOError:
                loop.add_writer(self._fd, self._flush)
                return
            except OSError:
                # The guard is dead. The next guard receives everything.
                self._rest = self._next = b""


def kill_guard(pid: int) -> None:
    """Kill the guard of an earlier agent. The caller has checked that it is a guard."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 9)


def is_guard(pid: int) -> bool:
    """Whether a process has the name of a guard."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == guard.NAME
    except OSError:
        return False


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message).encode() + b"\n"
