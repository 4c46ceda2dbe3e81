"""`wattfold-coordinator journal` shows, exports and skips events."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from trust.head import Head
from unit.core.stage import CHECKED, S, job_spec

from wattfold.contract.ids import Epoch, JobId
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.cli.site.journal import journal as group
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev

ORIGIN_S = 1_795_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The state folder of a coordinator with three jobs."""
    journal = Journal(tmp_path / "journal.sqlite")
    journal.put_meta("origin_s", repr(ORIGIN_S))
    started = ev.CoordinatorStarted(epoch=Epoch(1), lease_ns=9 * S, command_timeout_ns=2 * S)
    journal.append(started, S)
    for number in range(2, 5):
        event = ev.JobSubmitted(job_id=JobId(str(number)), spec=job_spec())
        journal.append(event, number * S, LaunchData(env=(("SECRET", "hidden"),)))
    journal.close()
    return tmp_path


def run(folder: Path, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(group, [arguments[0], "--state-dir", str(folder), *arguments[1:]])
    assert done.exit_code == code, done.output
    return done


def jobs(folder: Path) -> list[str]:
    journal = Journal(folder / "journal.sqlite")
    core = CoordinatorCore(0, CHECKED)
    replay(journal, core)
    journal.close()
    return list(core.state.jobs)


def test_events_are_shown_with_number_time_and_kind(folder: Path) -> None:
    lines = run(folder, "show").output.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert lines[0].split()[2] == "CoordinatorStarted"
    assert lines[0].split()[1][-6] in "+-", "the offset from UTC"
    assert len(run(folder, "show", "--last", "1").output.splitlines()) == 1
    shown = run(folder, "show", "--kind", "JobSubmitted", "--json").output.splitlines()
    found = [json.loads(line) for line in shown]
    assert [event["event"]["job_id"] for event in found] == ["2", "3", "4"]
    assert found[0]["time_s"] == ORIGIN_S + 2
    assert '"job_id": "3"' in run(folder, "show", "3").output
    assert "it has events 1 to 4" in run(folder, "show", "9", code=2).output


def test_a_skipped_event_has_no_effect_and_is_told(folder: Path) -> None:
    assert "event 3, JobSubmitted: told by its user" in (
        run(folder, "skip", "3", "--reason", "told by its user").output
    )
    assert jobs(folder) == ["2", "4"]
    (line,) = run(folder, "show", "--skipped").output.splitlines()
    assert "(skipped: told by its user)" in line
    answer = json.loads(run(folder, "skip", "4", "--reason", "x", "--json").output)
    assert (answer["number"], answer["set_aside"]) == (4, "x")
    assert jobs(folder) == ["2"]


def test_what_is_part_of_the_stored_state_cannot_be_skipped(folder: Path) -> None:
    journal = Journal(folder / "journal.sqlite")
    core = CoordinatorCore(0, CHECKED)
    replay(journal, core)
    journal.checkpoint(core.state, 5 * S)
    journal.close()
    told = run(folder, "skip", "3", "--reason", "x", code=2).output
    assert "state that was stored after event 4" in told
    assert "restore a backup" in told


def test_an_event_that_cannot_be_read_can_be_skipped(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db, db:
        db.execute("UPDATE events SET kind = 'Unheard' WHERE id = 3")
    run(folder, "skip", "3", "--reason", "of a newer version")
    assert jobs(folder) == ["2", "4"]


def test_an_export_is_private_and_has_no_environments(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    assert "4 events" in run(folder, "export", str(target)).output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    head, *events = map(json.loads, target.read_text().splitlines())
    assert (head["first"], head["last"], head["checkpoint"]) == (1, 4, 0)
    assert [event["number"] for event in events] == [1, 2, 3, 4]
    assert "hidden" not in target.read_text()
    assert "--force" in run(folder, "export", str(target), code=2).output
    run(folder, "export", "--force", "--from", "4", str(target))
    assert len(target.read_text().splitlines()) == 2
    assert len(run(folder, "export", "-").output.splitlines()) == 5


def test_a_running_coordinator_is_looked_at_and_not_changed(tmp_path: Path) -> None:
    with Head(tmp_path) as head:
        head.submit(held=True)
        shown = head.maintain("journal", "show", "--kind", "JobSubmitted")
        assert shown.returncode == 0, shown.stderr
        assert len(shown.stdout.splitlines()) == 1
        skipped = head.maintain("journal", "skip", "1", "--reason", "x")
        assert skipped.returncode == 2
        assert "is another coordinator running?" in skipped.stderr
