"""A child process for functions that may crash, hang or exhaust memory, with a blocking caller.

The counterpart of `worker` for callers without an event loop: a policy in the planning worker, a
simulation, a test. The same program runs at the other end (`worker_process`), and it dies with its
parent. It starts at the first call and stays. If it is late or dies, it is killed, and the next
call starts another process. The results are those of `worker`; nothing is retried.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any

from wattfold.coordinator.solvers.worker import (
    MESSAGE_BYTES_MAX,
    STDERR_BYTES_KEPT,
    CallResult,
    Crashed,
    Success,
    TimedOut,
)
from wattfold.coordinator.solvers.worker_frames import HEADER

_MODULE = "wattfold.coordinator.solvers.worker_process"
_CHUNK = 1 << 16


def limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to its current size plus ``more_bytes``."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[0])
    most = pages * resource.getpagesize() + more_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))


class Child:
    """A child process. Belongs to one thread; `close` ends it, as does the end of this process."""

    def __init__(self, warm_up: Callable[[], object] | None = None, memory_bytes: int = 0) -> None:
        """``warm_up`` is called once in each new process.

        ``memory_bytes`` limits the memory that a process may use in addition after that, 0 = no
        limit.
        """
        self._warm_up, self._memory_bytes = warm_up, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy as a child without a process, as in a checkpoint of a simulation."""
        return Child, (self._warm_up, self._memory_bytes)

    def __del__(self) -> None:
        self.close()

    def call(self, function: Callable[..., Any], *args: object, deadline_s: float) -> CallResult:
        """Run ``function(*args)`` in the process; its start counts for the deadline.

        The function must be importable there; arguments and result must be picklable.
        """
        until_s = time.monotonic() + deadline_s
        message = pickle.dumps((function, args), protocol=pickle.HIGHEST_PROTOCOL)
        started = self._start(until_s, deadline_s)
        if not isinstance(started, Success):
            return started
        return self._exchange(message, until_s, deadline_s, "running")

    @property
    def running(self) -> bool:
        """Whether the process was started and has not been found dead."""
        return self._process is not None

    def close(self) -> None:
        """Kill the process and wait for its end. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _start(self, until_s: float, deadline_s: float) -> CallResult:
        if self._process is not None:
            return Success(value=None)
        # Unlinked at once; read only if the process dies.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            return Crashed(reason=f"the solver process cannot be started: {error}", details="")
        first = [(self._warm_up, ())]
        if self._memory_bytes:
            first.append((limit_memory, (self._memory_bytes,)))  # type: ignore[arg-type]
        for call in first:
            ready = self._exchange(pickle.dumps(call), until_s, deadline_s, "starting")
            if not isinstance(ready, Success):
                self.close()
                return ready
        return Success(value=None)

    def _exchange(
        self, message: bytes, until_s: float, deadline_s: float, doing: str
    ) -> CallResult:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            # The process reads a call completely before it does anything else.
            process.stdin.write(HEADER.pack(len(message)) + message)
            process.stdin.flush()
            (size,) = HEADER.unpack(self._read(HEADER.size, until_s))
            if size > MESSAGE_BYTES_MAX:
                self.close()
                reason = f"the answer has {size} bytes; the limit is {MESSAGE_BYTES_MAX}"
                return Crashed(reason=reason, details="")
            # From our own process, over a pipe that no other process can open.
            ok, value = pickle.loads(self._read(size, until_s))  # noqa: S301
        except TimeoutError:
            self.close()
            return TimedOut(deadline_s=deadline_s, while_=doing)
        except (OSError, EOFError):
            return self._died()
        if ok:
            return Success(value=value)
        reason, details = value
        return Crashed(reason=reason, details=details)

    def _read(self, size: int, until_s: float) -> bytes:
        """Read ``size`` bytes. Raises TimeoutError, EOFError."""
        assert self._process is not None
        assert self._process.stdout is not None
        fd, got = self._process.stdout.fileno(), bytearray()
        while len(got) < size:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not select.select([fd], [], [], left_s)[0]:
                raise TimeoutError
            data = os.read(fd, min(size - len(got), _CHUNK))
            if not data:
                raise EOFError
            got += data
        return bytes(got)

    def _died(self) -> Crashed:
        assert self._process is not None
        code = self._process.wait()
        how = f"was ended by signal {-code}" if code < 0 else f"exited with status {code}"
        details = ""
        if self._stderr is not None:
            end = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, end - STDERR_BYTES_KEPT))
            details = self._stderr.read().decode(errors="backslashreplace")
        self.close()
        return Crashed(reason=f"the solver process {how}", details=details)
