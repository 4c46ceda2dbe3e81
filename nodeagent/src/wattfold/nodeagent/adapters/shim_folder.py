"""Where the shims of a job find the agent: a socket that no other account can reach or see.

``run_dir/shims/JOB/sock``, and beside it the notices (``shim_notice.py``). Everything belongs to
the agent, so that an account can put nothing in its way; access lists let the account of the job
through the folder and onto the socket. Where the file system has none, the socket becomes the
account's own, and there are no notices.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.access_list import (
    PASS,
    READ,
    WRITE,
    NoAccessListsError,
    grant,
)
from wattfold.nodeagent.adapters.shim_notice import PREFIX, NoticeFile
from wattfold.nodeagent.adapters.state_store import private_folder

UNIX_PATH_MAX = 107
_SOCKET = "sock"
_SHORT = 12


class ShimFolder:
    """The sockets of all jobs. Raises OSError where even the shortest path is too long."""

    def __init__(self, root: Path) -> None:
        self._root = root
        shortest = root / ("x" * _SHORT) / _SOCKET
        if len(os.fsencode(shortest)) > UNIX_PATH_MAX:
            raise OSError(
                f"{shortest}: longer than {UNIX_PATH_MAX} bytes, the limit of a unix socket"
            )

    def path(self, job: JobId) -> Path:
        """The socket of a job; always the same one."""
        path = self._root / job / _SOCKET
        if len(os.fsencode(path)) <= UNIX_PATH_MAX:
            return path
        return self._root / hashlib.sha256(job.encode()).hexdigest()[:_SHORT] / _SOCKET

    def prepare(self) -> None:
        """Makes the folder, and empties it of what an agent that was killed has left."""
        # Jobs of other accounts pass through it; they cannot list it.
        private_folder(self._root).chmod(0o711 if os.geteuid() == 0 else 0o700)
        for folder in self._root.iterdir():
            self._empty(folder)

    def bind(self, job: JobId, uid: int, bind: Callable[[str], object]) -> None:
        """Has ``bind`` make the socket of a job that runs as ``uid``. Raises OSError."""
        path = self.path(job)
        self._empty(path.parent)
        path.parent.mkdir(mode=0o700)
        if uid != os.geteuid():
            _let_pass(path.parent, uid)
        before = os.umask(0o177)
        try:
            bind(f"ipc://{path}")
        finally:
            os.umask(before)
        if uid != os.geteuid():
            _let_connect(path, uid)

    def notice(self, job: JobId, uid: int) -> NoticeFile:
        """A new notice for a process of a job. Raises OSError where there can be none."""
        return NoticeFile(self.path(job).parent, uid)

    def remove(self, job: JobId) -> None:
        """Removes the socket of a job, and its notices."""
        self._empty(self.path(job).parent)

    def close(self) -> None:
        """Removes everything."""
        with contextlib.suppress(OSError):
            for folder in self._root.iterdir():
                self._empty(folder)
            self._root.rmdir()

    def _empty(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            for notice in folder.glob(f"{PREFIX}*"):
                notice.unlink()
            (folder / _SOCKET).unlink()
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()


def _let_pass(folder: Path, uid: int) -> None:
    """Lets one account through a folder, and nobody else where the file system can tell them."""
    try:
        grant(folder, uid, own=READ | WRITE | PASS, rights=PASS)
    except NoAccessListsError:
        # The socket alone keeps others out.
        folder.chmod(0o711)


def _let_connect(path: Path, uid: int) -> None:
    """Lets one account connect to a socket; where it cannot be told, the socket becomes its own."""
    try:
        grant(path, uid, own=READ | WRITE, rights=READ | WRITE)
    except NoAccessListsError:
        os.chown(path, uid, -1, follow_symlinks=False)
