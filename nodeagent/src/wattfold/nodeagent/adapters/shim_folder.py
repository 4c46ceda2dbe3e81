"""Where the shims of a job find the agent: a socket that no other account can reach or see.

``run_dir/shims/JOB/sock``. Everything above the socket belongs to the agent, so that an account can
put nothing in its way; the account of the job may pass through the folder, by an access list where
the file system has them, and the socket itself is its own, mode 0600.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.state_store import private_folder

UNIX_PATH_MAX = 107
_SOCKET = "sock"
_SHORT = 12
_ACL = "system.posix_acl_access"
_UNDEFINED_ID = 0xFFFFFFFF
# Tags and permissions of acl(5): owner, one account, group, most for those two, others.
_OWNER, _ACCOUNT, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_ALL, _PASS, _NONE = 7, 1, 0


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
            os.chown(path, uid, -1, follow_symlinks=False)

    def remove(self, job: JobId) -> None:
        """Removes the socket of a job."""
        self._empty(self.path(job).parent)

    def close(self) -> None:
        """Removes everything."""
        with contextlib.suppress(OSError):
            for folder in self._root.iterdir():
                self._empty(folder)
            self._root.rmdir()

    def _empty(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            (folder / _SOCKET).unlink()
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()


def _let_pass(folder: Path, uid: int) -> None:
    """Lets one account through a folder, and nobody else where the file system can tell them."""
    entries = (
        (_OWNER, _ALL, _UNDEFINED_ID),
        (_ACCOUNT, _PASS, uid),
        (_GROUP, _NONE, _UNDEFINED_ID),
        (_MASK, _PASS, _UNDEFINED_ID),
        (_OTHERS, _NONE, _UNDEFINED_ID),
    )
    listed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(folder, _ACL, struct.pack("<I", 2) + listed)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # The mode of the socket alone keeps others out.
        folder.chmod(0o711)
