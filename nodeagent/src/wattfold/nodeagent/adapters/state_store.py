"""Small records on disk that survive the agent: written atomically, and checked when read.

An unreadable record is renamed, and the other records stay usable. A failed write raises NoSpace or
Broken, so that a command is refused rather than half done.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.locks import locked
from wattfold.nodeagent.adapters.state_sync import sync_folder
from wattfold.nodeagent.core.errors import Broken, NoSpace, Refused
from wattfold.nodeagent.guard_records import LOCK_FILE

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}


class StateDirError(Exception):
    """The state folder cannot be used. The message gives the reason."""


def device_refusal(error: OSError, what: str) -> Refused:
    """Return the refusal for a failed system call, with the path and the system's text."""
    kind = NoSpace if error.errno in _NO_ROOM else Broken
    return kind(f"{what}: {error.filename or ''} {error.strerror or error}".replace("  ", " "))


def private_folder(path: Path, mode: int = 0o700) -> Path:
    """Create a folder that only this account and root can change or replace.

    Raises StateDirError.
    """
    _check_parents(path)
    try:
        _make_parents(path.parent)
        path.mkdir(mode=mode, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise StateDirError(f"{path}: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise StateDirError(f"{path}: not a folder")
    if found.st_uid != os.geteuid():
        raise StateDirError(f"{path}: owned by uid {found.st_uid}, not by {os.geteuid()}")
    if found.st_mode & 0o022:
        raise StateDirError(
            f"{path}: mode {stat.S_IMODE(found.st_mode):o} lets other accounts write;"
            f" chmod go-w {path}"
        )
    # Checked again, because another process may have created one of them first.
    _check_parents(path)
    return path


def unsafe_parent(path: Path) -> str:
    """Return why another account could replace a folder; empty = it could not.

    The owner of a folder above, and accounts with write access to it, can rename its entries. In a
    folder like /tmp (sticky) only the owner can. Folders that do not exist yet are skipped.
    """
    above = {parent for start in (path.absolute(), path.resolve()) for parent in start.parents}
    for parent in sorted(above):
        try:
            found = parent.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"its parent folder {parent}: {error.strerror}"
        if found.st_uid not in (0, os.geteuid()):
            return f"its parent folder {parent} belongs to uid {found.st_uid}"
        writable = found.st_mode & 0o002 or (found.st_mode & 0o020 and found.st_gid != 0)
        if writable and not found.st_mode & stat.S_ISVTX:
            mode = stat.S_IMODE(found.st_mode)
            return f"its parent folder {parent} has mode {mode:o}: other accounts can write in it"
    return ""


def _check_parents(path: Path) -> None:
    if why := unsafe_parent(path):
        raise StateDirError(f"{path}: {why}; choose another path or change that folder")


def _make_parents(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            # Independent of the umask: with group write access, others could replace its entries.
            folder.mkdir(mode=0o755, exist_ok=True)


class StateStore:
    """Records of one agent in one folder, locked against a second agent."""

    def __init__(self, root: Path) -> None:
        self.root = private_folder(root)
        self.jobs = private_folder(root / "jobs")
        self.agent_pid_path = root / "agent.pid"
        self._lock = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        if not locked(self._lock):
            os.close(self._lock)
            raise StateDirError(f"{root}: another agent uses this folder")

    def close(self) -> None:
        """Lets another agent use the folder."""
        os.close(self._lock)

    def write(self, name: str, record: dict[str, Any], *, durable: bool = True) -> None:
        """Replaces a record. ``durable``: it survives a loss of power, not only of the agent."""
        path = f"{self.root}/{name}"
        temporary = f"{path}.tmp"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                _write_all(fd, json.dumps(record).encode())
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
            if durable:
                sync_folder(Path(path).parent)
        except OSError as error:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise device_refusal(error, "cannot write the agent's state") from None

    def read(self, name: str) -> dict[str, Any] | None:
        """A record, or None if there is none or it is damaged (then it is renamed aside)."""
        path = self.root / name
        try:
            if path.stat().st_uid != os.geteuid():
                raise ValueError(f"owned by uid {path.stat().st_uid}")
            record = json.loads(path.read_bytes())
            if not isinstance(record, dict):
                raise ValueError("not an object")
        except FileNotFoundError:
            return None
        except RecursionError:
            self.set_aside(name, "values are nested too deeply")
            return None
        except (OSError, ValueError) as error:
            self.set_aside(name, str(error))
            return None
        return record

    def set_aside(self, name: str, why: str) -> None:
        """Rename a damaged record, so that it is kept for a person and not read again."""
        path = self.root / name
        aside = path.with_name(path.name + ".damaged")
        path.rename(aside)
        logs.warning("state_damaged", path=path, kept_as=aside, reason=why)

    def remove(self, name: str) -> None:
        """Remove a record if there is one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.root}/{name}")

    def job_ids(self) -> list[str]:
        """Return the jobs that have a record."""
        return sorted(path.name.removesuffix(".json") for path in self.jobs.glob("*.json"))


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
