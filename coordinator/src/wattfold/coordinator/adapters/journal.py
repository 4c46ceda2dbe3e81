"""The journal: every event of the core in SQLite, in order, and a checkpoint to start from.

`append` takes events in memory, `commit` writes all that were taken in one transaction, synced to
the disk. What is acknowledged to a user is committed first; events nobody waits for may be lost
with a crash, but only from the end: the rest is still the true history. `load` gives the last
checkpoint and the events after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wattfold.coordinator.adapters import codec
from wattfold.coordinator.core.events import Event
from wattfold.coordinator.core.state import State

SCHEMA_VERSION = 1
PENDING_MAX = 100_000
KEPT_EVENTS = 200_000
LOCK_WAIT_S = 2.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS checkpoint (
    one INTEGER PRIMARY KEY CHECK (one = 1), event_id INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
"""


class JournalError(Exception):
    """The journal cannot be read or written; the message names the file and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event with its number and coordinator time."""

    number: int
    time_ns: int
    event: Event


class Journal:
    """An append-only store. Single writer, held by a lock on the database."""

    def __init__(
        self,
        path: Path,
        kept_events: int = KEPT_EVENTS,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        """Opens or makes the file. Raises JournalError (in use, not a journal, no space).

        ``kept_events`` stay before a checkpoint; another writer is waited for ``lock_wait_s``.
        """
        self.path = path
        self._kept_events = kept_events
        self._pending: list[Entry] = []
        try:
            self._db = sqlite3.connect(path, timeout=lock_wait_s, isolation_level=None)
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
            path.chmod(0o600)
            self._check_version()
            row = self._db.execute("SELECT max(id), max(time_ns) FROM events").fetchone()
        except sqlite3.Error as error:
            hint = " (is another coordinator running?)" if "locked" in str(error) else ""
            raise JournalError(f"journal {path}: {error}{hint}") from error
        self._last = row[0] or self._checkpoint_number()
        self.last_time_ns: int = row[1] or int(self.get_meta("checkpoint_time_ns") or 0)

    def _check_version(self) -> None:
        found = self.get_meta("schema")
        if found is None:
            self.put_meta("schema", str(SCHEMA_VERSION))
        elif int(found) != SCHEMA_VERSION:
            raise JournalError(
                f"journal {self.path} has schema {found}, this version writes {SCHEMA_VERSION}",
            )

    def get_meta(self, key: str) -> str | None:
        """A stored setting."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put_meta(self, key: str, value: str) -> None:
        """Stores a setting at once. Raises JournalError."""
        try:
            self._put_meta(key, value)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def _put_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def append(self, event: Event, time_ns: int) -> int:
        """Takes an event and gives it its number. On disk only after `commit`."""
        if len(self._pending) >= PENDING_MAX:
            raise JournalError(f"journal {self.path}: {PENDING_MAX} events could not be written")
        self._last += 1
        self._pending.append(Entry(number=self._last, time_ns=time_ns, event=event))
        return self._last

    @property
    def pending(self) -> int:
        """Events taken and not yet on disk."""
        return len(self._pending)

    def commit(self) -> None:
        """Writes what was taken. Raises JournalError; the events are kept for the next try."""
        if not self._pending:
            return
        rows = [(e.number, e.time_ns, *codec.dump_event(e.event)) for e in self._pending]
        try:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise JournalError(f"journal {self.path}: {error}") from error
        self._pending.clear()

    def withdraw(self, number: int) -> bool:
        """Takes the last event back if it is not yet on disk."""
        if self._pending and self._pending[-1].number == number:
            self._pending.pop()
            self._last -= 1
            return True
        return False

    def checkpoint(self, state: State, time_ns: int) -> None:
        """Stores the state after the last event, and drops events far behind it."""
        self.commit()
        body = codec.dump_state(state)
        try:
            self._db.execute("BEGIN")
            self._db.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)",
                (self._last, body),
            )
            self._db.execute("DELETE FROM events WHERE id <= ?", (self._last - self._kept_events,))
            self._put_meta("checkpoint_time_ns", str(time_ns))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise JournalError(f"journal {self.path}: {error}") from error

    def load_state(self) -> State | None:
        """The last checkpoint, None before the first. Raises JournalError."""
        try:
            row = self._db.execute("SELECT body FROM checkpoint").fetchone()
            return codec.load_state(row[0]) if row else None
        except (sqlite3.Error, codec.CodecError) as error:
            raise JournalError(f"journal {self.path}: checkpoint: {error}") from error

    def events(self, after: int | None = None) -> Iterator[Entry]:
        """Events with a number above ``after``, by default those after the checkpoint.

        Raises JournalError at one that cannot be read.
        """
        start = self._checkpoint_number() if after is None else after
        query = "SELECT id, time_ns, kind, body FROM events WHERE id > ? ORDER BY id"
        number = start
        try:
            for number, time_ns, kind, body in self._db.execute(query, (start,)):
                event = codec.load_event(kind, body)
                yield Entry(number=number, time_ns=time_ns, event=event)
        except (sqlite3.Error, codec.CodecError) as error:
            raise JournalError(f"journal {self.path}: event {number}: {error}") from error

    def _checkpoint_number(self) -> int:
        row = self._db.execute("SELECT event_id FROM checkpoint").fetchone()
        return row[0] if row else 0

    def close(self) -> None:
        """Commits and closes."""
        self.commit()
        self._db.close()
