"""A journal that lacks acknowledged events is detected at the start, whatever was damaged."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from system.site.live_site import wait_until
from trust.head import Head, rows
from unit.core.stage import job_spec

from wattfold.contract.ids import Epoch, JobId
from wattfold.coordinator.adapters.journal.backup import back_up
from wattfold.coordinator.adapters.journal.file import crc_of
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.adapters.journal.synced_mark import SUFFIX, Mark, SyncedMark, read_mark
from wattfold.coordinator.core.model.events import CoordinatorStarted, JobSubmitted

EVENTS = 30
ORIGIN_S = 1_795_000_000.0
S = 1_000_000_000


def written(folder: Path, events: int = EVENTS) -> Journal:
    """A journal in use, with a commit for each event; the first ten events are in the file."""
    journal = Journal(folder / "journal.sqlite")
    journal.put_meta("origin_s", repr(ORIGIN_S))
    started = CoordinatorStarted(epoch=Epoch(1), lease_ns=S, command_timeout_ns=S)
    journal.append(started, S)
    journal.commit()
    for number in range(2, events + 1):
        spec = job_spec(argv=("run", "x" * 300))
        journal.append(JobSubmitted(job_id=JobId(str(number)), spec=spec), number * S)
        journal.commit()
        if number == 10:
            journal.move()
    return journal


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The files of a journal after kill -9."""
    folder, copy = tmp_path / "live", tmp_path / "killed"
    folder.mkdir()
    journal = written(folder)
    shutil.copytree(folder, copy)
    journal.close()
    return copy / "journal.sqlite"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The files of a journal after an orderly stop."""
    written(tmp_path).close()
    return tmp_path / "journal.sqlite"


def wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


LOG_DAMAGES = [empty, flip, halve, Path.unlink]
FILE_DAMAGES = [empty, Path.unlink]


def files(path: Path) -> dict[str, bytes]:
    """Return the files of a journal.

    Reading it leaves an empty log and its index, which are omitted.
    """
    found = {part.name: part.read_bytes() for part in path.parent.glob("journal.sqlite*")}
    return {name: data for name, data in found.items() if data and not name.endswith("-shm")}


def refused(path: Path) -> str:
    """Return the message of the refusal, which must not change files."""
    before = files(path)
    with pytest.raises(JournalError, match="--accept-loss") as refusal:
        Journal(path)
    assert files(path) == before
    return str(refusal.value)


def test_what_kill_9_leaves_is_no_loss(killed: Path) -> None:
    journal = Journal(killed)
    assert journal.loss is None
    assert len(list(journal.events())) == EVENTS
    journal.close()


@pytest.mark.parametrize("damage", LOG_DAMAGES)
def test_a_damaged_log_is_told_with_how_many_events_since_when(
    killed: Path, damage: Callable[[Path], None]
) -> None:
    damage(wal(killed))
    message = refused(killed)
    assert "acknowledged events are missing after number" in message
    assert "up to number 30 of 2026-11-18T11:07:10Z" in message


def test_the_number_that_is_told_is_the_number_that_is_missing(killed: Path) -> None:
    Path.unlink(wal(killed))
    kept = rows(killed, "SELECT max(id) FROM events")[0][0]
    assert f"{EVENTS - kept} acknowledged events are missing after number {kept}" in refused(killed)


@pytest.mark.parametrize("damage", FILE_DAMAGES)
@pytest.mark.parametrize("orderly", [False, True])
def test_a_journal_that_is_gone_is_no_new_journal(
    request: pytest.FixtureRequest, damage: Callable[[Path], None], orderly: bool
) -> None:
    path: Path = request.getfixturevalue("stopped" if orderly else "killed")
    damage(path)
    assert "all 30 events are missing" in refused(path)


def test_a_damaged_journal_is_not_backed_up(killed: Path, tmp_path: Path) -> None:
    log = wal(killed).read_bytes()
    empty(wal(killed))
    with pytest.raises(JournalError, match="acknowledged events are missing"):
        back_up(killed, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()
    wal(killed).write_bytes(log)
    assert back_up(killed, tmp_path / "good").last == EVENTS


def test_an_accepted_loss_is_told_once_and_goes_on_from_what_is_left(killed: Path) -> None:
    halve(wal(killed))
    journal = Journal(killed, accept_loss=True)
    assert journal.loss is not None
    left = journal.last_number
    assert journal.loss.events == EVENTS - left
    spec = job_spec()
    journal.append(JobSubmitted(job_id=JobId("99"), spec=spec), 99 * S)
    journal.close()
    again = Journal(killed)
    assert (again.loss, again.last_number) == (None, left + 1)
    again.close()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    journal = written(tmp_path)
    body = '{"budget": 100}'
    journal.store_checkpoint(EVENTS, EVENTS * S, body, crc_of(body))
    journal.close()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute("""UPDATE checkpoint SET body = '{"budget": 900}'""")
    damaged = Journal(tmp_path / "journal.sqlite")
    with pytest.raises(JournalError, match="state after event 30 is damaged"):
        damaged.load_state()
    damaged.close()


def test_missing_events_in_the_middle_are_refused(stopped: Path) -> None:
    with closing(sqlite3.connect(stopped)) as db, db:
        db.execute("DELETE FROM events WHERE id IN (12, 13)")
    journal = Journal(stopped)
    with pytest.raises(JournalError, match="events 12 to 13 are missing"):
        list(journal.events())
    journal.close()


def test_a_journal_of_an_earlier_version_has_no_mark_and_gets_one(stopped: Path) -> None:
    mark = stopped.with_name(stopped.name + SUFFIX)
    mark.unlink()
    Journal(stopped).close()
    found = read_mark(stopped)
    assert found == Mark(number=EVENTS, time_s=ORIGIN_S + EVENTS)
    assert mark.stat().st_mode & 0o777 == 0o600


def test_a_torn_write_of_the_mark_leaves_the_one_before(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    mark = SyncedMark(journal)
    mark.write(Mark(number=7, time_s=1.0))
    mark.write(Mark(number=8, time_s=2.0))
    mark.close()
    path = tmp_path / f"journal.sqlite{SUFFIX}"
    data = bytearray(path.read_bytes())
    second = data.index(b"8 2.000")
    data[second] = ord("9")
    path.write_bytes(data)
    assert read_mark(journal) == Mark(number=7, time_s=1.0)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="damaged"):
        read_mark(journal)


def test_the_mark_is_never_ahead_of_the_journal(tmp_path: Path) -> None:
    """At each write of the mark, other readers already find its event in the journal."""
    seen: list[tuple[int, int]] = []

    class Watched(Journal):
        def _note_synced(self, last: object) -> None:
            with closing(sqlite3.connect(self.path)) as db:
                stored = db.execute("SELECT max(id) FROM events").fetchone()[0]
            seen.append((last.number, stored))  # type: ignore[attr-defined]
            super()._note_synced(last)  # type: ignore[arg-type]

    journal = Watched(tmp_path / "journal.sqlite")
    for number in range(1, 6):
        journal.append(JobSubmitted(job_id=JobId(str(number)), spec=job_spec()), number)
        journal.commit()
        found = read_mark(journal.path)
        assert found is not None
        assert found.number == number
    journal.close()
    assert seen == [(number, number) for number in range(1, 6)]


def test_the_log_is_moved_while_events_are_committed(tmp_path: Path) -> None:
    """From another thread, without lost events and without long waits."""
    journal = Journal(tmp_path / "journal.sqlite")
    over = threading.Event()

    def move() -> None:
        while not over.is_set():
            journal.move()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for number in range(1, 301):
            journal.append(JobSubmitted(job_id=JobId(str(number)), spec=job_spec()), number)
            journal.drop_launch_data([JobId(str(number))])
            journal.commit()
    finally:
        over.set()
        mover.join()
    journal.move()
    assert not journal.unmoved
    assert rows(tmp_path / "journal.sqlite", "SELECT count(*) FROM events") == [(300,)]
    assert wal(tmp_path / "journal.sqlite").stat().st_size == 0
    journal.close()


def test_a_coordinator_refuses_to_forget_and_tells_what(tmp_path: Path) -> None:
    head = Head(tmp_path)
    with head:
        jobs = [head.submit(held=True) for _ in range(5)]
        head.wattfold("budget", "set", "75W")
        epoch = read_mark(head.state / "journal.sqlite")
        assert epoch is not None
        head.process.kill()
        head.process.wait(240)
        empty(head.state / "journal.sqlite-wal")
        empty(head.state / "journal.sqlite")
        refusal = head.maintain("--listen", head.address, "--budget-w", "100")
        assert refusal.returncode == 2
        assert f"all {epoch.number} events are missing" in refusal.stderr
        assert len(refusal.stderr.splitlines()) == 1
        head.stop()
        head.start("--accept-loss")
        assert "journal_loss_accepted" in head.log.read_text()
        new = head.submit(held=True)
        assert int(new) > max(map(int, jobs)), "no number is given twice"
        assert head.json("power")["budget_uw"] == 100_000_000


def test_the_log_of_a_running_coordinator_is_moved_by_itself(tmp_path: Path) -> None:
    with Head(tmp_path) as head:
        job_id = head.submit(held=True)

        def stored() -> bool:
            # Without its log, the file itself must contain the submission.
            path = f"file:{head.state}/journal.sqlite?immutable=1"
            with closing(sqlite3.connect(path, uri=True)) as db:
                query = "SELECT body FROM events WHERE kind = 'JobSubmitted'"
                return any(f'"{job_id}"' in body for (body,) in db.execute(query))

        wait_until("the submission in the file", stored)
