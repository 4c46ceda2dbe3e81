"""Folder of a job's shims: a socket of the agent that no other account can reach or see.

The socket is ``run_dir/shims/JOB/sock``. The file next to it contains the team sizes
(``shim_notice.py``). It stays while no agent runs, because programs may also start then. All files
belong to the agent, so that an account cannot obstruct it. Access lists give the account of the job
access to the folder and the socket. On file systems without access lists, the socket belongs to the
account, and there is no such file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.access_list import (
    PASS,
    READ,
    WRITE,
    NoAccessListsError,
    grant,
)
from wattfold.nodeagent.adapters.shims.shim_notice import TEAMS, NoticeFile, TeamsFile
from wattfold.nodeagent.adapters.state_store import private_folder

UNIX_PATH_MAX = 107
_SOCKET = "sock"
_SHUT = "shut"
_SHORT = 12


class ShimFolder:
    """The sockets of all jobs. Raises OSError if even the shortest path is too long."""

    def __init__(self, root: Path) -> None:
        self._root = root
        shortest = root / ("x" * _SHORT) / _SOCKET
        if len(os.fsencode(shortest)) > UNIX_PATH_MAX:
            raise OSError(
                f"{shortest}: longer than {UNIX_PATH_MAX} bytes, the limit of a unix socket"
            )

    def path(self, job: JobId) -> Path:
        """Return the socket path of a job, which never changes."""
        path = f"{self._root}/{job}/{_SOCKET}"
        if len(os.fsencode(path)) <= UNIX_PATH_MAX:
            return Path(path)
        return self._root / hashlib.sha256(job.encode()).hexdigest()[:_SHORT] / _SOCKET

    def prepare(self) -> None:
        """Create the folder."""
        # Jobs of other accounts pass through it, but they cannot list it.
        private_folder(self._root).chmod(0o711 if os.geteuid() == 0 else 0o700)

    def keep_only(self, jobs: Collection[JobId]) -> None:
        """Remove files that an earlier agent has left for other jobs."""
        kept = {self.path(job).parent for job in jobs}
        for folder in self._root.iterdir():
            if folder not in kept:
                self._empty(folder)

    def bind(self, job: JobId, uid: int, bind: Callable[[str], object]) -> None:
        """Let ``bind`` create the socket of a job that runs as ``uid``. Raises OSError."""
        path = self.path(job)
        self._empty(path.parent, but=TEAMS)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if uid != os.geteuid():
            _let_pass(path.parent, uid)
        before = os.umask(0o177)
        try:
            bind(f"ipc://{path}")
        finally:
            os.umask(before)
        if uid != os.geteuid():
            _let_connect(path, uid)

    def shut(self, job: JobId, *, shut: bool) -> None:
        """Remove the name of a socket, or restore it. Connections stay. Raises OSError."""
        path = self.path(job)
        names = (path, path.with_name(_SHUT)) if shut else (path.with_name(_SHUT), path)
        # Already done by an earlier call.
        with contextlib.suppress(FileNotFoundError):
            names[0].rename(names[1])

    def notice(self, job: JobId, uid: int) -> NoticeFile:
        """Return a new notice for a process of a job. Raises OSError if it cannot be created."""
        return NoticeFile(self.path(job).parent, uid)

    def teams(self, job: JobId, uid: int, teams: Sequence[int], seq: int) -> TeamsFile:
        """Return the teams file for programs without a mask. Raises OSError."""
        return TeamsFile(self.path(job).parent, uid, teams, seq)

    def remove(self, job: JobId) -> None:
        """Remove all files of a job."""
        self._empty(self.path(job).parent)

    def close(self) -> None:
        """Remove everything except the files that running programs use without an agent."""
        with contextlib.suppress(OSError):
            for folder in self._root.iterdir():
                self._empty(folder, but=TEAMS)
            self._root.rmdir()

    def _empty(self, folder: Path, but: str = "") -> None:
        with contextlib.suppress(FileNotFoundError):
            files = list(folder.iterdir())
            gone = [file for file in files if file.name != but]
            for file in gone:
                file.unlink()
            if gone == files:
                folder.rmdir()


def _let_pass(folder: Path, uid: int) -> None:
    """Let only this account through a folder; without access lists, let all accounts through."""
    try:
        grant(folder, uid, own=READ | WRITE | PASS, rights=PASS)
    except NoAccessListsError:
        # The socket alone keeps others out.
        folder.chmod(0o711)


def _let_connect(path: Path, uid: int) -> None:
    """Let one account connect to a socket. Without access lists, the account becomes its owner."""
    try:
        grant(path, uid, own=READ | WRITE, rights=READ | WRITE)
    except NoAccessListsError:
        os.chown(path, uid, -1, follow_symlinks=False)
