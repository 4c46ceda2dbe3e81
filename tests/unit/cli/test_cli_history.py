"""`history` and `report` against a coordinator that answers from a real history file."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address
from unit.history.ended_jobs import NOON_MS, row

from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.history import answers
from wattfold.coordinator.adapters.history.file import HistoryFile
from wattfold.coordinator.adapters.history.questions import BY, SORTS
from wattfold.coordinator.adapters.requests.history_requests import (
    history_question,
    report_question,
)
from wattfold.coordinator.cli.history import history as history_command
from wattfold.coordinator.cli.history import report as report_command
from wattfold.coordinator.cli.history.report_file import check_file
from wattfold.v1 import coordinator_pb2 as pb

ROOT = Peer(uid=0, account="root", address="unix")
BOB = Peer(uid=1002, account="bob", address="unix")


class WithHistory(FakeCoordinator):
    """The fake coordinator, with a history."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.viewer = ROOT

    def ListHistory(self, request: Any, context: Any) -> pb.ListHistoryResponse:  # noqa: N802
        question = history_question(request, self.viewer)
        return pb.ListHistoryResponse.FromString(answers.history(self.path, question))

    def GetReport(self, request: Any, context: Any) -> pb.GetReportResponse:  # noqa: N802
        question = report_question(request, self.viewer)
        return pb.GetReportResponse.FromString(answers.report(self.path, question))


@pytest.fixture
def known(tmp_path: Path) -> WithHistory:
    path = tmp_path / "history.sqlite"
    earlier = (
        '[{"number":1,"started_at_s":5.0,"ended_at_s":9.0,"nodes":1,"core_s":4.0,'
        '"energy_j":2.0,"why":"lost"}]'
    )
    HistoryFile(path, "a").write(
        [
            row("1"),
            row("2", end_ms=NOON_MS + 1000, state="failed", exit_code=3, name="a,b"),
            row(
                "3",
                user="bob",
                uid=1002,
                app="lammps",
                end_ms=NOON_MS + 2000,
                day=20261126,
                attempts=2,
                earlier=earlier,
                idle_mj=1_800_000_000,
                cap_mw=0,
            ),
        ]
    )
    return WithHistory(path)


@pytest.fixture
def wattfold(known: WithHistory, short_folder: Path) -> Iterator[Command]:
    where = socket_address(short_folder)
    server = serve(known, where)
    yield Command(where)
    server.stop(grace=None).wait(5)


def lines(wattfold: Command, *arguments: str) -> list[list[str]]:
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()]


def rows(wattfold: Command, *arguments: str) -> list[dict[str, str]]:
    result = wattfold(*arguments, "--format", "csv")
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def test_the_newest_jobs_come_first(wattfold: Command) -> None:
    head, *found = lines(wattfold, "history")
    assert head[:5] == ["ID", "USER", "NAME", "STATE", "EXIT"]
    assert [line[0] for line in found] == ["3#2", "2", "1"]
    assert time.strftime("%m-%d", time.localtime(NOON_MS / 1e3)) in wattfold("history").stdout
    assert found[2][-4:] == ["1.00", "3.60", "MJ", "50.0"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--state", "failed"], ["2"]),
        (["--state", "failed", "--state", "completed", "--user", "ada"], ["2", "1"]),
        (["--app", "lammps"], ["3"]),
        (["--sort", "end", "--limit", "2"], ["1", "2"]),
        (["--sort", "-energy", "--limit", "1"], ["3"]),
        (["--since", "1970-01-02", "--until", "1970-01-03"], []),
    ],
)
def test_options_choose_jobs(wattfold: Command, options: list[str], ids: list[str]) -> None:
    assert [one["job_id"] for one in rows(wattfold, "history", *options)] == ids


def test_csv_has_plain_columns(wattfold: Command) -> None:
    one = rows(wattfold, "history", "--state", "failed")[0]
    assert (one["name"], one["state"], one["exit_code"], one["unit"]) == (
        *("a,b", "failed", "3"),
        "cores",
    )
    assert (one["core_s"], one["energy_j"], one["mean_cap_w"]) == ("3600", "3600000", "50")
    assert (one["given_up_w"], one["gained_j"]) == ("10", "7200")


