"""Standard error of a service, which never waits for its reader.

A pipe without an active reader is full after 64 KiB. A plain write then blocks the event loop:
leases expire and no call is answered. So a line is written at once if the reader takes it at once.
Otherwise it waits in a bounded queue, and a thread writes it later. Lines that find no room are
counted, and one line reports the count when the reader reads again. At its end, the process writes
the waiting lines for a limited time.

Everything that Python writes to `sys.stderr` takes this path too, such as tracebacks. Regular files
are written directly: this module does not help if a file system hangs.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, MutableMapping

from wattfold.contract.log_text import LINE_FORMAT, TIME_FORMAT, line

WAITING_BYTES_MAX = 1 << 20
END_S = 5.0
"""Time that a process gives its reader at its end."""


class LineFormatter(logging.Formatter):
    """Formatter that gives messages of libraries the form of our own; it keeps tracebacks."""

    def __init__(self) -> None:
        super().__init__(LINE_FORMAT, TIME_FORMAT)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        """Return one line that starts with an event."""
        if not record.message.startswith("event="):
            record.message = line("message", logger=record.name, text=record.message)
        return super().formatMessage(record)


class Output:
    """Queue of lines for a descriptor. Safe to use from several threads."""

    def __init__(self, fd: int, bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._fd = fd
        self._at_once = _writer(fd)
        self._bytes_max = bytes_max
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self.dropped_total = 0
        """Number of dropped lines since the start. `_dropped` counts the lines since the report."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Write whole lines now or later, or count them as dropped. Does not block."""
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._waiting and (self._dropped or self._bytes + len(data) > self._bytes_max):
                self._drop(data.count(b"\n"))
                return
            if not self._waiting:
                data = self._sent(self._told_dropped() + data)
            if data:
                self._wait(data)

    def drain(self, wait_s: float) -> bool:
        """Wait this long for the reader to take all waiting lines; return whether it did."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, wait_s)

    def _sent(self, data: bytes) -> bytes:
        """Return the remaining data after an immediate write."""
        try:
            return data[self._at_once(data) :] if self._at_once else data
        except BlockingIOError:
            return data
        except OSError:
            # The reader has closed the pipe, or the disk is full.
            self._drop(data.count(b"\n"))
            return b""

    def _drop(self, lines: int) -> None:
        self._dropped += lines
        self.dropped_total += lines

    def _wait(self, data: bytes) -> None:
        self._waiting.append(data)
        self._bytes += len(data)
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_later, name="log", daemon=True)
            self._thread.start()

    def _write_later(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                data = self._waiting[0]
            try:
                _write_all(self._fd, data)
                lost = 0
            except OSError:
                lost = data.count(b"\n")
            with self._changed:
                # Remove it only now, so that no other line can overtake it.
                self._waiting.popleft()
                self._bytes -= len(data)
                self._drop(lost)
                if self._dropped and not lost and self._bytes <= self._bytes_max // 2:
                    self._wait(self._told_dropped())
                self._changed.notify_all()

    def _told_dropped(self) -> bytes:
        """Return a line with the count of dropped lines, and reset the count; empty if it is 0."""
        if not self._dropped:
            return b""
        why = "standard error was not read in time"
        told = line("log_lines_dropped", lines=self._dropped, reason=why)
        record = logging.LogRecord("wattfold", logging.WARNING, "", 0, told, None, None)
        self._dropped = 0
        return f"{LineFormatter().format(record)}\n".encode()


class _Stream(io.TextIOBase):
    """Replacement of `sys.stderr` that writes lines to an output."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, output: Output, fd: int) -> None:
        self._output, self._fd = output, fd
        self._rest = ""

    def write(self, text: str) -> int:
        lines, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._output.write(lines + end)
        return len(text)

    def flush(self) -> None:
        if self._rest:
            self.write("\n")

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def writable(self) -> bool:
        return True


class _Handler(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output
        self.setFormatter(LineFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - as in logging.StreamHandler
            self.handleError(record)


def start() -> None:
    """Send all logging and `sys.stderr` through an `Output`; libraries log from WARNING on."""
    # Without a standard error, descriptor 2 may belong to another file.
    fd = sys.stderr.fileno() if sys.stderr else os.open(os.devnull, os.O_WRONLY)
    output = Output(fd)
    _outputs.append(output)
    sys.stderr = _Stream(output, fd)
    logging.basicConfig(level=logging.WARNING, handlers=[_Handler(output)], force=True)
    atexit.register(output.drain, END_S)
    environment: MutableMapping[str, str] = os.environ
    # The C core of gRPC writes to descriptor 2 itself, and would block. Calls report their
    # failures.
    environment.setdefault("GRPC_VERBOSITY", "NONE")


_outputs: list[Output] = []
"""The outputs that `start` made."""


def lines_dropped() -> int:
    """Return the number of lines that the reader of standard error did not take in time."""
    return sum(output.dropped_total for output in _outputs)


def _writer(fd: int) -> Callable[[bytes], int] | None:
    """Return a write that takes what it can without waiting; None if every write may wait.

    It opens another file description of the same pipe, because O_NONBLOCK on ours would apply to
    all processes that share it.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return lambda data: os.write(fd, data)
    if stat.S_ISSOCK(mode):
        peer = socket.socket(fileno=os.dup(fd))
        return lambda data: peer.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    with contextlib.suppress(OSError):
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        return lambda data: os.write(own, data)
    return None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
