"""The file of a journal: private, locked against a second writer, with the current schema.

A lock file instead of a lock of SQLite keeps other writers out, so that a backup can read while a
coordinator runs. A journal of an earlier version is copied, then migrated in one transaction.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from wattfold.coordinator.adapters.journal.migrations import MIGRATIONS
from wattfold.coordinator.adapters.journal.synced_mark import Loss, last_event, read_mark

SCHEMA_VERSION = 2
LOCK_SUFFIX = ".lock"
COMPANIONS = ("-wal", "-shm")
WAL_PAGES_MAX = 16_384
_LOCK_PACE_S = 0.05

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS checkpoint (
    one INTEGER PRIMARY KEY CHECK (one = 1), event_id INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS launch_data (job TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS set_aside (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, reason TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, account TEXT NOT NULL, uid INTEGER NOT NULL,
    peer TEXT NOT NULL, action TEXT NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL,
    detail TEXT NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
"""


class JournalError(Exception):
    """The journal cannot be read or written. The message names the file and the reason."""


class WriterLock:
    """Lock that keeps a second writer off a journal."""

    def __init__(self, path: Path, wait_s: float) -> None:
        """Take the lock. Raises JournalError if another process holds it longer than ``wait_s``."""
        self._fd = os.open(path.with_name(path.name + LOCK_SUFFIX), os.O_RDWR | os.O_CREAT, 0o600)
        until_s, pace = time.monotonic() + wait_s, threading.Event()
        while not self._taken():
            if time.monotonic() >= until_s:
                os.close(self._fd)
                raise JournalError(f"journal {path} is locked (is another coordinator running?)")
            pace.wait(_LOCK_PACE_S)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise
        return True

    def release(self) -> None:
        """Release the lock. Further calls do nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_database(path: Path, wait_s: float) -> sqlite3.Connection:
    """Open a journal with the current schema; create it if there is none.

    Raises JournalError or sqlite3.Error.
    """
    make_private(path)
    db = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
    try:
        # Before the first write, because -wal and -shm get the mode of the file.
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        # `Journal.move` moves the log. A commit moves it only beyond this size.
        db.execute(f"PRAGMA wal_autocheckpoint={WAL_PAGES_MAX}")
        # Deleted data must not stay in free pages, because environments contain secrets.
        db.execute("PRAGMA secure_delete=ON")
        _bring_up_to_date(db, path)
    except BaseException:
        db.close()
        raise
    return db


def make_private(path: Path) -> None:
    """Create the file with mode 0600, or remove the access of others from it and its companions."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for name in (path.name, *(path.name + suffix for suffix in COMPANIONS)):
        part = path.with_name(name)
        if part.exists():
            part.chmod(0o600)


def _bring_up_to_date(db: sqlite3.Connection, path: Path) -> None:
    found = schema_of(db)
    if found is not None and not (found.isdigit() and 1 <= int(found) <= SCHEMA_VERSION):
        raise JournalError(
            f"journal {path} has schema {found}, but this version reads schemas up to "
            f"{SCHEMA_VERSION}; start the newer version that wrote it, or restore a backup",
        )
    if found is None or int(found) == SCHEMA_VERSION:
        db.executescript(_SCHEMA)
        put_meta(db, "schema", str(SCHEMA_VERSION))
    else:
        _migrate(db, path, int(found))
    if meta(db, "vacuum_due"):
        # The pages freed by the migration are overwritten, because they contain the moved data.
        db.execute("VACUUM")
        db.execute("DELETE FROM meta WHERE key = 'vacuum_due'")
        truncate_wal(db)


def schema_of(db: sqlite3.Connection) -> str | None:
    """Return the stored schema; None = empty file. Raises sqlite3.Error."""
    tables = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()
    return meta(db, "schema") if tables[0] else None


