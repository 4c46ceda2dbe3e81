"""A backup is made while the coordinator runs, is complete, and can be restored."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from trust.head import Head, rows
from unit.core.stage import Stage, job_spec, running

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.adapters.journal.backup import LEAP, back_up, restore, verify
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.v1 import coordinator_pb2 as pb

JOURNAL = "journal.sqlite"


def journal_with(path: Path, jobs: int, epoch: int = 1) -> None:
    """A journal of a coordinator in this epoch, with waiting jobs."""
    journal = Journal(path)
    started = ev.CoordinatorStarted(epoch=Epoch(epoch), lease_ns=1, command_timeout_ns=1)
    journal.append(started, 1)
    for number in range(1, jobs + 1):
        submitted = ev.JobSubmitted(job_id=JobId(str(number)), spec=job_spec())
        journal.append(submitted, 1 + number)
    journal.close()


def test_a_running_coordinator_is_backed_up(folder: Path) -> None:
    target = folder / "backup"
    with Head(folder) as head:
        job_id = head.submit(name="kept")
        done = head.maintain("backup", str(target))
        assert done.returncode == 0, done.stderr
        assert "verified" in done.stdout
        # The coordinator continues, and a second backup is refused.
        head.submit(name="later")
        assert head.maintain("backup", str(target)).returncode == 2, "it is not written over"
    assert target.stat().st_mode & 0o777 == 0o600
    assert rows(target, "PRAGMA integrity_check") == [("ok",)]
    kinds = [kind for (kind,) in rows(target, "SELECT kind FROM events ORDER BY id")]
    assert kinds.count("JobSubmitted") == 1
    assert job_id == "1"
    assert [path.name for path in folder.glob("backup*")] == ["backup"]


def test_a_stopped_or_killed_one_is_backed_up_as_well(folder: Path) -> None:
    with Head(folder) as head:
        head.submit()
        head.stop(signal.SIGKILL)
        assert head.maintain("backup", str(folder / "killed")).returncode == 0
        head.start()
    assert head.maintain("backup", str(folder / "stopped")).returncode == 0
    for name in ("killed", "stopped"):
        found = rows(folder / name, "SELECT count(*) FROM events WHERE kind = 'JobSubmitted'")
        assert found == [(1,)]


def test_the_log_beside_the_journal_is_as_closed_as_the_journal(folder: Path) -> None:
    with Head(folder) as head:
        head.submit()
        modes = {p.name: p.stat().st_mode & 0o777 for p in head.state.glob("journal.sqlite*")}
    assert modes.keys() >= {JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm"}
    assert set(modes.values()) == {0o600}


def test_a_journal_that_others_could_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    Journal(path).close()
    path.chmod(0o644)
    Journal(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_restore_by_command(folder: Path) -> None:
    target = folder / "backup"
    with Head(folder) as head:
        first = head.submit(name="first")
        held = head.submit(held=True)
        waits = head.client.submit(
            pb.SubmitRequest(
                spec=pb.JobSpec(argv=["true"]),
                after=[pb.JobDependency(job_id=held, success=True)],
            )
        )
        assert head.maintain("backup", str(target)).returncode == 0
        after = head.submit(name="after the backup")
        refused = head.maintain("restore", str(target))
        assert refused.returncode == 2
        assert "is another coordinator running?" in refused.stderr
        assert head.json("show", after)["spec"]["name"] == "after the backup"
        head.stop()
        done = head.maintain("restore", str(target))
        assert done.returncode == 0, done.stderr
        assert f"may have run after the backup: {first}, {waits}" in done.stdout
        head.start()
        jobs = {job.job_id: job for job in head.client.list_jobs().jobs}
        assert jobs.keys() == {first, held, waits}
        for job_id in (first, waits):
            assert jobs[job_id].state == pb.JOB_STATE_HELD
            assert "backup" in jobs[job_id].reason
        head.client.release(waits)
        again = head.client.list_jobs([waits]).jobs[0]
        assert (again.state, again.reason) == (
            pb.JOB_STATE_PENDING,
            f"waits for success of job {held}",
        )
        assert int(head.submit(name="new")) > int(after)
    kept = list(head.state.glob(f"{JOURNAL}.before-*Z"))
    assert [len(rows(path, "SELECT 1 FROM checkpoint")) for path in kept] == [1]


@pytest.mark.parametrize("readable", [True, False], ids=["known", "damaged"])
def test_nodes_obey_the_restored_epoch(tmp_path: Path, readable: bool) -> None:
    backup, journal = tmp_path / "b" / JOURNAL, tmp_path / JOURNAL
    backup.parent.mkdir()
    journal_with(backup, jobs=2, epoch=3)
    journal_with(journal, jobs=5000, epoch=2 * LEAP)
    if not readable:
        journal.write_bytes(b"x" * 5000)
    done = restore(backup, journal, "now")
    assert done.first_epoch == (2 * LEAP if readable else 3 + LEAP) + 1
    assert done.first_job == (5000 if readable else 2 + LEAP) + 1
    assert done.aside == tmp_path / f"{JOURNAL}.before-now"
    assert done.aside.exists()
    assert verify(journal).epoch == done.first_epoch - 1


def test_a_restored_journal_is_another_one_for_the_nodes(tmp_path: Path) -> None:
    backup, path = tmp_path / "b", tmp_path / JOURNAL
    journal_with(path, jobs=1)
    journal = Journal(path)
    journal.put_meta("coordinator_id", "one")
    journal.close()
    back_up(path, backup)
    restore(backup, path, "now")
    restored = Journal(path)
    assert restored.get_meta("coordinator_id") not in (None, "one")
    restored.close()


def test_a_head_node_that_had_none_gets_a_folder_for_its_owner_alone(tmp_path: Path) -> None:
    journal_with(tmp_path / "backup", jobs=1)
    journal = tmp_path / "new" / "head" / JOURNAL
    assert restore(tmp_path / "backup", journal, "now").aside is None
    assert journal.parent.stat().st_mode & 0o777 == 0o700
    assert verify(journal).submissions == 1 + LEAP


def test_what_runs_of_jobs_that_waited_in_the_backup_is_adopted() -> None:
    stage = Stage()
    stage.register("n0")
    stage.submit("1")
    stage.submit("2")
    stage.start(2)
    stage.send(ev.JournalRestored(epoch=Epoch(1000), submissions=1000))
    assert stage.core.state.jobs[JobId("2")].state is JobState.HELD
    stage.connect("n0", processes=(running("1", "0-1"),))
    assert stage.core.state.jobs[JobId("1")].state is JobState.RUNNING


def test_no_job_gets_the_number_of_one_that_only_a_node_knows() -> None:
    stage = Stage()
    stage.register("n0")
    stage.connect("n0", processes=(running("77", "0-1"),))
    assert stage.core.state.submissions == 77
    assert stage.core.state.nodes[NodeId("n0")].foreign.keys() == {"77"}


# Files that are not backups.


def complaint(path: Path) -> str:
    with pytest.raises(JournalError) as caught:
        verify(path)
    return str(caught.value)


def test_a_copy_of_a_running_journal_is_recognised(folder: Path) -> None:
    copied = folder / "copied"
    sqlite3.connect(copied).close()
    assert "it has no tables; was it copied while the coordinator was running?" in complaint(copied)


def test_missing_events_are_found(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal_with(path, jobs=5)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM events WHERE id = 3")
        db.commit()
    assert "5 events with numbers 1 to 6; some are missing" in complaint(path)


def test_a_checkpoint_that_does_not_load_is_found(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal = Journal(path)
    journal.append(ev.TimePassed(), 1)
    journal.checkpoint(CoordinatorCore(1).state, 1)
    journal.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE checkpoint SET body = '{}'")
        # As in a journal of an earlier version, without a checksum.
        db.execute("DELETE FROM meta WHERE key = 'checkpoint_crc32'")
        db.commit()
    assert "not a valid State" in complaint(path)


def test_damaged_pages_are_found(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    journal_with(path, jobs=2000)
    data = bytearray(path.read_bytes())
    data[8 * 4096 : 20 * 4096] = b"\xff" * (12 * 4096)
    path.write_bytes(data)
    assert complaint(path)


def test_a_restore_of_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    backup, path = tmp_path / "b", tmp_path / JOURNAL
    journal_with(path, jobs=3)
    shutil.copy(path, backup)
    with closing(sqlite3.connect(backup)) as db:
        db.execute("DELETE FROM events WHERE id = 2")
        db.commit()
    with pytest.raises(JournalError, match="missing"):
        restore(backup, path, "now")
    assert verify(path).submissions == 3
    assert not list(tmp_path.glob("*before*"))
