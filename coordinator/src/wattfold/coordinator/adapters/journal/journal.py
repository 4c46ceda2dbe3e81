"""The journal: every event of the core in SQLite, in order, and a checkpoint.

`append` stores events in memory. `commit` writes all of them in one transaction, synced to the
disk. It runs before a user gets an acknowledgement. Other events may be lost in a crash, but only
from the end, so the rest is still the true history. `load_state` returns the last checkpoint,
`events` the events after it. Launch data and audit entries are stored in the transaction of their
event.

A commit appends to the log file, which costs one sync of the disk. `move` moves the log into the
main file from another thread and connection, so that commits do not wait for it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import JobId, array_of
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.journal import audit_trail, codec, launch_data, running_leases
from wattfold.coordinator.adapters.journal import file as journal_file
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.journal.file import SCHEMA_VERSION, JournalError, WriterLock
from wattfold.coordinator.adapters.journal.launch_data import SUBMITTED, LaunchData
from wattfold.coordinator.adapters.journal.running_leases import RunningLeases
from wattfold.coordinator.adapters.journal.synced_mark import Loss, Mark, SyncedMark
from wattfold.coordinator.core.model.events import Event
from wattfold.coordinator.core.state.state import State

PENDING_MAX = 100_000
KEPT_EVENTS = 200_000
LOCK_WAIT_S = 2.0

log = logging.getLogger("wattfold.coordinator")

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
    """An append-only store with a single writer, protected by a lock file."""

    def __init__(
        self,
        path: Path,
        kept_events: int = KEPT_EVENTS,
        lock_wait_s: float = LOCK_WAIT_S,
        kept_requests: int = audit_trail.ENTRIES_KEPT,
        *,
        accept_loss: bool = False,
    ) -> None:
        """Open or create the file. Raises JournalError (in use, not a journal, no space).

        ``kept_events`` events remain before a checkpoint, ``kept_requests`` entries in the audit
        trail. ``lock_wait_s`` is the maximum wait for another writer. A journal that lacks
        acknowledged events is refused and left unchanged, unless ``accept_loss`` is set. In that
        case ``loss`` holds the missing events.
        """
        self.path = path
        self._kept_events = kept_events
        self._kept_requests = kept_requests
        self._pending: list[Entry] = []
        self._dropped: set[JobId] = set()
        self._notes: list[AuditEntry] = []
        self._scrub_due = False
        self._moving = threading.Lock()
        self._closed = False
        self.unmoved = False
        """Whether anything was committed since the last `move`."""
        self.committed: Callable[[int], None] = lambda _: None
        """Called with the duration of each successful commit, in nanoseconds."""
        try:
            self._lock = WriterLock(path, lock_wait_s)
        except OSError as error:
            raise JournalError(f"journal {path}: unable to open: {error.strerror}") from error
        try:
            self.loss: Loss | None = journal_file.loss(path, accept_loss)
            self._db = journal_file.open_database(path, lock_wait_s)
            journal_file.truncate_wal(self._db)
            self._mover = journal_file.open_mover(path)
            row = self._db.execute("SELECT max(id), max(time_ns) FROM events").fetchone()
            self._mark = SyncedMark(path)
        except (sqlite3.Error, OSError, JournalError) as error:
            self._lock.release()
            if isinstance(error, JournalError):
                raise
            hint = " (is another coordinator running?)" if "locked" in str(error) else ""
            raise JournalError(f"journal {path}: {error}{hint}") from error
        self._last = row[0] or self._checkpoint_number()
        self.last_time_ns: int = row[1] or int(self.get_meta("checkpoint_time_ns") or 0)
        self._origin_s = float(self.get_meta("origin_s") or 0)
        self._mark.restart(self._mark_at(self._last, self.last_time_ns))

    def get_meta(self, key: str) -> str | None:
        """Return a stored setting."""
        return journal_file.meta(self._db, key)

    def put_meta(self, key: str, value: str) -> None:
        """Store a setting immediately. Raises JournalError."""
        try:
            journal_file.put_meta(self._db, key, value)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error
        if key == "origin_s":
            self._origin_s = float(value)

    def append(
        self,
        event: Event,
        time_ns: int,
        launch: LaunchData | None = None,
        asked: AuditEntry | None = None,
    ) -> int:
        """Add an event and return its number. It is on disk only after `commit`.

        ``launch`` belongs to the job of a submission; ``asked`` is the request that caused the
        event.
        """
        if len(self._pending) >= PENDING_MAX:
            raise JournalError(f"journal {self.path}: {PENDING_MAX} events could not be written")
        self._last += 1
        entry = Entry(number=self._last, time_ns=time_ns, event=event, launch=launch, asked=asked)
        self._pending.append(entry)
        return self._last

    @property
    def last_number(self) -> int:
        """Number of the last added event."""
        return self._last

    @property
    def synced_number(self) -> int:
        """Number of the last event on disk."""
        return self._last - len(self._pending)

    @property
    def pending(self) -> int:
        """Number of added events that are not yet on disk."""
        return len(self._pending)

    def commit(self) -> None:
        """Write the added events. Raises JournalError, and keeps the events for the next try."""
        if not (self._pending or self._dropped or self._notes):
            return
        began_ns = time.monotonic_ns()
        rows = [(e.number, e.time_ns, *codec.dump_event(e.event)) for e in self._pending]
        try:
            with journal_file.transaction(self._db):
                self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
                self._write_beside()
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error
        self.unmoved = True
        if self._pending:
            self._note_synced(self._pending[-1])
        self._pending.clear()
        self._dropped.clear()
        self._notes.clear()
        self.committed(time.monotonic_ns() - began_ns)

    def _note_synced(self, last: Entry) -> None:
        try:
            self._mark.write(self._mark_at(last.number, last.time_ns))
        except OSError as error:
            # The events are stored, but a later loss of them would not be noticed without the mark.
            log.error(line("synced_mark_not_written", reason=error))

    def _mark_at(self, number: int, time_ns: int) -> Mark:
        return Mark(number=number, time_s=self._origin_s + time_ns / 1e9)

    def _write_beside(self) -> None:
        launches = [
            (e.event.job_id, launch_data.dump(e.launch))
            for e in self._pending
            if e.launch is not None and isinstance(e.event, SUBMITTED)
        ]
        self._db.executemany("INSERT OR REPLACE INTO launch_data VALUES (?, ?)", launches)
        gone = [(job_id,) for job_id in self._dropped]
        self._db.executemany("DELETE FROM launch_data WHERE job = ?", gone)
        asked = [entry.asked for entry in self._pending if entry.asked is not None]
        audit_trail.write(self._db, [*asked, *self._notes], self._kept_requests)
        self._scrub_due = self._scrub_due or bool(gone)

    def withdraw(self, number: int) -> bool:
        """Withdraw the last event if it is not yet on disk. Returns whether it was withdrawn."""
        if self._pending and self._pending[-1].number == number:
            self._pending.pop()
            self._last -= 1
            return True
        return False

    def checkpoint(self, state: State, time_ns: int) -> None:
        """Store the state after the last event, and delete events far behind it."""
        body = codec.dump_state(state)
        self.store_checkpoint(self._last, time_ns, body, journal_file.crc_of(body))

    def store_checkpoint(self, number: int, time_ns: int, body: str, crc: int) -> None:
        """Store the text of the state after the event ``number``. Raises JournalError.

        ``crc`` is `journal_file.crc_of` the text.
        """
        self.commit()
        try:
            with journal_file.transaction(self._db):
                self._db.execute(
                    "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (number, body)
                )
                for table in ("events", "set_aside"):
                    self._db.execute(
                        f"DELETE FROM {table} WHERE id <= ?",  # noqa: S608 - constants
                        (number - self._kept_events,),
                    )
                journal_file.put_meta(self._db, "checkpoint_time_ns", str(time_ns))
                journal_file.put_meta(
                    self._db, "checkpoint_crc32", journal_file.checksum(number, crc)
                )
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def load_state(self) -> State | None:
        """Return the last checkpoint; None = none yet. Raises JournalError."""
        try:
            row = self._db.execute("SELECT event_id, body FROM checkpoint").fetchone()
            if row is None:
                return None
            journal_file.check_checkpoint(self._db, *row)
            return codec.load_state(row[1])
        except (sqlite3.Error, ValueError, codec.CodecError) as error:
            raise JournalError(f"journal {self.path}: checkpoint: {error}") from error

    def events(self, after: int | None = None, but: Collection[int] = ()) -> Iterator[Entry]:
        """Yield the events with a number above ``after``; by default, those after the checkpoint.

        Leaves out events that were set aside and the numbers in ``but``. Raises JournalError if an
        event is unreadable or missing.
        """
        start = self._checkpoint_number() if after is None else after
        query = "SELECT id, time_ns, kind, body FROM events WHERE id > ? ORDER BY id"
        # Events long before a checkpoint may have been deleted.
        before = start if after is None else None
        number = start
        try:
            aside = journal_file.aside(self._db)
            for number, time_ns, kind, body in self._db.execute(query, (start,)):
                if before is not None and number != before + 1:
                    raise codec.CodecError(f"events {before + 1} to {number - 1} are missing")
                before = number
                if number in aside or number in but:
                    continue
                event = codec.load_event(kind, body)
                yield Entry(number=number, time_ns=time_ns, event=event)
        except (sqlite3.Error, codec.CodecError) as error:
            raise JournalError(f"journal {self.path}: event {number}: {error}") from error

    def running_leases(self, now_ns: int) -> RunningLeases | None:
        """Return the leases to renew before the events are replayed; None = none.

        Raises JournalError.
        """
        try:
            return running_leases.read(self._db, self.last_time_ns, now_ns)
        except (sqlite3.Error, ValueError, KeyError) as error:
            raise JournalError(f"journal {self.path}: leases: {error}") from error

    def set_aside(self, number: int, reason: str, asked: AuditEntry | None = None) -> None:
        """Exclude an event from every later replay, immediately. Raises JournalError.

        ``asked`` is the request that caused it. The audit trail no longer shows it as done.
        """
        self.commit()
        try:
            with journal_file.transaction(self._db):
                values = (number, time.time(), reason)
                self._db.execute("INSERT OR REPLACE INTO set_aside VALUES (?, ?, ?)", values)
                if asked is not None:
                    audit_trail.withdraw(self._db, asked)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error
        self.unmoved = True

    def aside(self) -> list[Entry]:
        """Return readable events after the checkpoint that were set aside. Raises JournalError."""
        query = (
            "SELECT id, time_ns, kind, body FROM events JOIN set_aside USING (id) "
            "WHERE id > ? ORDER BY id"
        )
        found, start = [], self._checkpoint_number()
        try:
            for number, time_ns, kind, body in self._db.execute(query, (start,)):
                with suppress(codec.CodecError):
                    event = codec.load_event(kind, body)
                    found.append(Entry(number=number, time_ns=time_ns, event=event))
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error
        return found

    def _checkpoint_number(self) -> int:
        row = self._db.execute("SELECT event_id FROM checkpoint").fetchone()
        return row[0] if row else 0

    # Launch data.

    def launch_data(self, job_id: JobId) -> LaunchData | None:
        """Return the launch data of a job, or of its array; None = deleted. Raises JournalError."""
        job_id = array_of(job_id) or job_id
        for entry in reversed(self._pending):
            submitted = isinstance(entry.event, SUBMITTED) and entry.event.job_id == job_id
            if submitted and entry.launch is not None:
                return entry.launch
        try:
            query = "SELECT body FROM launch_data WHERE job = ?"
            row = self._db.execute(query, (job_id,)).fetchone()
            return launch_data.load(row[0]) if row and job_id not in self._dropped else None
        except (sqlite3.Error, ValueError) as error:
            raise JournalError(f"journal {self.path}: job {job_id}: {error}") from error

    def drop_launch_data(self, job_ids: Collection[JobId]) -> None:
        """Delete the launch data of these jobs with the next commit."""
        self._dropped.update(job_ids)

    def keep_launch_data(self, job_ids: Collection[JobId]) -> None:
        """Delete the launch data of all other jobs with the next commit."""
        stored = self._db.execute("SELECT job FROM launch_data").fetchall()
        self.drop_launch_data({JobId(job) for (job,) in stored} - set(job_ids))

    def move(self) -> None:
        """Move the log into the file. May run in another thread. Raises JournalError.

        After a deletion the log is emptied as well; the next move repeats this if a reader holds
        it.
        """
        with self._moving:
            if self._closed:
                return
            scrub, self._scrub_due, self.unmoved = self._scrub_due, False, False
            try:
                journal_file.move_wal(self._mover)
                self._scrub_due |= scrub and not journal_file.truncate_wal(self._mover)
                self._mark.sync()
            except (sqlite3.Error, OSError) as error:
                self._scrub_due, self.unmoved = self._scrub_due or scrub, True
                raise JournalError(f"journal {self.path}: {error}") from error

    # The audit trail.

    def note(self, entry: AuditEntry) -> None:
        """Add a request that caused no event. It is on disk after the next commit."""
        self._notes.append(entry)

    def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        """Return stored requests, oldest first. Raises JournalError."""
        try:
            return audit_trail.read(self._db, wanted)
        except sqlite3.Error as error:
            raise JournalError(f"journal {self.path}: {error}") from error

    def abandon(self) -> None:
        """Close without a commit, as a crash would."""
        with self._moving:
            if not self._closed:
                self._closed = True
                self._mover.close()
                self._db.close()
                self._mark.close()
        self._lock.release()

    def close(self) -> None:
        """Commit, move the log into the main file, and close."""
        try:
            self.commit()
            with suppress(JournalError):
                self.move()
        finally:
            self.abandon()
