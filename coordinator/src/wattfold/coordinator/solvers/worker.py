"""Execution of functions in a worker process with a deadline, from an asyncio program.

Solvers need it: Pyomo is not thread-safe, GLPK holds the interpreter lock during a search and calls
abort() on a failed assertion, and a process with gRPC must not be forked. The worker is a fresh
interpreter (`worker_process`), which starts once and stays. If it is late or dies, it is killed,
and the next call gets a new process.

One call runs at a time, others wait in order. A call never takes longer than its deadline,
including waiting and starting. Nothing is retried: the caller decides what follows a `TimedOut` or
`Crashed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from wattfold.coordinator.solvers.worker_frames import HEADER
from wattfold.coordinator.solvers.worker_frames import step_back as step_back

MESSAGE_BYTES_MAX = 2**28
STDERR_BYTES_KEPT = 16_384
WAITING_MAX = 16
START_LIMIT_S = 60.0
"""Limit for the start of a process with its warm-up."""
_MODULE = "wattfold.coordinator.solvers.worker_process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The function returned."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The deadline passed. A worker that was executing this call was killed."""

    deadline_s: float
    while_: str
    """Phase at the deadline: ``waiting``, ``starting`` or ``running``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The function raised an exception, or the process died during the call."""

    reason: str
    details: str
    """The traceback of the exception, or the end of the process's standard error."""


CallResult = Success | TimedOut | Crashed


class WorkerBusyError(RuntimeError):
    """Too many calls wait, so their callers must have stopped waiting for the answers."""


class WorkerClosedError(RuntimeError):
    """A call after `SolverWorker.close`."""


class SolverWorker:
    """A worker process. Belongs to one event loop; use ``async with`` or call `close`."""

    def __init__(self, warm_up: Callable[[], object] | None = None) -> None:
        """``warm_up`` is called once in each new process before its first call: slow imports."""
        self.warm_up = warm_up
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._closed = False
        self._starting: asyncio.Task[_Process] | None = None

    async def __aenter__(self) -> SolverWorker:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Start the process early, so that the first call does not wait for it. Optional."""
        self._current()

    async def call(
        self, function: Callable[..., Any], *args: object, deadline_s: float
    ) -> CallResult:
        """Run ``function(*args)`` in the worker.

        The function must be importable there by its module and name; arguments and result must be
        picklable. Cancelling the call kills the worker if it is executing it.

        Raises:
            WorkerBusyError: WAITING_MAX calls are waiting already.
            WorkerClosedError: after `close`.
            pickle.PicklingError, AttributeError, TypeError: the call cannot be sent.
        """
        if self._closed:
            raise WorkerClosedError("the solver worker is closed")
        if self._waiting >= WAITING_MAX:
            raise WorkerBusyError(f"{self._waiting} calls already wait for the solver worker")
        message = pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
        phase = ["waiting"]
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline_s):
                return await self._in_turn(message, phase)
        except TimeoutError:
            return TimedOut(deadline_s=deadline_s, while_=phase[0])
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Kill the process and wait for its end.

        A call in progress returns Crashed. Idempotent.
        """
        self._closed = True
        starting = self._starting
        if starting is not None:
            if not starting.done():
                starting.cancel()
            with contextlib.suppress(asyncio.CancelledError, _StartError):
                (await asyncio.shield(starting)).signal()
        # Calls in progress and in the queue end first: they still read from the process.
        async with self._turn:
            starting, self._starting = self._starting, None
            if starting is not None:
                with contextlib.suppress(asyncio.CancelledError, _StartError):
                    await (await asyncio.shield(starting)).kill()

    async def _in_turn(self, message: bytes, phase: list[str]) -> CallResult:
        async with self._turn:
            phase[0] = "starting"
            if self._closed:
                return Crashed(reason="the solver worker was closed", details="")
            starting = self._current()
            try:
                # Shielded: if a call is too short for the start, the start continues for the next
                # call.
                process = await asyncio.shield(starting)
            except _StartError as error:
                self._starting = None
                return error.crash
            except asyncio.CancelledError:
                if starting.cancelled():
                    return Crashed(reason="the solver worker was closed", details="")
                raise
            phase[0] = "running"
            finished = False
            try:
                result, finished = await process.exchange(message)
                return result
            finally:
                if not finished:
                    self._starting = None
                    await process.kill()
                    if not self._closed:
                        self._current()

    def _current(self) -> asyncio.Task[_Process]:
        if self._starting is None:
            self._starting = asyncio.create_task(_Process.start(self.warm_up))
        return self._starting


