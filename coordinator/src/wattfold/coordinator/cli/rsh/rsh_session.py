"""Session of a remote shell with a step host: connect, authenticate, request, transfer, end.

With a terminal, keys go to the terminal of the command as they are, so Ctrl-C and Ctrl-Z act there.

No direction waits for another: unread output stops the reading of more output, input is sent as far
as the host has room for it, and signals are sent at once. It uses only the standard library and the
contract.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.contract.step_protocol import (
    DATA_BYTES_MAX,
    FROM_HOST_RUNNING,
    INPUT_WINDOW_BYTES,
    MAC_BYTES,
    NONCE_BYTES,
    Frame,
    FrameKind,
    FrameReader,
    Meeting,
    StepError,
    StepExit,
    StepProtocolError,
    StepRequest,
    TerminalSize,
    job_line,
    same_mac,
    unpack_credit,
)

WAIT_S = 30.0
WAIT_S_MAX = 3600.0
CONNECT_S = 5.0
ANSWER_S = 10.0
_RETRY_S = 0.05
_RETRY_S_MAX = 1.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FORWARDED_TOO = (signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end a session with a terminal. Its keys do not send them."""
_PIPE_BYTES = select.PIPE_BUF
"""Bytes that a pipe ready for writing takes without blocking."""


class Terminal:
    """The terminal of this process."""

    def size(self) -> TerminalSize:
        """Return its size now."""
        columns, rows = os.get_terminal_size(0)
        return TerminalSize(rows=rows, columns=columns)

    @contextlib.contextmanager
    def raw(self) -> Iterator[None]:
        """Pass all keys on as they are while the block runs."""
        before = termios.tcgetattr(0)
        # Not the default, which would discard keys that were typed meanwhile.
        tty.setraw(0, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)


class RshError(Exception):
    """No command runs, or no longer; its text is one line with the reason."""


