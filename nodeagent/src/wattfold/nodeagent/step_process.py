"""One step of a job: the command of a remote shell, from its proof to its exit.

It works on an event loop with descriptors (`step_host`). The command leads a session, so that all
its processes are found and ended with the connection. Its exit is sent when it has ended and no
process holds its outputs, as in ssh. Processes that it leaves without its outputs stay until the
job ends. It uses only the standard library and ``contract``.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import time
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector

from wattfold.contract.step_protocol import (
    DATA_BYTES_MAX,
    FROM_SHELL_PROVEN,
    FROM_SHELL_RUNNING,
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
    pack_credit,
    same_mac,
)
from wattfold.nodeagent.session_processes import session_members
from wattfold.nodeagent.step_command import StepCommand, start_command
from wattfold.nodeagent.step_surroundings import Surroundings, start_folder

PROOF_S = 5.0
KILL_AFTER_S = 2.0
LINGER_S = 10.0
OUTPUT_BYTES_MAX = 256 * 1024
"""Maximum output that waits for the connection. Beyond it, the command's pipes fill up."""
_SIGNALS = frozenset({"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "KILL", "CONT", "STOP", "TSTP"})
ALLOWED_SIGNALS = frozenset(int(getattr(signal, f"SIG{name}")) for name in _SIGNALS)


class StepConnection:
    """A connection and its command. ``closed`` when both have ended."""

    def __init__(self, conn: socket.socket, selector: BaseSelector, around: Surroundings) -> None:
        self.closed = False
        self.proven = False
        self.deadline_s: float | None = time.monotonic() + PROOF_S
        self._conn: socket.socket | None = conn
        self._selector = selector
        self._around = around
        self._reader = FrameReader({FrameKind.PROOF})
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._out = bytearray()
        self._input = bytearray()
        self._input_ends = False
        self._window: TerminalSize | None = None
        self._command: StepCommand | None = None
        self._watched: dict[int, int] = {}
        self._finished = False
        self._ending = False
        conn.setblocking(False)
        self._send(Frame(FrameKind.CHALLENGE, self._nonce))

    # Calls from the loop.

    def ready(self, fd: int, events: int) -> None:
        """Handle a descriptor of this step that is readable or writable."""
        if self._conn is not None and fd == self._conn.fileno():
            if events & EVENT_READ:
                self._receive()
            if events & EVENT_WRITE:
                self._flush()
        elif self._command is not None and fd == self._command.stdin:
            self._feed()
        elif self._command is not None and fd in self._command.outputs:
            self._take_output(self._command, fd)
        self._watch()

    def child_changed(self) -> None:
        """Handle the end of some child of the host, which may belong to this step."""
        self._finish_if_done()
        self._watch()

    def time_passed(self, now_s: float) -> None:
        """Check whether the deadline of this step has passed."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return
        self.deadline_s = None
        if self._ending:
            self._signal_session(signal.SIGKILL)
            self._gone()
        elif self._finished or self._command is None:
            self._hang_up()
        self._watch()

    def end(self) -> None:
        """End the command and all its processes; SIGKILL follows."""
        self._close_conn()
        if self._ending or self.closed:
            return
        if self._command is None:
            self._gone()
            return
        self._ending = True
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
            self._signal_session(number)
        self.deadline_s = time.monotonic() + KILL_AFTER_S
        self._finish_if_done()
        self._watch()

    # The connection.

    def _receive(self) -> None:
        assert self._conn is not None
        try:
            data = self._conn.recv(DATA_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            return
        if self._finished:
            return  # Input that came too late.
        self._reader.feed(data)
        try:
            for frame in self._reader.frames():
                self._take(frame)
                if self._conn is None or self._finished:
                    return
        except StepProtocolError as error:
            self._refuse(str(error))

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.PROOF:
            self._prove(frame.body)
        elif frame.kind is FrameKind.REQUEST:
            self._start(StepRequest.unpack(frame.body))
        elif frame.kind is FrameKind.WINDOW:
            self._resize(TerminalSize.unpack(frame.body))
        elif frame.kind is FrameKind.STDIN:
            self._input += frame.body
            if len(self._input) > INPUT_WINDOW_BYTES or self._input_ends:
                raise StepProtocolError("input exceeds the window")
            self._feed()
        elif frame.kind is FrameKind.STDIN_END:
            self._input_ends = True
            self._feed()
        elif frame.kind is FrameKind.SIGNAL:
            number = int.from_bytes(frame.body, "little")
            if number not in ALLOWED_SIGNALS:
                raise StepProtocolError(f"signal {number} cannot be forwarded")
            if self._command is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._command.process.pid, number)

    def _prove(self, body: bytes) -> None:
        around = self._around
        if len(body) != NONCE_BYTES + MAC_BYTES:
            raise StepProtocolError(f"PROOF of {len(body)} bytes")
        meeting = Meeting(
            key=around.key,
            job=around.job,
            node=around.node,
            host_nonce=self._nonce,
            shell_nonce=body[:NONCE_BYTES],
        )
        if not same_mac(body[NONCE_BYTES:], meeting.shell_mac()):
            self._refuse(f"not a remote shell of job {around.job}")
            return
        self.proven = True
        self._reader.expected = FROM_SHELL_PROVEN
        self._send(Frame(FrameKind.WELCOME, meeting.host_mac()))

    def _send(self, frame: Frame) -> None:
        self._out += frame.pack()
        self._flush()

    def _flush(self) -> None:
        if self._conn is None or not self._out:
            return
        try:
            sent = self._conn.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()
            return
        del self._out[:sent]
        if self._finished and not self._out:
            # Unread input would make the kernel reset the connection and lose the exit.
            with contextlib.suppress(OSError):
                self._conn.shutdown(socket.SHUT_WR)

    def _refuse(self, why: str) -> None:
        if self._command is None:
            self._finished = True
            self.deadline_s = time.monotonic() + LINGER_S
        self._send(StepError(text=why).frame())
        if self._command is not None:
            self._hang_up()

    def _hang_up(self) -> None:
        """Handle the end of the connection, which ends its command."""
        if self._finished:
            self._close_conn()
            self._gone()
        else:
            self.end()

    def _close_conn(self) -> None:
        if self._conn is not None:
            self._unwatch(self._conn.fileno())
            self._conn.close()
            self._conn = None

    # The command.

    def _start(self, request: StepRequest) -> None:
        self.deadline_s = None
        self._reader.expected = FROM_SHELL_RUNNING
        around = self._around
        cwd, missing = start_folder(request.cwd, around.cwd)
        if missing:
            note = (
                f"wattfold-rsh: {around.node}: folder {missing} does not exist; started in {cwd}\n"
            )
            self._send(Frame(FrameKind.STDERR, note.encode("utf-8", "replace")[:4096]))
        try:
            self._command = start_command(request, around, cwd, self._window)
        except OSError as error:
            self._refuse(f"cannot start the command on {around.node}: {error.strerror}")

    def _resize(self, size: TerminalSize) -> None:
        if self._command is None:
            self._window = size
            return
        with contextlib.suppress(OSError):
            # Its terminal may have been hung up.
            self._command.resize(size)

    def _feed(self) -> None:
        command = self._command
        if command is None or command.stdin is None:
            self._give_credit(len(self._input))
            self._input.clear()
            return
        if self._input:
            try:
                taken = os.write(command.stdin, self._input[:DATA_BYTES_MAX])
            except BlockingIOError:
                taken = 0
            except OSError:
                # The command reads no more, so its input is discarded, as with a pipe.
                self._close_stdin(command)
                taken = len(self._input)
            del self._input[:taken]
            self._give_credit(taken)
        if self._input_ends and not self._input:
            self._close_stdin(command)

    def _give_credit(self, taken: int) -> None:
        if taken:
            self._send(Frame(FrameKind.CREDIT, pack_credit(taken)))

    def _close_stdin(self, command: StepCommand) -> None:
        if command.stdin is not None:
            self._unwatch(command.stdin)
            command.close_stdin()

    def _take_output(self, command: StepCommand, fd: int) -> None:
        try:
            data = os.read(fd, DATA_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            # A terminal without processes.
            data = b""
        if data:
            self._send(Frame(command.outputs[fd], data))
            return
        self._unwatch(fd)
        command.close_output(fd)
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        """Send the exit when the command has ended and its outputs are closed."""
        command = self._command
        if command is None or self._finished or self.closed:
            return
        process = command.process
        # Not reaped: while its PID is in use, its session can be signalled safely.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, process.pid, options)
        if ended is None:
            return
        if self._ending:
            if not list(session_members(process.pid)):
                self._gone()
            return
        if command.outputs:
            return
        self._finished = True
        killed = ended.si_code != os.CLD_EXITED
        status = ended.si_status
        end = StepExit(signal=status) if killed else StepExit(code=status)
        self.deadline_s = time.monotonic() + LINGER_S
        self._close_stdin(command)
        self._send(Frame(FrameKind.EXIT, end.pack()))

    def _signal_session(self, number: int) -> None:
        if self._command is not None:
            for pid in session_members(self._command.process.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def _gone(self) -> None:
        self.deadline_s = None
        self._close_conn()
        for fd in list(self._watched):
            self._unwatch(fd)
        if self._command is not None:
            self._command.close()
            # Killed, but perhaps not dead yet. In that case the next start of a command reaps it.
            self._command.process.poll()
        self.closed = True

    # Descriptors of the selector.

    def _watch(self) -> None:
        if self.closed:
            return
        wanted: dict[int, int] = {}
        if self._conn is not None:
            wanted[self._conn.fileno()] = EVENT_READ | (EVENT_WRITE if self._out else 0)
        if (command := self._command) is not None:
            if len(self._out) < OUTPUT_BYTES_MAX and self._conn is not None:
                wanted.update(dict.fromkeys(command.outputs, EVENT_READ))
            if command.stdin is not None and self._input:
                wanted[command.stdin] = EVENT_WRITE
        for fd in self._watched.keys() - wanted.keys():
            self._unwatch(fd)
        for fd, events in wanted.items():
            if fd not in self._watched:
                self._selector.register(fd, events, self)
            elif self._watched[fd] != events:
                self._selector.modify(fd, events, self)
            self._watched[fd] = events

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._selector.unregister(fd)

    def begin(self) -> None:
        """Let the loop watch the connection."""
        self._watch()
