"""A stored journal of every released schema is readable by this version.

`tests/data/journal-vN.sql` was written by the version that introduced schema N. A new schema needs
its own journal here before the writing code changes.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.backup import back_up, verify
from wattfold.coordinator.adapters.journal.file import SCHEMA_VERSION
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.migrations import MIGRATIONS
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.core.machine import CoordinatorCore

DATA = Path(__file__).parents[1] / "data"
SCHEMAS = range(1, SCHEMA_VERSION + 1)
STATES = {
    1: {
        "1": "completed 0",
        "2": "running 0",
        "3": "running 0",
        "4": "held 0",
        "5": "cancelled 0",
        "6": "starting 0",
        "7": "pending 0",
    },
    2: {
        "1": "completed 0",
        "2": "running 0",
        "3": "held 0",
        "4": "cancelled 0",
        "5": "failed 3",
        "6": "pending 0",
    },
}
"""State and exit status of the jobs of each journal, as written by its version."""
BUDGETS_W = {1: 180, 2: 150}


def stored(folder: Path, schema: int) -> Path:
    """The journal of a schema as a file."""
    path = folder / "journal.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((DATA / f"journal-v{schema}.sql").read_text())
    return path


def brought_back(path: Path) -> CoordinatorCore:
    journal, core = Journal(path), CoordinatorCore(0)
    replay(journal, core)
    journal.close()
    return core


def test_there_is_a_journal_of_every_schema_and_a_migration_to_each() -> None:
    found = {int(path.stem.removeprefix("journal-v")) for path in DATA.glob("journal-v*.sql")}
    assert found == set(SCHEMAS)
    assert MIGRATIONS.keys() == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_it_is_read_as_it_was_written(tmp_path: Path, schema: int) -> None:
    state = brought_back(stored(tmp_path, schema)).state
    jobs = {job_id: f"{job.state.value} {job.exit_code}" for job_id, job in state.jobs.items()}
    assert jobs == STATES[schema]
    assert state.ledger.budget_uw == BUDGETS_W[schema] * 1_000_000
    assert [node.fault for node in state.nodes.values()] == ["", ""]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_jobs_that_may_start_keep_their_environment_and_others_lose_it(
    tmp_path: Path, schema: int
) -> None:
    path = stored(tmp_path, schema)
    state = brought_back(path).state
    journal = Journal(path)
    for job_id, job in state.jobs.items():
        launch = journal.launch_data(JobId(job_id))
        assert (launch is not None) == (job.state.value in ("held", "pending", "starting"))
    journal.close()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_it_is_of_the_present_schema_afterwards_and_can_be_backed_up(
    tmp_path: Path, schema: int
) -> None:
    path = stored(tmp_path, schema)
    before = brought_back(path).state
    last = verify(path).last
    assert back_up(path, tmp_path / "backup").last == last
    again = brought_back(path).state
    assert again.jobs.keys() == before.jobs.keys()
    assert (again.epoch, again.submissions) == (before.epoch, before.submissions)