class _NotYetError(Exception):
    """The step host may start a moment later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHostAt:
    """A step host: address (unix:PATH or tcp:HOST:PORT), node, and job with its key."""

    address: str
    node: str
    job: str
    key: bytes


def run_remote(
    request: StepRequest,
    host: StepHostAt,
    *,
    no_input: bool = False,
    terminal: Terminal | None = None,
) -> int:
    """Run a command on another node and return its exit code, or 128 + signal. Raises RshError.

    ``terminal``: connect it to a terminal of the command; None = pipes.
    """
    conn, reader = _meet(host.address, host.node, host.job, host.key)
    with conn:
        try:
            asked = Frame(FrameKind.REQUEST, request.pack())
        except StepProtocolError as error:
            raise RshError(str(error)) from None
        reader.expected = FROM_HOST_RUNNING
        with terminal.raw() if terminal is not None else contextlib.nullcontext():
            return _Session(conn, reader, host.node, no_input, terminal).run(asked)


def current_folder() -> bytes:
    """Return the folder of this process; the root if it was removed."""
    try:
        return os.getcwdb()
    except OSError:
        return b"/"


def _meet(address: str, node: str, job: str, key: bytes) -> tuple[socket.socket, FrameReader]:
    """Return an authenticated connection; wait if the step host is not up yet. Raises RshError."""
    wait_s = _wait_s()
    until_s, pause_s = time.monotonic() + wait_s, _RETRY_S
    while True:
        try:
            conn = _connect(address)
            try:
                return conn, _prove(conn, node, job, key)
            except BaseException:
                conn.close()
                raise
        except (OSError, _NotYetError) as error:
            if time.monotonic() + pause_s >= until_s:
                why = getattr(error, "strerror", None) or error
                raise RshError(f"no step host on {node} within {wait_s:.0f} s: {why}") from None
        except StepProtocolError as error:
            raise RshError(
                f"the process that answers for {node} is not a step host: {error}"
            ) from None
        # A signal ends this process meanwhile, as nothing is forwarded yet.
        select.select([], [], [], pause_s)
        pause_s = min(pause_s * 1.5, _RETRY_S_MAX)


def _wait_s() -> float:
    """Return the time to wait for a step host (WATTFOLD_STEP_WAIT_S). Raises RshError."""
    given = os.environ.get("WATTFOLD_STEP_WAIT_S", "")
    try:
        wait_s = float(given) if given else WAIT_S
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise RshError(f"WATTFOLD_STEP_WAIT_S={given} is outside 0 to {WAIT_S_MAX:.0f} seconds")
    return wait_s


def _connect(address: str) -> socket.socket:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        conn = socket.socket(socket.AF_UNIX)
        conn.settimeout(CONNECT_S)
        try:
            conn.connect(rest)
        except BaseException:
            conn.close()
            raise
        return conn
    host, _, port = rest.rpartition(":")
    conn = socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S)
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        conn.setsockopt(socket.IPPROTO_TCP, option, value)
    return conn


def _prove(conn: socket.socket, node: str, job: str, key: bytes) -> FrameReader:
    """Prove to each other that both sides have the key."""
    conn.settimeout(ANSWER_S)
    conn.sendall(job_line(JobId(job)))
    reader = FrameReader({FrameKind.CHALLENGE, FrameKind.ERROR})
    host_nonce = _answer(conn, reader)
    if len(host_nonce) != NONCE_BYTES:
        raise StepProtocolError(f"CHALLENGE of {len(host_nonce)} bytes")
    shell_nonce = secrets.token_bytes(NONCE_BYTES)
    meeting = Meeting(key=key, job=job, node=node, host_nonce=host_nonce, shell_nonce=shell_nonce)
    reader.expected = frozenset({FrameKind.WELCOME, FrameKind.ERROR})
    conn.sendall(Frame(FrameKind.PROOF, shell_nonce + meeting.shell_mac()).pack())
    mac = _answer(conn, reader)
    if len(mac) != MAC_BYTES or not same_mac(mac, meeting.host_mac()):
        raise StepProtocolError("it does not have the key of the job")
    return reader


def _answer(conn: socket.socket, reader: FrameReader) -> bytes:
    while True:
        for frame in reader.frames():
            if frame.kind is FrameKind.ERROR:
                error = StepError.unpack(frame.body)
                raise _NotYetError(error.text) if error.not_yet else RshError(error.text)
            return frame.body
        data = conn.recv(DATA_BYTES_MAX)
        if not data:
            # The agent has no room for this connection, or is being restarted.
            raise _NotYetError("the connection was closed")
        reader.feed(data)


class _Session:
    """A command that runs on the other node."""

    def __init__(
        self,
        conn: socket.socket,
        reader: FrameReader,
        node: str,
        no_input: bool,
        terminal: Terminal | None = None,
    ) -> None:
        self._conn = conn
        self._reader = reader
        self._node = node
        self._out = bytearray()
        self._writes: dict[int, deque[memoryview]] = {1: deque(), 2: deque()}
        self._window = INPUT_WINDOW_BYTES
        self._input_open = not no_input
        self._terminal = terminal
        self._end: StepExit | None = None
        self._over = False
        self._wake = -1
        conn.setblocking(False)

    def run(self, asked: Frame) -> int:
        """Request the command and transfer data until its end; return its exit code.

        Raises RshError.
        """
        # First, because a caller may send signals as soon as the command has started.
        self._wake = self._forward_signals()
        self._send_size()
        self._send(asked)
        if not self._input_open:
            self._send(Frame(FrameKind.STDIN_END))
        while self._end is None or any(self._writes.values()):
            if self._over and not any(self._writes.values()):
                raise RshError(f"the connection to {self._node} was lost")
            poll = select.poll()
            for fd, events in self._wanted().items():
                poll.register(fd, events)
            for fd, events in poll.poll():
                self._ready(fd, events)
        return self._end.status

    def _wanted(self) -> dict[int, int]:
        wanted = {self._wake: select.POLLIN}
        busy = [fd for fd, parts in self._writes.items() if parts]
        wanted.update(dict.fromkeys(busy, select.POLLOUT))
        if self._over or self._end is not None:
            return wanted
        # Unread output stops the host through the socket. A lost host is still noticed.
        events = (0 if busy else select.POLLIN) | (select.POLLOUT if self._out else 0)
        wanted[self._conn.fileno()] = events
        if self._input_open and self._window > 0 and len(self._out) < DATA_BYTES_MAX:
            wanted[0] = select.POLLIN
        return wanted

    def _ready(self, fd: int, events: int) -> None:
        if fd == self._conn.fileno():
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self._receive()
            if events & select.POLLOUT:
                self._flush()
        elif fd == self._wake:
            self._signalled()
        elif fd == 0:
            self._read_input()
        else:
            self._write_output(fd)

    def _receive(self) -> None:
        try:
            data = self._conn.recv(DATA_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._over = True
            return
        self._reader.feed(data)
        try:
            for frame in self._reader.frames():
                self._take(frame)
        except StepProtocolError as error:
            raise RshError(f"{self._node}: {error}") from None

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.STDOUT:
            self._writes[1].append(memoryview(frame.body))
        elif frame.kind is FrameKind.STDERR:
            self._writes[2].append(memoryview(frame.body))
        elif frame.kind is FrameKind.CREDIT:
            self._window += unpack_credit(frame.body)
        elif frame.kind is FrameKind.EXIT:
            self._end = StepExit.unpack(frame.body)
        elif frame.kind is FrameKind.ERROR:
            raise RshError(StepError.unpack(frame.body).text)

    def _send(self, frame: Frame) -> None:
        self._out += frame.pack()
        self._flush()

    def _flush(self) -> None:
        if not self._out or self._over:
            return
        try:
            sent = self._conn.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            # Data that the host sent before it was lost must still be read.
            sent = len(self._out)
        del self._out[:sent]

    def _read_input(self) -> None:
        try:
            data = os.read(0, min(DATA_BYTES_MAX, self._window))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._window -= len(data)
            self._send(Frame(FrameKind.STDIN, data))
        elif self._terminal is not None:
            raise RshError("the terminal was closed")
        else:
            self._input_open = False
            self._send(Frame(FrameKind.STDIN_END))

    def _write_output(self, fd: int) -> None:
        parts = self._writes[fd]
        part = parts.popleft()
        try:
            written = os.write(fd, part[:_PIPE_BYTES])
        except BlockingIOError:
            written = 0
        except OSError as error:
            raise RshError(f"cannot write output of {self._node}: {error.strerror}") from None
        if written < len(part):
            parts.appendleft(part[written:])

    def _forward_signals(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (*_FORWARDED, *_FORWARDED_TOO):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda _number, _frame: None)
        if self._terminal is not None:
            signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
        return reader

    def _signalled(self) -> None:
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._wake, 64)
        for number in numbers:
            if number == signal.SIGWINCH:
                self._send_size()
            elif self._terminal is not None and number in _ENDING:
                raise RshError(f"ended by {signal.Signals(number).name}")
            else:
                self._send(Frame(FrameKind.SIGNAL, bytes([number])))

    def _send_size(self) -> None:
        if self._terminal is not None:
            self._send(Frame(FrameKind.WINDOW, self._terminal.size().pack()))
