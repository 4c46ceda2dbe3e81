"""The journal file: contents after commits, after failures, and after foreign changes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev


def event(number: int) -> ev.Event:
    return ev.JobCancelRequested(job_id=JobId(str(number)))


def stored(path: Path) -> list[tuple[int, int, ev.Event]]:
    journal = Journal(path)
    try:
        return [(e.number, e.time_ns, e.event) for e in journal.events(0)]
    finally:
        journal.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_events_are_there_after_a_commit_only(path: Path) -> None:
    journal = Journal(path)
    assert journal.append(event(1), 10) == 1
    journal.commit()
    assert journal.append(event(2), 20) == 2
    assert journal.pending == 1
    journal.abandon()
    assert stored(path) == [(1, 10, event(1))]


def test_a_reopened_journal_goes_on(path: Path) -> None:
    first = Journal(path)
    assert first.last_time_ns == 0
    first.append(event(1), 10)
    first.close()
    second = Journal(path)
    assert second.last_time_ns == 10
    assert second.append(event(2), 30) == 2
    second.close()
    assert [number for number, _, _ in stored(path)] == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_events_are_withdrawn_from_the_end(path: Path) -> None:
    journal = Journal(path)
    numbers = [journal.append(event(n), n) for n in range(4)]
    assert not journal.withdraw(numbers[0]), "only the last one"
    assert [journal.withdraw(n) for n in reversed(numbers[1:])] == [True] * 3
    assert journal.append(event(9), 9) == numbers[1]
    journal.commit()
    assert not journal.withdraw(numbers[1]), "it is on disk"
    journal.close()
    assert [e for _, _, e in stored(path)] == [event(0), event(9)]


def test_a_checkpoint_takes_the_place_of_the_events_before_it(path: Path) -> None:
    journal = Journal(path)
    assert journal.load_state() is None
    core = CoordinatorCore(1000)
    journal.append(event(1), 10)
    journal.checkpoint(core.state, 15)
    journal.append(event(2), 20)
    journal.commit()
    assert journal.load_state() == core.state
    assert [e.number for e in journal.events()] == [2]
    assert [e.number for e in journal.events(after=0)] == [1, 2]
    journal.close()


def test_old_events_are_dropped_and_numbers_go_on(path: Path) -> None:
    journal = Journal(path, kept_events=2)
    for number in range(5):
        journal.append(event(number), number)
    journal.checkpoint(CoordinatorCore(1000).state, 77)
    assert [e.number for e in journal.events(after=0)] == [4, 5]
    journal.close()
    again = Journal(path)
    assert again.append(event(9), 80) == 6
    assert again.last_time_ns == 4
    again.close()


def test_the_time_of_a_checkpoint_counts_where_no_event_is_left(path: Path) -> None:
    journal = Journal(path, kept_events=0)
    journal.append(event(1), 10)
    journal.checkpoint(CoordinatorCore(1000).state, 77)
    journal.close()
    again = Journal(path)
    assert (again.last_time_ns, again.append(event(2), 90)) == (77, 2)
    again.close()


def test_settings(path: Path) -> None:
    journal = Journal(path)
    assert journal.get_meta("origin") is None
    journal.put_meta("origin", "1")
    journal.put_meta("origin", "2")
    journal.close()
    again = Journal(path)
    assert again.get_meta("origin") == "2"
    again.close()


def test_a_second_coordinator_is_refused(path: Path) -> None:
    first = Journal(path)
    with pytest.raises(JournalError, match=r"locked .*another coordinator running"):
        Journal(path, lock_wait_s=0.05)
    first.append(event(1), 1)
    first.close()
    Journal(path).close()


def test_a_file_that_is_no_journal(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to have a header" * 100)
    with pytest.raises(JournalError, match=r"journal\.sqlite: file is not a database$"):
        Journal(path)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="unable to open"):
        Journal(tmp_path / "none" / "journal.sqlite")


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("SomethingNew", "{}", "event 1: unknown kind 'SomethingNew'"),
        ("JobCancelRequested", "{", "event 1: not a valid JobCancelRequested"),
        ("JobCancelRequested", "{}", "event 1: not a valid JobCancelRequested"),
        ("LeaseRenewed", '{"caps": 3}', "event 1: not a valid LeaseRenewed"),
    ],
)
def test_an_event_that_cannot_be_read(path: Path, kind: str, body: str, why: str) -> None:
    journal = Journal(path)
    journal._db.execute("INSERT INTO events VALUES (1, 1, ?, ?)", (kind, body))
    with pytest.raises(JournalError, match=why):
        list(journal.events())
    journal.close()


def test_a_checkpoint_that_cannot_be_read(path: Path) -> None:
    journal = Journal(path)
    journal._db.execute("INSERT INTO checkpoint VALUES (1, 0, '[]')")
    with pytest.raises(JournalError, match="checkpoint: not a valid State"):
        journal.load_state()
    journal.close()


def test_damaged_pages_are_named(path: Path) -> None:
    journal = Journal(path)
    for number in range(2000):
        journal.append(event(number), number)
    journal.checkpoint(CoordinatorCore(1).state, 1)
    journal.close()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 12 * 4096] = b"\xff" * (9 * 4096)
    path.write_bytes(data)
    with pytest.raises(JournalError, match=r"journal\.sqlite"):  # noqa: PT012 - opening may do
        damaged = Journal(path)
        list(damaged.events(after=0))


_FULL = """
import resource, sys
from pathlib import Path
from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.machine import CoordinatorCore

journal = Journal(Path(sys.argv[1]))
event = ev.JobCancelRequested(job_id=JobId("x" * 50))
journal.append(event, 1)
journal.commit()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
for _ in range(20_000):
    journal.append(event, 2)
for action in (journal.commit, lambda: journal.checkpoint(CoordinatorCore(1).state, 3)):
    try:
        action()
    except JournalError as error:
        print(error)
assert journal.pending == 20_000, journal.pending
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.commit()
assert journal.pending == 0
journal.close()
print(sum(1 for _ in Journal(Path(sys.argv[1])).events(0)))
"""


def test_a_full_disk_keeps_the_events_for_the_next_try(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    *errors, count = done.stdout.splitlines()
    assert count == "20001"
    assert len(errors) == 2
    assert all(line.startswith(f"journal {path}: ") for line in errors)
