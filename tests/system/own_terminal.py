"""A command on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

from waiting import DEADLINE_S


class Terminal:
    """A command on its own terminal."""

    def __init__(
        self, arguments: list[str], columns: int = 80, rows: int = 24, folder: Path | None = None
    ) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.shown = b""
        # setsid makes the terminal the controlling one. Not a preexec_fn: that would fork this
        # process with the threads of its gRPC server, which some children do not survive.
        self.process = subprocess.Popen(
            ["setsid", "-c", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color"},
        )

    def read_until(self, text: str) -> None:
        """Read the screen until a text appears."""
        end_s = time.monotonic() + DEADLINE_S
        while text.encode() not in self.shown:
            assert time.monotonic() < end_s, f"{text!r} did not show up in {self.shown!r}"
            if select.select([self.master], [], [], 0.2)[0]:
                self.shown += os.read(self.master, 65_536)

    def write(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Return the exit code.

        Keeps reading, so that the process never blocks on a full terminal.
        """
        end_s = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < end_s:
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += os.read(self.master, 65_536)
        while select.select([self.master], [], [], 0)[0]:
            self.shown += os.read(self.master, 65_536)
        return self.process.wait(1)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(5)
        os.close(self.master)
        os.close(self.slave)

    def resize(self, columns: int, rows: int) -> None:
        """Change its size, as a window does."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
