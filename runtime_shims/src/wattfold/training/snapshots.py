"""Snapshots on disk: whole or not there, the last two kept, a torn one known for what it is.

A snapshot is written beside its place, forced to the disk and renamed, and the folder is forced to
the disk as well. At its end stand a mark, its length and a digest, so that one that was cut or
damaged all the same is found out when it is read; then the one before is used.
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
    """A snapshot cannot be written, or none can be read; says which, where and why."""


class Sink(Protocol):
    """What a snapshot is written to."""

    def write(self, data: bytes, /) -> int:
        """Takes all of it."""
        ...

    def flush(self) -> None:
        """Nothing need be done before the end."""
        ...


class _Hashed:
    """A file, with a digest of what was written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self._length = file, hashlib.sha256(), 0

    def write(self, data: bytes, /) -> int:
        self._digest.update(data)
        length = memoryview(data).nbytes
        self._length += length
        self._file.write(data)
        return length

    def flush(self) -> None:
        """At the end all of it goes to the disk."""

    def close(self) -> None:
        """Writes the end and forces all of it to the disk."""
        self._file.write(_END.pack(_MARK, self._length, self._digest.digest()))
        self._file.flush()
        os.fsync(self._file.fileno())


@dataclass(frozen=True)
class Found:
    """The newest snapshot that is whole, and what is wrong with newer ones."""

    path: Path
    data: bytes
    torn: tuple[str, ...]


class Snapshots:
    """Those in a folder, which one process writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole: list[int] = []

    def save(self, write: Callable[[Sink], None]) -> Path:
        """Writes one more and drops all but the last two whole ones. Raises SnapshotError."""
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
        """The newest whole one; None where there is none at all.

        Raises SnapshotError where there are some and none can be used.
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
                # What stays is found again, and dropped with the next one.
                with contextlib.suppress(OSError):
                    self._path(serial).unlink()


def _checked(data: bytes) -> bytes:
    """The snapshot without its end. Raises ValueError for one that is not whole."""
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