def test_json_has_the_earlier_attempts(wattfold: Command) -> None:
    [one] = wattfold.json("history", "--app", "lammps")["jobs"]
    assert [attempt["why"] for attempt in one["earlier"]] == ["lost"]
    assert wattfold.json("history") == wattfold.json("history", "--format", "json")


def test_more_jobs_than_the_limit_are_announced(wattfold: Command) -> None:
    assert (
        "more than 2 jobs match; --limit lists more" in wattfold("history", "--limit", "2").stderr
    )
    assert not wattfold("history", "--limit", "3").stderr


def test_private_fields_are_not_shown(wattfold: Command, known: WithHistory) -> None:
    known.viewer = BOB
    found = lines(wattfold, "history")
    assert "lammps" in found[1] or "bench" in found[1]
    assert found[3][2] == "(hidden)"
    assert found[3][-3:] == ["-", "-", "-"]


def test_a_report_has_a_row_for_each_key_and_a_sum(wattfold: Command) -> None:
    head, *found = lines(wattfold, "report", "--by", "user")
    titles = "USER JOBS FAILED CORE H KWH CAP W GIVEN UP KWH GAINED KWH RESIDUAL H"
    assert head == titles.split()
    assert [line[:5] for line in found] == [
        ["ada", "2", "1", "2.0", "2.000"],
        ["bob", "1", "0", "1.0", "1.500"],
        ["total", "3", "1", "3.0", "3.500"],
    ]
    assert found[0][5] == "█" * 20


def test_the_price_gives_the_cost(wattfold: Command) -> None:
    found = rows(wattfold, "report", "--by", "day", "--price-per-kwh", "0.30")
    assert [(one["key"], one["eur"]) for one in found] == [
        ("2026-11-25", "0.6"),
        ("2026-11-26", "0.45"),
    ]
    document = wattfold.json("report", "--price-per-kwh", "0.30")
    assert document["total"]["eur"] == pytest.approx(1.05)
    assert "1.05 EUR" in wattfold("report", "--price-per-kwh", "0.30").stdout


def test_a_period_has_whole_days(wattfold: Command) -> None:
    found = rows(wattfold, "report", "--by", "day", "--since", "2026-11-26T23:59")
    assert [one["key"] for one in found] == ["2026-11-26"]
    assert wattfold("report", "--until", "2026-11-24").stdout == "No matching jobs have ended.\n"


def test_users_are_told_that_only_their_jobs_count(wattfold: Command, known: WithHistory) -> None:
    known.viewer = BOB
    assert wattfold("report").stdout.endswith("Only your own jobs are counted.\n")


def test_json_and_csv_exclude_each_other(wattfold: Command) -> None:
    assert wattfold("history", "--json", "--format", "csv").exit_code == 2


def test_command_and_coordinator_know_the_same_names() -> None:
    assert tuple(SORTS) == history_command.SORTS
    assert BY == report_command.BY


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_report_is_written_to_a_file(wattfold: Command, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"users.{ending}"
    words = ["report", "--by", "user", "--price-per-kwh", "0.5"]
    if ending == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
    done = wattfold(*words, "-o", str(target))
    assert done.exit_code == 0, done.output
    assert list(tmp_path.glob(".*")) == []
    if ending == "csv":
        assert target.read_text() == wattfold(*words, "--format", "csv").stdout
        return
    document = wattfold.json(*words)
    if ending == "json":
        assert json.loads(target.read_text()) == document
    else:
        assert parquet.read_table(target).to_pylist() == document["rows"]


def test_a_report_file_is_checked_before_the_coordinator_is_asked(tmp_path: Path) -> None:
    nobody = Command("unix:/nonexistent/socket")
    for name, why in (("users.xls", "must end in"), ("none/users.csv", "no such folder")):
        done = nobody("report", "-o", str(tmp_path / name))
        assert done.exit_code == 2
        assert why in done.stderr


def test_parquet_without_its_package_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name)
    )
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        check_file(tmp_path / "users.parquet")


def test_jobs_of_a_node_are_listed(wattfold: Command) -> None:
    assert len(rows(wattfold, "history", "--node", "n1")) == 3
    assert rows(wattfold, "history", "--node", "n2") == []
