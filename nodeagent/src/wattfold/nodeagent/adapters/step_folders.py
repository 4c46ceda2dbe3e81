"""The folder of a job whose launcher starts steps: key, nodes, host files, socket of the host.

`run_dir/steps/<job>`, mode 0700, of the job's account. Whose job it is, is the owner of the folder:
that survives the agent. What the account puts there itself is not trusted: the socket is used only
if that account listens on it.
"""

from __future__ import annotations

import array
import contextlib
import os
import pwd
import shutil
import socket
import stat
import struct
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from wattfold import contract, nodeagent
from wattfold.contract.ids import JobId, valid_name
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.state_store import private_folder
from wattfold.nodeagent.step_host import KEY_NAME, SOCKET_NAME

LOG_NAME = "host.log"
_PEER = struct.Struct("3i")
_WORDS_BYTES_MAX = 2048
_START = (
    "import sys; sys.path[:0] = sys.argv.pop(1).split(':');"
    " from wattfold.nodeagent.step_host import main; main()"
)


class NoStepHostError(Exception):
    """A connection cannot be handed to the step host of a job; the message says why."""


class StepFolders:
    """Folders of the jobs on this node."""

    def __init__(self, run_dir: Path) -> None:
        self._root = run_dir / "steps"
        private_folder(self._root)
        self._root.chmod(0o711 if os.geteuid() == 0 else 0o700)

    def path(self, job: JobId) -> Path:
        """The folder of a job, made or not."""
        return self._root / job

    def make(
        self,
        job: JobId,
        key: bytes,
        files: Mapping[str, str],
        account: pwd.struct_passwd | None,
    ) -> None:
        """Makes the folder with its files, then gives it to the account. Raises OSError."""
        self.remove(job)
        folder = self.path(job)
        folder.mkdir(mode=0o700)
        written = {name: text.encode() for name, text in files.items()} | {KEY_NAME: key}
        for name, data in written.items():
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            if account is not None:
                os.chown(folder / name, account.pw_uid, account.pw_gid)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)

    def remove(self, job: JobId) -> None:
        """Removes the folder of a job, if it has one. Follows no links."""
        path = self.path(job)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def keep_only(self, jobs: Collection[JobId]) -> None:
        """Removes the folders of other jobs: those of an agent that was killed."""
        for path in list(self._root.iterdir()):
            if path.name not in jobs:
                with contextlib.suppress(OSError):
                    shutil.rmtree(path)

    def last_words(self, job: JobId) -> str:
        """The last line a step host has written to its log, empty if there is none."""
        try:
            fd = os.open(self.path(job) / LOG_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return ""
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            file.seek(max(0, os.fstat(fd).st_size - _WORDS_BYTES_MAX))
            lines = file.read(_WORDS_BYTES_MAX).decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return "".join(c if c.isprintable() else "?" for c in last)[:200]

    def hand_over(self, conn: socket.socket, job: JobId, uid: int | None) -> None:
        """Gives a connection of this account (None: not known) to the step host of the job.

        Never waits. Raises NoStepHostError: another account's job, none here, or one that is full.
        """
        if not valid_name(job):
            raise NoStepHostError("no such job")
        try:
            here = os.open(self.path(job), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            raise NoStepHostError(f"no step host of job {job} here") from None
        try:
            owner = os.fstat(here).st_uid
            if uid not in (None, 0, owner):
                raise NoStepHostError(f"no step host of job {job} here")
            _send_to(f"/proc/self/fd/{here}/{SOCKET_NAME}", owner, conn)
        except OSError as error:
            raise NoStepHostError(f"no step host of job {job} here: {error.strerror}") from None
        finally:
            os.close(here)


def _send_to(path: str, owner: int, conn: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as host:
        host.setblocking(False)
        host.connect(path)
        peer = host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(peer)[1] != owner:
            raise NoStepHostError("its step host is not of the account of the job")
        rights = array.array("i", [conn.fileno()])
        host.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def host_command(folder: Path, node_id: str, job: JobId) -> list[str]:
    """The command line of a step host."""
    roots = [str(Path(next(iter(p.__path__))).parent.parent) for p in (contract, nodeagent)]
    code = [sys.executable, "-I", "-S", "-c", _START, ":".join(dict.fromkeys(roots))]
    return [*code, str(folder), node_id, job]


def remote_shell() -> str:
    """The remote shell of this installation, empty where it has none."""
    beside = Path(sys.executable).with_name("wattfold-rsh")
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("wattfold-rsh") or ""
    if not found:
        logs.warning(
            "no_remote_shell", why="wattfold-rsh is not installed: launchers find no steps"
        )
    return found