def _migrate(db: sqlite3.Connection, path: Path, found: int) -> None:
    kept = path.with_name(f"{path.name}.schema-{found}")
    copy(db, kept)
    try:
        with transaction(db):
            for statement in _SCHEMA.split(";"):  # executescript would end the transaction
                db.execute(statement)
            for version in range(found, SCHEMA_VERSION):
                MIGRATIONS[version](db)
            put_meta(db, "schema", str(SCHEMA_VERSION))
            put_meta(db, "vacuum_due", "1")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(
            f"journal {path}: migration from schema {found} to {SCHEMA_VERSION} failed and "
            f"changed nothing: {error!r}; an earlier version can still read the journal",
        ) from error


def copy(db: sqlite3.Connection, target: Path) -> None:
    """Write a consistent copy of an open database to a file with mode 0600."""
    target.unlink(missing_ok=True)
    make_private(target)
    with closing(sqlite3.connect(target)) as copied:
        db.backup(copied)
        # The copy would stay in WAL mode, and reading it would leave files next to it.
        copied.execute("PRAGMA journal_mode=DELETE")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a transaction."""
    db.execute("BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def meta(db: sqlite3.Connection, key: str) -> str | None:
    """Return a stored setting."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def put_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    """Store a setting."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def crc_of(body: str) -> int:
    """Return the checksum of the text of a state. It takes 0.1 s for 100 MB."""
    return zlib.crc32(body.encode())


def checksum(number: int, crc: int) -> str:
    """Return the stored checksum of a checkpoint: its number and its CRC."""
    return f"{number} {crc:08x}"


def check_checkpoint(db: sqlite3.Connection, number: int, body: str) -> None:
    """Raise ValueError if a checkpoint has another checksum. Old checkpoints may have none."""
    stored = meta(db, "checkpoint_crc32")
    if stored and stored.split()[0] == str(number) and stored != checksum(number, crc_of(body)):
        raise ValueError(f"the state after event {number} is damaged: its checksum differs")


def loss(path: Path, accepted: bool) -> Loss | None:
    """Return which acknowledged events a journal lacks, or None. Its files stay unchanged.

    Raises JournalError if events are missing and ``accepted`` is False, and sqlite3.Error.
    """
    try:
        mark = read_mark(path)
    except ValueError as error:
        if accepted:
            return None
        raise JournalError(
            f"journal {path}: {error}, so it is unknown whether events are missing; start "
            "with --accept-loss to rely on the journal"
        ) from error
    if mark is None:
        return None
    found = last_event(path)
    if found.number >= mark.number:
        return None
    lost = Loss(found=found, mark=mark)
    if not accepted:
        raise JournalError(
            f"journal {path} is damaged: {loss_text(lost)}. Jobs and budgets of that time would "
            "be forgotten. Copy the right files there, restore a backup with `wattfold-coordinator "
            "restore`, or start with --accept-loss to continue without these events"
        )
    return lost


def loss_text(lost: Loss) -> str:
    """Describe the missing events."""
    until = f"number {lost.mark.number} of {_moment(lost.mark.time_s)}"
    if not lost.found.number:
        return f"all {lost.events} events are missing, the last is {until}"
    since = f"number {lost.found.number} of {_moment(lost.found.time_s)}"
    return f"{lost.events} acknowledged events are missing after {since}, up to {until}"


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def open_mover(path: Path) -> sqlite3.Connection:
    """Open a connection that can move the log from any thread and never waits for a lock."""
    return sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)


def move_wal(db: sqlite3.Connection) -> None:
    """Move as much of the log as possible into the file. The writer does not wait for it."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def aside(db: sqlite3.Connection) -> dict[int, str]:
    """Return why events were set aside, by number. Raises sqlite3.Error."""
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'set_aside'"
    if not db.execute(query).fetchone()[0]:
        return {}
    return dict(db.execute("SELECT id, reason FROM set_aside ORDER BY id"))


def truncate_wal(db: sqlite3.Connection) -> bool:
    """Move the log into the file and empty it. Returns False while a reader holds it."""
    busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
