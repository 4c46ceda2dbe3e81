"""Programs under the shim, and the dialogue with the puppet program, which takes commands."""

from __future__ import annotations

import os
import selectors
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

DEADLINE_S = 20.0


@dataclass
class Puppet:
    """A running ``puppet``: one command line in, one answer line out."""

    process: subprocess.Popen[str]
    _unread: dict[int, bytes] = field(default_factory=dict)
    """By descriptor: bytes received after the last requested line."""

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        return self._line(self.process.stdout)

    def complaint(self) -> str:
        """Return the next line of stderr."""
        return self._line(self.process.stderr)

    def _line(self, stream: IO[str] | None) -> str:
        # Bypass the buffer of the stream: a selector does not see a line that waits in there.
        assert stream is not None
        descriptor = stream.fileno()
        unread = self._unread.get(descriptor, b"")
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in unread:
                assert selector.select(DEADLINE_S), f"nothing said within {DEADLINE_S} s"
                more = os.read(descriptor, 65_536)
                if not more:
                    break
                unread += more
        line, _, self._unread[descriptor] = unread.partition(b"\n")
        return line.decode()

    def ask(self, command: str) -> str:
        self.send(command)
        return self.answer()

    def team(self, kind: str = "parallel", clause: int = 0) -> int:
        """Return the team size of one region; checks that it did all its work."""
        team, total = map(int, self.ask(f"region {kind} {clause}").split())
        assert total == (3 if kind.startswith("sections") else 499_500), f"{kind} lost work"
        return team

    def threads(self) -> list[str]:
        """Names of the threads of the process."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sorted((task / "comm").read_text().strip() for task in tasks.iterdir())

    def finish(self) -> tuple[int, str]:
        """End the program normally; return its exit code and its stderr."""
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors


@dataclass
class Launcher:
    """Starts programs with the environment of a job."""

    shim: Path
    endpoint: str
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Launcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def preload(self, *more: Path) -> str:
        """Preloaded libraries: the shim and then other libraries. Sanitizers must be first."""
        first = os.environ.get("WATTFOLD_TEST_PRELOAD", "").split()
        return " ".join([*first, str(self.shim), *map(str, more)])

    def start(
        self, *command: str | Path, mode: str = "team", cpus: int = 4, **more: str | None
    ) -> Puppet:
        """Start a program for ``cpus`` threads. A variable given as None is omitted."""
        variables: dict[str, str | None] = {
            "LD_PRELOAD": self.preload(),
            "WATTFOLD_SHIM_ENDPOINT": self.endpoint,
            "WATTFOLD_JOB_ID": "job-1",
            "WATTFOLD_RESIZE_MODE": mode,
            "WATTFOLD_LAUNCH_CPUS": str(cpus),
            "OMP_NUM_THREADS": str(cpus),
            "OMP_WAIT_POLICY": "passive",
            **more,
        }
        environment = {name: v for name, v in {**os.environ, **variables}.items() if v is not None}
        process = subprocess.Popen(
            [str(part) for part in command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return Puppet(process)
