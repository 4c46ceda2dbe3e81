"""Orders to keepers, and jobs that run under one without an agent."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.keeper_messages import KeeperOrder
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource, reap
from wattfold.nodeagent.adapters.jobs.processes import Starting, readable
from wattfold.shims.locate import find_keeper

_F_SETSIG = 10


def found_keeper() -> Path:
    """The built keeper."""
    found = find_keeper()
    assert found is not None, "run scripts/build_shims"
    return found


def order(folder: Path, *argv: str, **changed: Any) -> KeeperOrder:
    """An order to run a command of this account in a folder, which gets the files of the job."""
    plain = KeeperOrder(
        argv=list(argv),
        env={},
        cwd=str(folder),
        stdout_path="out",
        stderr_path="err",
        snapshot_path="",
        script="",
        keep_output=False,
        affinity=sorted(os.sched_getaffinity(0)),
        procs_paths=[],
        uid=None,
        gid=None,
        user="",
        exit_path=str(folder / "exit"),
        agent_pid_path=str(folder / "agent.pid"),
        stopped_path="",
        files_soft_max=1024,
        processes_max=0,
        groups=[],
        umask=0o022,
        limits=[],
        inherited=[],
    )
    return replace(plain, **changed)


async def run_job(keepers: KeeperSource, wanted: KeeperOrder) -> dict[str, Any]:
    """Start a job and wait for its keeper. Returns what the keeper wrote down."""
    starting = await Starting.prepare(keepers, JobId("1"), wanted)
    ended = os.pidfd_open(starting.keeper)
    await starting.go()
    await readable(ended)
    os.close(ended)
    reap(starting.keeper)
    found: dict[str, Any] = json.loads(Path(wanted.exit_path).read_bytes())
    return found


class KeptJob:
    """A job under a keeper. It is prepared, and runs from :meth:`go` on."""

    def __init__(self, wanted: KeeperOrder) -> None:
        self.exit_path = Path(wanted.exit_path)
        keepers = KeeperSource()
        try:
            self._starting = asyncio.run(Starting.prepare(keepers, JobId("1"), wanted))
        finally:
            keepers.close()
        self.pid, self.keeper = self._starting.pid, self._starting.keeper

    def go(self) -> KeptJob:
        """Let the program run."""
        asyncio.run(self._starting.go())
        return self

    def abandon(self) -> None:
        """Give the job up before it runs."""
        asyncio.run(self._starting.abandon())

    def end(self) -> dict[str, Any]:
        """Wait for the end of the keeper. Returns what it wrote down."""
        os.waitpid(self.keeper, 0)
        found: dict[str, Any] = json.loads(self.exit_path.read_bytes())
        return found


@contextlib.contextmanager
def held_back(path: Path) -> Iterator[None]:
    """A new file that no process can open for writing inside of this context."""
    fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # The kernel announces each attempt by a signal that usually ends a process.
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        yield
    finally:
        os.close(fd)
