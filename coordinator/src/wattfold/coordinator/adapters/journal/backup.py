"""Backup, verification and restoration of a journal, with or without a running coordinator.

A copy of the file alone is no backup, because the newest events are in the log file. A restored
journal is older than the cluster. So `restore` adds an epoch that nodes will obey, unused job
numbers and a new identity, and it holds jobs that may have run since the backup.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.ids import Epoch
from wattfold.coordinator.adapters.journal import codec, synced_mark
from wattfold.coordinator.adapters.journal import file as journal_file
from wattfold.coordinator.adapters.journal.file import SCHEMA_VERSION, JournalError, WriterLock
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.events import JournalRestored
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.state.state import InvariantError, State

LEAP = 1000
"""Increase of epochs and job numbers if the previous journal cannot be read."""
LOCK_WAIT_S = 0.5
READ_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Verified contents of a journal. ``last_s`` is the time of its last event in Unix seconds."""

    events: int
    last: int
    last_ns: int
    last_s: float
    epoch: int
    submissions: int
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Result of a restoration. ``aside`` is None if there was no journal."""

    found: Verified
    first_epoch: int
    first_job: int
    aside: Path | None


def back_up(journal: Path, target: Path, force: bool = False) -> Verified:
    """Write a verified copy of a journal to a file with mode 0600. Raises JournalError.

    A journal that lacks acknowledged events is refused as well.
    """
    if not journal.exists():
        raise JournalError(f"no journal at {journal}; name its directory with --state-dir")
    if target.exists() and not force:
        raise JournalError(f"{target} exists; choose another name, or give --force")
    partial = target.with_name(target.name + ".partial")
    try:
        journal_file.loss(journal, accepted=False)
        with closing(_opened(journal)) as db:
            db.execute("BEGIN")  # One transaction: copy what is checked.
            journal_file.copy(db, partial)
        found = verify(partial)
        _publish(partial, target)
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"backup of {journal} to {target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return found


def verify(path: Path) -> Verified:
    """Read a whole journal that no process writes. Raises JournalError with the defect."""
    try:
        with closing(_opened(path)) as db:
            _check_schema(db, path)
            _check_pages(db, path)
            return _check_events(db, path)
    except (sqlite3.Error, codec.CodecError, InvariantError, KeyError, ValueError) as error:
        raise JournalError(f"{path} is not a valid journal: {error}") from error


def restore(source: Path, journal: Path, moment: str) -> Restored:
    """Replace a journal with a backup. The old journal is renamed with the ``moment``.

    Without a journal, the directory is created with access for its owner only. Raises JournalError,
    also while a coordinator runs. In that case nothing was changed.
    """
    if not source.exists():
        raise JournalError(f"no backup at {source}")
    found = verify(source)
    try:
        journal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = WriterLock(journal, LOCK_WAIT_S)
    except OSError as error:
        raise JournalError(f"journal {journal}: {error.strerror}") from error
    try:
        before = _before(journal)
        event = JournalRestored(
            epoch=Epoch(max(found.epoch + LEAP, before.epoch if before else 0)),
            submissions=max(found.submissions + LEAP, before.submissions if before else 0),
            caps_unknown=True,
        )
        partial = journal.with_name(journal.name + ".partial")
        _prepare(source, partial, found, event)
        aside = _set_aside(journal, moment)
        _publish(partial, journal)
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"restore of {source} to {journal}: {error}") from error
    finally:
        lock.release()
    return Restored(
        found=found,
        first_epoch=event.epoch + 1,
        first_job=event.submissions + 1,
        aside=aside,
    )


def _opened(path: Path) -> sqlite3.Connection:
    # Not read-only: SQLite needs to write files next to the journal to read the log of a killed
    # coordinator.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=READ_WAIT_S, isolation_level=None
    )


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    schema = journal_file.schema_of(db)
    if schema is None:
        raise JournalError(
            f"{path} is not a journal: it has no tables; was it copied while the coordinator was "
            "running?"
        )
    if schema != str(SCHEMA_VERSION):
        raise JournalError(
            f"{path} has schema {schema}, but this version backs up and restores schema "
            f"{SCHEMA_VERSION}; to migrate an older journal, start this coordinator on it "
            "once"
        )


def _check_pages(db: sqlite3.Connection, path: Path) -> None:
    problems = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
    if problems != ["ok"]:
        raise JournalError(f"{path} is damaged: {'; '.join(problems)}")


def _check_events(db: sqlite3.Connection, path: Path) -> Verified:
    count, first, last = db.execute("SELECT count(*), min(id), max(id) FROM events").fetchone()
    row = db.execute("SELECT event_id, body FROM checkpoint").fetchone()
    start = row[0] if row else 0
    last = last or start
    if count and (last - first + 1 != count or first > start + 1):
        raise JournalError(
            f"{path} has {count} events with numbers {first} to {last}; some are missing"
        )
    core = CoordinatorCore(0)
    if row:
        journal_file.check_checkpoint(db, *row)
        core.state = codec.load_state(row[1])
    last_ns = int(journal_file.meta(db, "checkpoint_time_ns") or 0)
    query = "SELECT id, time_ns, kind, body FROM events WHERE id > ? ORDER BY id"
    aside = journal_file.aside(db)
    for number, time_ns, kind, body in db.execute(query, (start,)):
        if number in aside:
            continue
        core.handle(codec.load_event(kind, body), time_ns, f"e{number}")
        last_ns = time_ns
    origin_s = float(journal_file.meta(db, "origin_s") or 0)
    return Verified(
        events=count,
        last=last,
        last_ns=last_ns,
        last_s=origin_s + (core.state.calendar_ns + last_ns) / 1e9,
        epoch=core.state.epoch,
        submissions=core.state.submissions,
        waiting=_waiting(core.state),
    )


def _waiting(state: State) -> tuple[str, ...]:
    waits = (JobState.WAITING, JobState.PENDING)
    return tuple(job.job_id for job in state.jobs.values() if job.state in waits)


def _before(journal: Path) -> Verified | None:
    """Return the contents of the journal to be replaced, or None if it cannot be read."""
    try:
        return verify(journal) if journal.exists() else None
    except JournalError:
        return None


def _prepare(source: Path, partial: Path, found: Verified, event: JournalRestored) -> None:
    with closing(_opened(source)) as db:
        journal_file.copy(db, partial)
    with closing(_opened(partial)) as db, journal_file.transaction(db):
        row = (found.last + 1, found.last_ns, *codec.dump_event(event))
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", row)
        # For the nodes, a coordinator that still runs on the previous journal is another
        # coordinator.
        journal_file.put_meta(db, "coordinator_id", uuid.uuid4().hex)
        # The journal gets a new home where it is restored.
        db.execute("DELETE FROM meta WHERE key IN ('home_machine', 'home_path')")


def _set_aside(journal: Path, moment: str) -> Path | None:
    suffixes = ("", *journal_file.COMPANIONS, synced_mark.SUFFIX)
    there = [suffix for suffix in suffixes if journal.with_name(journal.name + suffix).exists()]
    if not there:
        return None
    aside = journal.with_name(f"{journal.name}.before-{moment}")
    for suffix in there:
        journal.with_name(journal.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def _publish(partial: Path, target: Path) -> None:
    """Rename a file to its final name after it is on disk."""
    fd = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    partial.rename(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
