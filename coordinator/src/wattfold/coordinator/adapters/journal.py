"""The journal: every event of the core in SQLite, in order, and a checkpoint to start from.

`append` takes events in memory, `commit` writes all that were taken in one transaction, synced to
the disk. What is acknowledged to a user is committed first; events nobody waits for may be lost
with a crash, but only from the end: the rest is still the true history. `load` gives the last
checkpoint and the events after it.

What only the start of a job needs and the audit trail stand beside the events, in the transaction
of the event they belong to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters import audit_trail, codec, journal_file, launch_data
from wattfold.coordinator.adapters.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.journal_file import SCHEMA_VERSION, JournalError, WriterLock
from wattfold.coordinator.adapters.launch_data import LaunchData
from wattfold.coordinator.core.events import Event, JobSubmitted
from wattfold.coordinator.core.state import State

PENDING_MAX = 100_000
KEPT_EVENTS = 200_000
LOCK_WAIT_S = 2.0

__all__ = ["SCHEMA_VERSION", "Entry", "Journal", "JournalError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event with its number and coordinator time."""

    number: int
    time_ns: int
    event: Event
    launch: LaunchData | None = None
    asked: AuditEntry | None = None


class Journal:
    """An append-only store. Single writer, held by a lock on the database."""

    def __init__(
        self,
        path: Path,
        kept_events: int = KEPT_EVENTS,
        lock_wait_s: float = LOCK_WAIT_S,
        kept_requests: int = audit_trail.ENTRIES_KEPT,
    ) -> None:
        """Opens or makes the file. Raises JournalError (in use, not a journal, no space).

        ``kept_events`` stay before a checkpoint, ``kept_requests`` in the audit trail; another
        writer is waited for ``lock_wait_s``.
        """
        self.path = path
        self._kept_events = kept_events
        self._kept_requests = kept_requests
        self._pending: list[Entry] = []
        self._dropped: set[JobId] = set()
        self._notes: list[AuditEntry] = []
        self._scrub_due = False
        try:
            self._lock = WriterLock(path, lock_wait_s)
        except OSError as error:
            raise JournalError(f"journal {path}: unable to open: {error.strerror}") from error
        try:
            self._db = journal_file.open_database(path, lock_wait_s)
            row = self._db.execute("SELECT max(id), max(time_ns) FROM events").fetchone()
        except (sqlite3.Error, OSError, JournalError) as error:
            self._lock.release()
            if isinstance(error, JournalError):
                raise
            hint = " (is another coordinator running?)" if "locked" in str(error) else ""
            raise JournalError(f"journal {path}: {error}{hint}") from error
        self._last = row[0] or self._checkpoint_number()
        self.last_time_ns: int = row[1] or int(self.get_meta("checkpoint_time_ns") or 0)

    def get_meta(self, key: str) -> str | None:
        """A stored setting."""
        return journal_file.meta(self._db, key)

    def put_meta(self, key: str, value: str) -> None:
        """Stores a setting at once. Raises JournalError."""
        try:
            journal_file.put_meta(self._db, key, value)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def append(
        self,
        event: Event,
        time_ns: int,
        launch: LaunchData | None = None,
        asked: AuditEntry | None = None,
    ) -> int:
        """Takes an event and gives it its number. On disk only after `commit`.

        ``launch`` belongs to the job of a submission; ``asked`` is the request that led to it.
        """
        if len(self._pending) >= PENDING_MAX:
            raise JournalError(f"journal {self.path}: {PENDING_MAX} events could not be written")
        self._last += 1
        entry = Entry(number=self._last, time_ns=time_ns, event=event, launch=launch, asked=asked)
        self._pending.append(entry)
        return self._last

    @property
    def last_number(self) -> int:
        """Number of the event that was taken last."""
        return self._last

    @property
    def pending(self) -> int:
        """Events taken and not yet on disk."""
        return len(self._pending)

    def commit(self) -> None:
        """Writes what was taken. Raises JournalError; the events are kept for the next try."""
        if not (self._pending or self._dropped or self._notes):
            return
        rows = [(e.number, e.time_ns, *codec.dump_event(e.event)) for e in self._pending]
        try:
            with journal_file.transaction(self._db):
                self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
                self._write_beside()
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error
        self._pending.clear()
        self._dropped.clear()
        self._notes.clear()

    def _write_beside(self) -> None:
        launches = [
            (e.event.job_id, launch_data.dump(e.launch))
            for e in self._pending
            if e.launch is not None and isinstance(e.event, JobSubmitted)
        ]
        self._db.executemany("INSERT OR REPLACE INTO launch_data VALUES (?, ?)", launches)
        gone = [(job_id,) for job_id in self._dropped]
        self._db.executemany("DELETE FROM launch_data WHERE job = ?", gone)
        asked = [entry.asked for entry in self._pending if entry.asked is not None]
        audit_trail.write(self._db, [*asked, *self._notes], self._kept_requests)
        self._scrub_due = self._scrub_due or bool(gone)

    def withdraw(self, number: int) -> bool:
        """Takes the last event back if it is not yet on disk."""
        if self._pending and self._pending[-1].number == number:
            self._pending.pop()
            self._last -= 1
            return True
        return False

    def checkpoint(self, state: State, time_ns: int) -> None:
        """Stores the state after the last event, and drops events far behind it."""
        self.store_checkpoint(self._last, time_ns, codec.dump_state(state))

    def store_checkpoint(self, number: int, time_ns: int, body: str) -> None:
        """Stores the text of the state after the event of a number. Raises JournalError."""
        self.commit()
        try:
            with journal_file.transaction(self._db):
                self._db.execute(
                    "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (number, body)
                )
                self._db.execute("DELETE FROM events WHERE id <= ?", (number - self._kept_events,))
                journal_file.put_meta(self._db, "checkpoint_time_ns", str(time_ns))
        except sqlite3.Error as error:
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

    # What only the start of a job needs.

    def launch_data(self, job_id: JobId) -> LaunchData | None:
        """The launch data of a job, None once it was dropped. Raises JournalError."""
        for entry in reversed(self._pending):
            submitted = isinstance(entry.event, JobSubmitted) and entry.event.job_id == job_id
            if submitted and entry.launch is not None:
                return entry.launch
        try:
            query = "SELECT body FROM launch_data WHERE job = ?"
            row = self._db.execute(query, (job_id,)).fetchone()
            return launch_data.load(row[0]) if row and job_id not in self._dropped else None
        except (sqlite3.Error, ValueError) as error:
            raise JournalError(f"journal {self.path}: job {job_id}: {error}") from error

    def drop_launch_data(self, job_ids: Collection[JobId]) -> None:
        """Forgets launch data of jobs with the next commit."""
        self._dropped.update(job_ids)

    def keep_launch_data(self, job_ids: Collection[JobId]) -> None:
        """Forgets that of all other jobs with the next commit."""
        stored = self._db.execute("SELECT job FROM launch_data").fetchall()
        self.drop_launch_data({JobId(job) for (job,) in stored} - set(job_ids))

    def scrub(self) -> None:
        """Takes what was dropped out of the log beside the file; later while somebody reads."""
        if not self._scrub_due:
            return
        try:
            self._scrub_due = not journal_file.truncate_wal(self._db)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    # The audit trail.

    def note(self, entry: AuditEntry) -> None:
        """Takes a request that led to no event; on disk after the next commit."""
        self._notes.append(entry)

    def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        """Stored requests, oldest first. Raises JournalError."""
        try:
            return audit_trail.read(self._db, wanted)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def abandon(self) -> None:
        """Closes without a commit, as a crash would."""
        self._db.close()
        self._lock.release()

    def close(self) -> None:
        """Commits, takes all into the one file and closes."""
        try:
            self.commit()
            with suppress(JournalError):
                self.scrub()
        finally:
            self.abandon()
