"""Number of the last stored event, in a small separate file next to the journal.

A journal cannot show that its end is missing: SQLite drops a damaged log without an error, and an
empty file is a new journal. So after each transaction, and before an answer is given, the number of
its last event is written here. At a start, a journal with a lower last number has lost events.

The order makes a false alarm impossible. The transaction is synced to disk first, so the journal
always contains the event of the mark. The mark itself is synced only with the next move of the log
(`Journal.move`): after a power failure it may be some seconds old. Two slots are written in turns,
each with a checksum, so that a torn write leaves the other slot intact.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".synced"
_SLOT_BYTES = 512
"""A sector, so that a torn write of one slot leaves the other intact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Number and Unix time of the last stored event."""

    number: int
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Missing events of a journal: from after number ``found`` (0 = all) up to ``mark``."""

    found: Mark
    mark: Mark

    @property
    def events(self) -> int:
        """Number of missing events."""
        return self.mark.number - self.found.number


class SyncedMark:
    """The file of one journal, open for writing."""

    def __init__(self, journal: Path) -> None:
        """Open or create the file with mode 0600. Raises OSError."""
        path = journal.with_name(journal.name + SUFFIX)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._turn = 0
        if os.fstat(self._fd).st_size < 2 * _SLOT_BYTES:
            # Written once, so that a full disk does not matter later.
            os.pwrite(self._fd, bytes(2 * _SLOT_BYTES), 0)

    def write(self, mark: Mark) -> None:
        """Replace the older slot. Raises OSError."""
        text = f"{mark.number} {mark.time_s:.3f}"
        line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
        os.pwrite(self._fd, line.ljust(_SLOT_BYTES, b"\0"), self._turn * _SLOT_BYTES)
        self._turn = 1 - self._turn

    def restart(self, mark: Mark) -> None:
        """Write a mark into both slots, even if it is lower. Raises OSError."""
        self.write(mark)
        self.write(mark)
        self.sync()

    def sync(self) -> None:
        """Sync the written data to the disk. Raises OSError."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_mark(journal: Path) -> Mark | None:
    """Return the mark of a journal; None if there is none, as for earlier versions.

    Raises OSError, and ValueError if the file is damaged.
    """
    path = journal.with_name(journal.name + SUFFIX)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    found = list(_slots(data))
    if not found and data.strip(b"\0"):
        raise ValueError(f"{path} is damaged")
    return max(found, key=lambda mark: mark.number, default=None)


def _slots(data: bytes) -> Iterator[Mark]:
    for start in (0, _SLOT_BYTES):
        line = data[start : start + _SLOT_BYTES].rstrip(b"\0").rstrip(b"\n")
        text, _, checksum = line.rpartition(b" ")
        if text and checksum == f"{zlib.crc32(text):08x}".encode():
            number, time_s = text.split()
            yield Mark(number=int(number), time_s=float(time_s))


def last_event(journal: Path) -> Mark:
    """Return the last event that a journal still holds. Its files stay unchanged.

    A writing connection would remove a damaged log when it is closed, and with it data that could
    be restored by hand. Raises sqlite3.Error.
    """
    if not journal.exists() or not journal.stat().st_size:
        return Mark(number=0, time_s=0.0)
    address = f"{journal.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as db:
        number, time_ns = db.execute("SELECT max(id), max(time_ns) FROM events").fetchone()
        kept = db.execute("SELECT max(event_id) FROM checkpoint").fetchone()[0] or 0
        meta = dict(db.execute("SELECT key, value FROM meta"))
    time_ns = time_ns or int(meta.get("checkpoint_time_ns", 0))
    origin_s = float(meta.get("origin_s", 0))
    return Mark(number=max(number or 0, kept), time_s=origin_s + time_ns / 1e9)
