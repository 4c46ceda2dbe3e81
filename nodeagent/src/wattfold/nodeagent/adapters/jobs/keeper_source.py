"""Where keepers come from: a small program in C that the agent executes for each job.

The agent opens the program once. An upgrade replaces the file under a running agent, whose keepers
stay those of its own version. They get all capabilities of root again (see `capabilities`), and a
session of their own. They are children of the agent but outlive it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wattfold.nodeagent.adapters.jobs.keeper_messages import VERSION
from wattfold.nodeagent.core.errors import Broken
from wattfold.shims.locate import KEEPER_FILE, find_keeper

_TEST_S = 30.0
_REMEDY = "install wattfold-shims of this version, or run scripts/build_shims in a checkout"


class KeeperSource:
    """Makes keepers. Used from the event loop, except for `fault`."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._fd: int | None = None

    def keeper(self, standard: int, inherited: Sequence[int]) -> int:
        """Start a keeper and return its PID.

        ``standard`` becomes its standard input and output. It keeps the numbers of the descriptors
        ``inherited``. Raises OSError, Broken.
        """
        if self._fd is None:
            self._fd = self._opened()
        for fd in inherited:
            os.set_inheritable(fd, True)
        # Not `subprocess`, which takes the agent twice the CPU time.
        return os.posix_spawn(
            f"/proc/self/fd/{self._fd}",
            [KEEPER_FILE],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, standard, 0),
                (os.POSIX_SPAWN_DUP2, standard, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_RDWR, 0),
            ],
        )

    def fault(self) -> str:
        """Execute the program without an order. Returns why it starts no job; empty = it does."""
        try:
            if self._fd is not None:
                _check(self._fd, KEEPER_FILE)
            else:
                os.close(self._opened())
        except Broken as broken:
            return str(broken)
        return ""

    def close(self) -> None:
        """Close the program. Its keepers stay."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        path = self._path or find_keeper()
        if path is None:
            raise Broken(f"no {KEEPER_FILE}, the program that starts jobs: {_REMEDY}")
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise Broken(f"cannot open {path}, which starts jobs: {error.strerror}") from None
        try:
            _check(fd, str(path))
        except BaseException:
            os.close(fd)
            raise
        return fd


def reap(keeper: int) -> None:
    """Collect a keeper that has ended, unless an earlier agent has started it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(keeper, os.WNOHANG)


def _check(fd: int, path: str) -> None:
    try:
        done = subprocess.run(
            [KEEPER_FILE, "--version"],
            executable=f"/proc/self/fd/{fd}",
            pass_fds=[fd],
            check=True,
            capture_output=True,
            env={},
            stdin=subprocess.DEVNULL,
            timeout=_TEST_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Broken(f"cannot execute {path}, which starts jobs: {error}") from None
    found = done.stdout.decode("ascii", "replace").strip()
    if found != f"{KEEPER_FILE} {VERSION}":
        raise Broken(f"{path} is {found!r}, and this agent needs version {VERSION}: {_REMEDY}")
