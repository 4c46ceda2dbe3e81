"""The process of a step and its descriptors: three pipes, or a terminal.

The process leads a session, and a terminal is the controlling one of that session. So the kernel
turns Ctrl-C and Ctrl-Z into signals, and hangs up when the process ends. It uses only the standard
library and ``contract``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import termios
from dataclasses import dataclass, field

from wattfold.contract.step_protocol import FrameKind, StepRequest, TerminalSize, of_a_node
from wattfold.nodeagent.step_surroundings import Surroundings


@dataclass(slots=True, kw_only=True)
class StepCommand:
    """A running command. All descriptors are non-blocking."""

    process: subprocess.Popen[bytes]
    stdin: int | None
    """Where its input is written; None = closed."""
    outputs: dict[int, FrameKind] = field(default_factory=dict)
    """Open outputs, with the kind of their frames."""
    terminal: bool = False

    def close_stdin(self) -> None:
        """Close its input. A terminal stays open for its output."""
        if self.stdin is not None:
            with contextlib.suppress(OSError):
                os.close(self.stdin)
            self.stdin = None

    def close_output(self, fd: int) -> None:
        """Close one of its outputs."""
        del self.outputs[fd]
        with contextlib.suppress(OSError):
            os.close(fd)

    def resize(self, size: TerminalSize) -> None:
        """Set the size of its terminal, which sends SIGWINCH to the foreground. No-op with pipes.

        Raises OSError.
        """
        if self.terminal and self.stdin is not None:
            _set_size(self.stdin, size)

    def close(self) -> None:
        """Close all descriptors."""
        self.close_stdin()
        for fd in list(self.outputs):
            self.close_output(fd)


def start_command(
    request: StepRequest, around: Surroundings, cwd: str, size: TerminalSize | None
) -> StepCommand:
    """Start a command, on a terminal of this size or with pipes (None). Raises OSError."""
    env = {**around.env, **{n: v for n, v in request.env if not of_a_node(n)}}
    argv: list[str | bytes] = [around.shell]
    if request.command:
        argv += ["-c", request.command]
    return _on_pipes(argv, env, cwd) if size is None else _on_terminal(argv, env, cwd, size)


def _on_pipes(argv: list[str | bytes], env: dict[bytes, bytes], cwd: str) -> StepCommand:
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ends = []
        for writes in (True, False, False):
            reader, writer = os.pipe()
            mine, other = (writer, reader) if writes else (reader, writer)
            ours.callback(os.close, mine)
            theirs.callback(os.close, other)
            ends.append((mine, other))
        (stdin, a), (stdout, b), (stderr, c) = ends
        process = subprocess.Popen(
            argv, stdin=a, stdout=b, stderr=c, start_new_session=True, cwd=cwd, env=env
        )
        ours.pop_all()
    for fd in (stdin, stdout, stderr):
        os.set_blocking(fd, False)
    outputs = {stdout: FrameKind.STDOUT, stderr: FrameKind.STDERR}
    return StepCommand(process=process, stdin=stdin, outputs=outputs)


def _on_terminal(
    argv: list[str | bytes], env: dict[bytes, bytes], cwd: str, size: TerminalSize
) -> StepCommand:
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        master, slave = os.openpty()
        ours.callback(os.close, master)
        theirs.callback(os.close, slave)
        # Another number, because input may end before output.
        stdin = os.dup(master)
        ours.callback(os.close, stdin)
        _set_size(master, size)
        process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # The host has one thread, so the fork is safe.
            preexec_fn=_take_terminal,
            cwd=cwd,
            env=env,
        )
        ours.pop_all()
    os.set_blocking(master, False)
    outputs = {master: FrameKind.STDOUT}
    return StepCommand(process=process, stdin=stdin, outputs=outputs, terminal=True)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(terminal: int, size: TerminalSize) -> None:
    termios.tcsetwinsize(terminal, (size.rows, size.columns))