class _StartError(Exception):
    def __init__(self, crash: Crashed) -> None:
        super().__init__(crash.reason)
        self.crash = crash


class _Process:
    """A started worker process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process, stderr_fd: int) -> None:
        self._process = process
        self._stderr_fd = stderr_fd

    @classmethod
    async def start(cls, warm_up: Callable[[], object] | None) -> _Process:
        """Start a process and wait until it is ready. Raises _StartError."""
        # Unlinked at once; shared with the process, read only if it dies.
        with tempfile.TemporaryFile() as file:
            stderr_fd = os.dup(file.fileno())
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                _MODULE,
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr_fd,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                },
                # An interrupt of the coordinator's terminal must not end the solver.
                start_new_session=True,
            )
        except asyncio.CancelledError:
            os.close(stderr_fd)
            raise
        except OSError as error:
            os.close(stderr_fd)
            reason = f"the solver worker cannot be started: {error}"
            raise _StartError(Crashed(reason=reason, details="")) from error
        worker = cls(process, stderr_fd)
        ready = False
        try:
            async with asyncio.timeout(START_LIMIT_S):
                answer, alive = await worker.exchange(pickle.dumps((warm_up, ())))
            if isinstance(answer, Crashed):
                raise _StartError(answer)
            ready = alive
        except TimeoutError as error:
            reason = f"the solver worker was not ready within {START_LIMIT_S:.0f} s"
            raise _StartError(Crashed(reason=reason, details="")) from error
        finally:
            if not ready:
                await worker.kill()
        return worker

    async def exchange(self, message: bytes) -> tuple[Success | Crashed, bool]:
        """Send a call and read its answer; return also whether the process is still usable."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._forget_stderr()
        try:
            stdin.write(HEADER.pack(len(message)) + message)
            await stdin.drain()
            (size,) = HEADER.unpack(await stdout.readexactly(HEADER.size))
            if size > MESSAGE_BYTES_MAX:
                reason = f"the answer has {size} bytes; at most {MESSAGE_BYTES_MAX} are taken"
                return Crashed(reason=reason, details=""), False
            # From our own process, over a pipe that no other process can open.
            ok, value = pickle.loads(await stdout.readexactly(size))  # noqa: S301
        except (ConnectionError, asyncio.IncompleteReadError):
            return await self._died(), False
        if ok:
            return Success(value=value), True
        reason, details = value
        return Crashed(reason=reason, details=details), True

    def signal(self) -> None:
        """Kill the process, without waiting."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.signal()
        await asyncio.shield(self._process.wait())
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._stderr_fd >= 0:
            os.close(self._stderr_fd)
            self._stderr_fd = -1

    async def _died(self) -> Crashed:
        code = await self._process.wait()
        how = f"was ended by signal {-code}" if code < 0 else f"exited with status {code}"
        size = os.fstat(self._stderr_fd).st_size
        start = max(0, size - STDERR_BYTES_KEPT)
        tail = os.pread(self._stderr_fd, STDERR_BYTES_KEPT, start)
        return Crashed(
            reason=f"the solver worker {how}", details=tail.decode(errors="backslashreplace")
        )

    def _forget_stderr(self) -> None:
        # The offset is shared with the process, which continues to write from the start.
        os.ftruncate(self._stderr_fd, 0)
        os.lseek(self._stderr_fd, 0, os.SEEK_SET)
