"""The history file: rows, sums, deletion, and answers for operators and users."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from unit.history.ended_jobs import NOON_MS, ended, row

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.history import answers
from wattfold.coordinator.adapters.history.file import HistoryError, HistoryFile, sum_again
from wattfold.coordinator.adapters.history.folded_names import folded, holds
from wattfold.coordinator.adapters.history.questions import (
    SORTS,
    HistoryQuestion,
    ReportQuestion,
)
from wattfold.coordinator.adapters.history.rows import row_of
from wattfold.coordinator.adapters.history.watts import Traded
from wattfold.v1 import coordinator_pb2 as pb

OPERATOR = Peer(uid=0, account="root", address="unix")
ADA = Peer(uid=1001, account="ada", address="unix")
BOB = Peer(uid=1002, account="bob", address="unix")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


def listed(path: Path, viewer: Peer = OPERATOR, **criteria: object) -> pb.ListHistoryResponse:
    question = HistoryQuestion(viewer=viewer, **criteria)  # type: ignore[arg-type]
    return pb.ListHistoryResponse.FromString(answers.history(path, question))


def ids(path: Path, viewer: Peer = OPERATOR, **criteria: object) -> list[str]:
    return [job.job_id for job in listed(path, viewer, **criteria).jobs]


def reported(path: Path, by: str, viewer: Peer = OPERATOR, **more: object) -> pb.GetReportResponse:
    question = ReportQuestion(viewer=viewer, by=by, **more)  # type: ignore[arg-type]
    return pb.GetReportResponse.FromString(answers.report(path, question))


def sums(path: Path) -> list[object]:
    with closing(sqlite3.connect(path)) as db:
        of_users = "SELECT * FROM usage ORDER BY user, day, app, queue, account"
        return [db.execute(q).fetchall() for q in (of_users, "SELECT * FROM totals ORDER BY 1,2,3")]


def test_a_row_has_the_sums_of_all_nodes_and_attempts() -> None:
    made = row_of(ended("7", attempt=1), Clock(0.0), "parm-wse", Traded(1, 2, 3))
    assert (made.nodes, made.node_list) == (2, "n[1-2]")
    assert (made.core_ms, made.energy_mj, made.idle_mj) == (400_000, 10_000, 2_000)
    assert (made.cap_mw, made.residual_ms) == (45_000, 1_000)
    assert (made.given_up_mj, made.gained_mj, made.capped_ms) == (1, 2, 3)
    assert (made.state, made.policy) == ("completed", "parm-wse")
    assert made.end_ms - made.start_ms == 100_000


def test_a_file_without_rows_gives_empty_answers(path: Path) -> None:
    assert not listed(path).jobs
    assert not reported(path, "user").rows


def test_a_row_written_twice_is_there_once(path: Path) -> None:
    file = HistoryFile(path, "a")
    file.write([row("1"), row("2")])
    file.write([row("1", attempts=2)])
    assert sorted(ids(path)) == ["1", "2"]
    assert reported(path, "user").total.jobs == 2
    assert file.known(["1", "2", "3"]) == {"1": 2, "2": 1}


def test_equal_job_numbers_of_two_journals_are_two_jobs(path: Path) -> None:
    HistoryFile(path, "a").write([row("1")])
    HistoryFile(path, "b").write([row("1", user="bob", uid=1002)])
    assert [job.user for job in listed(path, sort="user", ascending=True).jobs] == ["ada", "bob"]


def test_sums_equal_the_rows_after_any_writes(path: Path) -> None:
    chance, file = random.Random(3), HistoryFile(path, "a")
    for _ in range(40):
        some = [
            row(
                str(chance.randrange(60)),
                user=chance.choice("abc"),
                app=chance.choice("xy"),
                queue=chance.choice(["", "long"]),
                account=chance.choice(["", "lab"]),
                state=chance.choice(["completed", "failed", "lost", "cancelled"]),
                day=20260101 + chance.randrange(4),
                core_ms=chance.randrange(1000),
                cap_mw=chance.choice([0, 40_000]),
                given_up_mj=chance.randrange(1000),
            )
            for _ in range(chance.randrange(6))
        ]
        some = list({one.job: one for one in some}.values())
        file.write(some, gone=[str(chance.randrange(60))] if chance.random() < 0.5 else [])
    kept = sums(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        sum_again(db)
    assert sums(path) == kept
    assert len(kept[0]) > 10  # type: ignore[arg-type]


def test_old_rows_and_their_sums_are_dropped(path: Path) -> None:
    file = HistoryFile(path, "a")
    file.write([row("1", end_ms=NOON_MS - 1, day=20261124), row("2")])
    assert file.drop_before(NOON_MS) == 1
    assert ids(path) == ["2"]
    assert [one.key for one in reported(path, "day").rows] == ["2026-11-25"]


def test_a_failed_write_changes_nothing(path: Path) -> None:
    file = HistoryFile(path, "a")
    file.write([row("1")])
    with pytest.raises(HistoryError, match=str(path)):
        file.write([row("2", user="new"), row("2", user="new")])  # the key is not unique
    file.write([row("3", user="new")])
    assert sorted(ids(path)) == ["1", "3"]
    assert ids(path, user="new") == ["3"]


def test_a_file_of_another_schema_is_refused(path: Path) -> None:
    HistoryFile(path, "a").write([])
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE meta SET value = '4' WHERE key = 'schema'")
        db.commit()
    with pytest.raises(HistoryError, match="schema 4"):
        HistoryFile(path, "a").write([row("1")])


def test_reports_and_lists_by_account(path: Path) -> None:
    HistoryFile(path, "a").write(
        [
            row("1", account="lab"),
            row("2", account="lab", user="bob", uid=1002),
            row("3"),
        ]
    )
    assert {one.key: one.jobs for one in reported(path, "account").rows} == {"lab": 2, "": 1}
    assert [one.jobs for one in reported(path, "account", ADA).rows] == [1, 1]
    assert sorted(ids(path, account="lab")) == ["1", "2"]
    assert ids(path, ADA, account="lab") == ["1"], "it is private"
    assert [job.account for job in listed(path, BOB, sort="end").jobs].count("lab") == 1


NO_WATTS = {"given_up_mj": 0, "gained_mj": 0, "capped_ms": 0}
"""Values of jobs from files of earlier schemas."""


def test_a_file_without_watts_is_changed_to_one_with_watts(path: Path) -> None:
    file = HistoryFile(path, "a")
    file.write([row("1", **NO_WATTS)])
    before = sums(path)
    file.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        _to_schema_2(db)
    file.write([row("2")])
    assert reported(path, "user").total.given_up_kwh == pytest.approx(0.01)
    file.write([], gone=["2"])
    assert sums(path) == before
    assert [job.given_up_w for job in listed(path).jobs] == [0]


def test_a_file_without_accounts_is_changed_to_one_with_accounts(path: Path) -> None:
    file = HistoryFile(path, "a")
    file.write([row("1", **NO_WATTS), row("2", user="bob", core_ms=7, **NO_WATTS)])
    before, whole = sums(path), reported(path, "user")
    file.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        _to_schema_2(db)
        _to_schema_1(db)
    file.write([row("3", account="lab")])
    assert {one.key: one.jobs for one in reported(path, "account").rows} == {"lab": 1, "": 2}
    file.write([], gone=["3"])
    assert sums(path) == before
    assert reported(path, "user") == whole
    assert sorted(ids(path)) == ["1", "2"]


def _to_schema_2(db: sqlite3.Connection) -> None:
    """Give a file the form that it had before watts that jobs gave up and gained."""
    added = [("jobs", name) for name in NO_WATTS]
    added += [(t, name) for t in ("usage", "totals") for name in ("given_up_mj", "gained_mj")]
    for statement in (
        "DROP TRIGGER job_added",
        "DROP TRIGGER job_removed",
        *(f"ALTER TABLE {table} DROP COLUMN {name}" for table, name in added),
        "CREATE TRIGGER job_added AFTER INSERT ON jobs BEGIN SELECT 1; END",
        "CREATE TRIGGER job_removed AFTER DELETE ON jobs BEGIN SELECT 1; END",
        "UPDATE meta SET value = '2' WHERE key = 'schema'",
    ):
        db.execute(statement)


def _to_schema_1(db: sqlite3.Connection) -> None:
    """Give a file the form that it had before accounts."""
    for statement in (
        "DROP TRIGGER job_added",
        "DROP TRIGGER job_removed",
        "ALTER TABLE jobs DROP COLUMN account",
        "DELETE FROM totals WHERE kind = 'account'",
        "CREATE TABLE old AS SELECT * FROM usage",
        "ALTER TABLE old DROP COLUMN account",
        "DROP TABLE usage",
        "ALTER TABLE old RENAME TO usage",
        "CREATE TRIGGER job_added AFTER INSERT ON jobs BEGIN SELECT 1; END",
        "CREATE TRIGGER job_removed AFTER DELETE ON jobs BEGIN SELECT 1; END",
        "UPDATE meta SET value = '1' WHERE key = 'schema'",
    ):
        db.execute(statement)


def test_criteria_and_orders(path: Path) -> None:
    HistoryFile(path, "a").write(
        [
            row("1", end_ms=NOON_MS, energy_mj=3),
            row("2", end_ms=NOON_MS + 1, energy_mj=2, state="failed", exit_code=3),
            row("3", end_ms=NOON_MS + 2, energy_mj=1, user="bob", uid=1002, app="lammps"),
        ]
    )
    assert ids(path) == ["3", "2", "1"]
    assert ids(path, ascending=True) == ["1", "2", "3"]
    assert ids(path, sort="energy") == ["1", "2", "3"]
    assert ids(path, since_ms=NOON_MS + 1, until_ms=NOON_MS + 2) == ["2"]
    assert ids(path, user="bob") == ids(path, user="1002") == ids(path, app="lammps") == ["3"]
    assert ids(path, states=("failed", "lost")) == ["2"]
    assert ids(path, user="nobody") == ids(path, states=("lost",)) == []
    assert ids(path, job_ids=("1", "3")) == ["3", "1"]
    assert ids(path, ADA, mine=True) == ["2", "1"]
    found = listed(path, limit=2)
    assert ([job.job_id for job in found.jobs], found.more) == (["3", "2"], True)
    assert not listed(path, limit=3).more
    for sort in SORTS:
        assert sorted(ids(path, sort=sort)) == ["1", "2", "3"], sort


def test_users_see_only_public_fields_of_other_jobs(path: Path) -> None:
    HistoryFile(path, "a").write([row("1"), row("2", user="bob", uid=1002, end_ms=NOON_MS - 1)])
    theirs, own = listed(path, BOB).jobs
    assert (theirs.access, own.access) == (pb.JOB_ACCESS_OTHER, pb.JOB_ACCESS_OWN)
    assert (theirs.job_id, theirs.user, theirs.node_list) == ("1", "ada", "n1")
    private = (theirs.name, theirs.app, theirs.energy_j, theirs.mean_cap_w, theirs.core_s)
    private += (theirs.given_up_w, theirs.gained_j)
    assert not any(private)
    assert (own.name, own.app, own.energy_j) == ("bench", "gmx", 3_600_000)


@pytest.mark.parametrize("criteria", [{"app": "gmx"}, {"queue": "short"}])
def test_no_criterion_reveals_private_fields(path: Path, criteria: dict[str, object]) -> None:
    HistoryFile(path, "a").write([row("1", queue="short")])
    assert ids(path, BOB, **criteria) == []
    assert ids(path, ADA, **criteria) == ["1"]


def test_no_order_reveals_private_fields(path: Path) -> None:
    some = [row(str(n), energy_mj=n * 7 % 5, end_ms=NOON_MS + n) for n in range(5)]
    HistoryFile(path, "a").write(some)
    assert ids(path, BOB, sort="energy") == ids(path, BOB)


def test_a_report_sums_and_weights(path: Path) -> None:
    HistoryFile(path, "a").write(
        [
            row("1", cap_mw=40_000),
            row("2", cap_mw=70_000, core_ms=7_200_000, idle_mj=1_800_000_000, state="timed-out"),
            row("3", user="bob", uid=1002, app="lammps", cap_mw=0, residual_ms=1_800_000),
        ]
    )
    ada, bob = reported(path, "user").rows
    assert (ada.key, ada.jobs, ada.failures) == ("ada", 2, 1)
    assert (ada.core_h, ada.energy_kwh, ada.mean_cap_w) == (3, 2.5, 60)
    assert (bob.key, bob.mean_cap_w, bob.residual_h) == ("bob", 0, 0.5)
    assert (ada.given_up_kwh, ada.gained_kwh) == (pytest.approx(0.02), pytest.approx(0.004))
    assert [one.key for one in reported(path, "app").rows] == ["gmx", "lammps"]
    assert [one.jobs for one in reported(path, "queue").rows] == [3]
    assert reported(path, "day").total.core_h == 4


def test_users_get_a_report_about_their_own_jobs(path: Path) -> None:
    HistoryFile(path, "a").write([row("1"), row("2", user="bob", uid=1002)])
    answer = reported(path, "app", BOB)
    assert (answer.total.jobs, answer.own_only) == (1, True)
    assert reported(path, "day", BOB, user="ada").total.jobs == 0
    assert reported(path, "user", OPERATOR, user="ada").total.jobs == 1


def test_a_report_covers_whole_days(path: Path) -> None:
    HistoryFile(path, "a").write([row(str(n), day=20261120 + n) for n in range(5)])
    answer = reported(path, "day", first_day=20261121, last_day=20261123)
    assert [one.key for one in answer.rows] == ["2026-11-21", "2026-11-22", "2026-11-23"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n02", "n01", "n03", "n07"], "n[01-03,07]"),
        (["n9", "n10", "login"], "login,n9,n10"),
        ([], ""),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert folded(names) == text


@pytest.mark.parametrize(
    ("names", "inside", "outside"),
    [
        (["n01", "n02", "n03", "n07"], ["n01", "n02", "n03", "n07"], ["n04", "n1", "n001", "n"]),
        (["a7", "b7", "b8"], ["a7", "b7", "b8"], ["a8", "ab7", "7"]),
        (["n9", "n10", "head"], ["n9", "n10", "head"], ["n09", "n1", "hea", "head1", "he"]),
        (["rack1-n5", "rack1-n6", "rack2-n5"], ["rack1-n6", "rack2-n5"], ["rack2-n6", "rack1-n"]),
    ],
)
def test_a_node_is_found_in_a_folded_list(
    names: list[str], inside: list[str], outside: list[str]
) -> None:
    text = folded(names)
    assert all(holds(text, name) for name in inside), text
    assert not any(holds(text, name) for name in outside), text
    assert not holds("", names[0])


def test_only_jobs_on_a_node_are_listed(path: Path) -> None:
    lists = {"1": "n[01-03]", "2": "n04", "3": "n[03-04]", "4": ""}
    HistoryFile(path, "a").write([row(job, node_list=nodes) for job, nodes in lists.items()])
    assert sorted(ids(path, node="n03")) == ["1", "3"]
    assert sorted(ids(path, node="n04")) == ["2", "3"]
    assert ids(path, node="n05") == []
