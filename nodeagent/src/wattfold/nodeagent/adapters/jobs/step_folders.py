"""Folder of a job that starts steps: key, nodes, host files and socket of the step host.

`run_dir/steps/<job>` belongs to the agent. Only the account of the job may read it, by an access
control list. So an account cannot redirect the agent by files in it, and the agent needs no rights
to files of others. The folder contains its owner, which survives the agent. The account may write
to one folder in it, for the temporary files of steps on nodes that share a machine.
"""

from __future__ import annotations

import array
import contextlib
import os
import pwd
import shutil
import socket
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from wattfold import contract, nodeagent
from wattfold.contract.ids import JobId, valid_name
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs.access_list import PASS, READ, WRITE, grant
from wattfold.nodeagent.adapters.state_store import private_folder
from wattfold.nodeagent.core.steps import TMP_NAME
from wattfold.nodeagent.step_host import KEY_NAME

SOCKET_NAME, _OWNER_NAME = "host.sock", "owner"
_BACKLOG = 64
_START = (
    "import sys; sys.path[:0] = sys.argv.pop(1).split(':');"
    " from wattfold.nodeagent.step_host import main; main()"
)


class NoStepHostError(Exception):
    """A connection cannot be passed to the step host of a job. The message gives the reason."""


class StepFolders:
    """Folders of the jobs on this node."""

    def __init__(self, run_dir: Path) -> None:
        self._root = run_dir / "steps"
        private_folder(self._root)
        self._root.chmod(0o711 if os.geteuid() == 0 else 0o700)

    def path(self, job: JobId) -> Path:
        """Return the folder of a job, whether it exists or not."""
        return self._root / job

    def make(
        self,
        job: JobId,
        key: bytes,
        files: Mapping[str, str],
        account: pwd.struct_passwd | None,
    ) -> None:
        """Create the folder with its files, readable by the account. Raises OSError."""
        self.remove(job)
        folder = self.path(job)
        folder.mkdir(mode=0o700)
        uid = os.geteuid() if account is None else account.pw_uid
        written = {name: text.encode() for name, text in files.items()}
        written |= {KEY_NAME: key, _OWNER_NAME: str(uid).encode()}
        for name, data in written.items():
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                if account is not None:
                    grant(fd, uid, own=READ | WRITE, rights=READ)
        (folder / TMP_NAME).mkdir(mode=0o700)
        if account is not None:
            grant(folder / TMP_NAME, uid, own=READ | WRITE | PASS, rights=READ | WRITE | PASS)
            grant(folder, uid, own=READ | WRITE | PASS, rights=READ | PASS)

    def listener(self, job: JobId) -> socket.socket:
        """Return the socket of the job's step host. Only the agent can connect. Raises OSError.

        The host inherits it from the agent, so connections wait in it until the host is ready. A
        socket of an earlier host is replaced.
        """
        here = os.open(self.path(job), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        found = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET_NAME, dir_fd=here)
            found.bind(f"/proc/self/fd/{here}/{SOCKET_NAME}")
            found.listen(_BACKLOG)
        except OSError:
            found.close()
            raise
        finally:
            os.umask(before)
            os.close(here)
        return found

    def remove(self, job: JobId) -> None:
        """Remove the folder of a job, if it has one. Follows no links."""
        path = self.path(job)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def keep_only(self, jobs: Collection[JobId]) -> None:
        """Remove the folders of other jobs, left by a killed agent."""
        for path in list(self._root.iterdir()):
            if path.name not in jobs:
                with contextlib.suppress(OSError):
                    shutil.rmtree(path)

    def hand_over(self, conn: socket.socket, job: JobId, uid: int | None) -> None:
        """Pass a connection of this account (None: unknown) to the step host of the job.

        Never waits. Raises NoStepHostError if the job belongs to another account, has no step host
        here, or its step host is full.
        """
        if not valid_name(job):
            raise NoStepHostError("no such job")
        try:
            here = os.open(self.path(job), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            raise NoStepHostError(f"no step host of job {job} on this node") from None
        try:
            if uid not in (None, 0, _owner(here)):
                raise NoStepHostError(f"no step host of job {job} on this node")
            _send_to(f"/proc/self/fd/{here}/{SOCKET_NAME}", conn)
        except OSError as error:
            raise NoStepHostError(
                f"no step host of job {job} on this node: {error.strerror}"
            ) from None
        finally:
            os.close(here)


def _owner(folder: int) -> int:
    fd = os.open(_OWNER_NAME, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    with os.fdopen(fd, encoding="ascii") as file:
        return int(file.read())


def _send_to(path: str, conn: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX) as host:
        host.setblocking(False)
        host.connect(path)
        rights = array.array("i", [conn.fileno()])
        host.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def host_command(
    folder: Path, node_id: str, job: JobId, listener: int, first: int = 0
) -> list[str]:
    """Return the command line of a step host that inherits this descriptor.

    ``first``: the process whose environment and folder its steps get; 0 = the host.
    """
    roots = [str(Path(next(iter(p.__path__))).parent.parent) for p in (contract, nodeagent)]
    code = [sys.executable, "-I", "-S", "-c", _START, ":".join(dict.fromkeys(roots))]
    return [*code, str(folder), node_id, job, str(listener), *([str(first)] if first else [])]


def remote_shell() -> str:
    """Return the remote shell of this installation; empty if there is none."""
    beside = Path(sys.executable).with_name("wattfold-rsh")
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("wattfold-rsh") or ""
    if not found:
        logs.warning(
            "remote_shell_not_found",
            reason="wattfold-rsh is not installed, so launchers cannot start steps",
        )
    return found
