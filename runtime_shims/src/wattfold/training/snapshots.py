"""Snapshots on disk: complete or absent, the last two kept, with detection of damaged files.

A snapshot is written next to its final path, synced to the disk and renamed, and the folder is
synced as well. A mark, its length and a digest at its end reveal a truncated or damaged snapshot
when it is read; then the previous snapshot is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

PREFIX = "snapshot."
NEW = ".snapshot.new"
KEPT = 2
_END = struct.Struct("<8sQ32s")
"""Mark, bytes before it, and the SHA-256 digest of these."""
_MARK = b"WFSNAP01"


class SnapshotError(Exception):
    """A snapshot cannot be written, or none can be read; the text has the path and the reason."""


class Sink(Protocol):
    """Destination of a snapshot."""

    def write(self, data: bytes, /) -> int:
        """Write all of the data."""
        ...

    def flush(self) -> None:
        """Nothing has to be flushed before the end."""
        ...


class _Hashed:
    """A file, with a digest of the written data."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self._length = file, hashlib.sha256(), 0

    def write(self, data: bytes, /) -> int:
        self._digest.update(data)
        length = memoryview(data).nbytes
        self._length += length
        self._file.write(data)
        return length

    def flush(self) -> None:
        """Do nothing: `close` syncs everything to the disk."""

    def close(self) -> None:
        """Write the end and sync everything to the disk."""
        self._file.write(_END.pack(_MARK, self._length, self._digest.digest()))
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass(frozen=True)
class Found:
    """The newest complete snapshot, and the errors of newer ones."""

    path: Path
    data: bytes
    torn: tuple[str, ...]


class Snapshots:
    """Snapshots in a folder with a single writing process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole: list[int] = []

    def save(self, write: Callable[[Sink], None]) -> Path:
        """Write a snapshot and delete all but the last two complete ones. Raises SnapshotError."""
        new = self._folder / NEW
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            serial = max([*self._serials(), *self._whole, 0]) + 1
            path = self._path(serial)
            with new.open("wb") as file:
                hashed = _Hashed(file)
                write(hashed)
                hashed.close()
            new.rename(path)
            _sync_folder(self._folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            where, why = error.filename or new, error.strerror or str(error)
            raise SnapshotError(f"cannot write a snapshot, {where}: {why}") from error
        self._whole = [*self._whole, serial][-KEPT:]
        self._drop_others()
        return path

    def newest(self) -> Found | None:
        """Return the newest complete snapshot; None without snapshots.

        Raises SnapshotError if there are snapshots and none can be used.
        """
        torn: list[str] = []
        try:
            serials = sorted(self._serials(), reverse=True)
        except OSError as error:
            why = f"cannot read {self._folder}: {error.strerror}"
            raise SnapshotError(why) from error
        for serial in serials:
            path = self._path(serial)
            try:
                data = _checked(path.read_bytes())
            except (OSError, ValueError) as error:
                torn.append(f"{path}: {error}")
                continue
            self._whole = [serial]
            return Found(path=path, data=data, torn=tuple(torn))
        if torn:
            raise SnapshotError(
                f"no snapshot in {self._folder} is valid: {'; '.join(torn)}; move the files away "
                "to start from scratch"
            )
        return None

    def _serials(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        tails = [name[len(PREFIX) :] for name in names if name.startswith(PREFIX)]
        return [int(tail) for tail in tails if tail.isdecimal()]

    def _path(self, serial: int) -> Path:
        return self._folder / f"{PREFIX}{serial:08d}"

    def _drop_others(self) -> None:
        for serial in self._serials():
            if serial not in self._whole:
                # A remaining file is found again, and deleted with the next snapshot.
                with contextlib.suppress(OSError):
                    self._path(serial).unlink()


def _checked(data: bytes) -> bytes:
    """Return the snapshot without its end. Raises ValueError if it is incomplete or damaged."""
    if len(data) < _END.size:
        raise ValueError(f"incomplete: {len(data)} bytes")
    mark, length, digest = _END.unpack(data[-_END.size :])
    body = data[: -_END.size]
    if mark != _MARK or length != len(body):
        raise ValueError(f"incomplete: {len(data)} bytes without a valid end mark")
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("damaged: the digest does not match")
    return body


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
