"""The file of a journal: made private, locked against a second writer, of the present schema.

A lock of our own and not one of SQLite keeps other writers out, so that a backup can read while a
coordinator runs. A journal of an earlier version is copied first, then migrated in one transaction.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wattfold.coordinator.adapters.journal_migrations import MIGRATIONS

SCHEMA_VERSION = 2
LOCK_SUFFIX = ".lock"
COMPANIONS = ("-wal", "-shm")
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
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY, time_s REAL NOT NULL, account TEXT NOT NULL, uid INTEGER NOT NULL,
    peer TEXT NOT NULL, action TEXT NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL,
    detail TEXT NOT NULL, outcome TEXT NOT NULL, message TEXT NOT NULL
) STRICT;
"""


class JournalError(Exception):
    """The journal cannot be read or written; the message names the file and the reason."""


class WriterLock:
    """Keeps a second writer off a journal for as long as it is held."""

    def __init__(self, path: Path, wait_s: float) -> None:
        """Raises JournalError when another process has it for longer than ``wait_s``."""
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
        """Lets the next one in; harmless when repeated."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_database(path: Path, wait_s: float) -> sqlite3.Connection:
    """A connection to a journal of the present schema, made if there is none.

    Raises JournalError or sqlite3.Error.
    """
    make_private(path)
    db = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
    try:
        # Before anything is written: -wal and -shm get the mode of the file.
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        # What was dropped must not stay in free pages: environments hold secrets.
        db.execute("PRAGMA secure_delete=ON")
        _bring_up_to_date(db, path)
    except BaseException:
        db.close()
        raise
    return db


def make_private(path: Path) -> None:
    """Makes the file with mode 0600, or closes one that others may read, and what goes with it."""
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
        # The pages that the migration has left are rewritten: they hold what it has moved.
        db.execute("VACUUM")
        db.execute("DELETE FROM meta WHERE key = 'vacuum_due'")
        truncate_wal(db)


def schema_of(db: sqlite3.Connection) -> str | None:
    """The stored schema, None of an empty file. Raises sqlite3.Error."""
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
    """Writes a copy of an open database, as of one instant, to a file with mode 0600."""
    target.unlink(missing_ok=True)
    make_private(target)
    with closing(sqlite3.connect(target)) as copied:
        db.backup(copied)
        # A copy of a WAL database says so too, and would leave files beside it when read.
        copied.execute("PRAGMA journal_mode=DELETE")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    db.execute("BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def meta(db: sqlite3.Connection, key: str) -> str | None:
    """A stored setting."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def put_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    """Stores a setting."""
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def truncate_wal(db: sqlite3.Connection) -> bool:
    """Moves the log into the file and empties it; False while a reader holds it."""
    busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
