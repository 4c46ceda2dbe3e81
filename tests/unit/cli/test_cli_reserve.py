"""`wattfold reserve` and `reservations`: requests, output, and refusals by the command."""

from __future__ import annotations

import time

import pytest
from click.shell_completion import ShellComplete
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.coordinator.cli.main import cli


def test_a_window_is_made_listed_and_cancelled(wattfold: Command, fake: FakeCoordinator) -> None:
    before_s = time.time()
    made = wattfold(
        *("reserve", "kernel", "--nodes", "n1,n2", "--start", "+4h", "--duration", "2h"),
        *("--maintenance", "--end-jobs", "--reason", "new kernel"),
    )
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("kernel 20")
    assert made.stdout.endswith(" n1, n2\n")
    (one,) = fake.reservations.values()
    assert 0 <= one.start_at_s - before_s - 4 * 3600 < 60
    assert one.end_at_s - one.start_at_s == pytest.approx(2 * 3600)
    assert (list(one.node_ids), one.maintenance, one.end_jobs) == (["n1", "n2"], True, True)
    one.other_job_ids.append("17")
    table = wattfold("reservations").stdout
    assert table == wattfold("reserve", "--list").stdout
    assert all(word in table for word in ("kernel", "planned", "maintenance", "n1, n2", "17"))
    (listed,) = wattfold.json("reservations")["reservations"]
    assert listed["reason"] == "new kernel"
    assert wattfold("reserve", "--cancel", "kernel").stdout == "kernel cancelled\n"
    assert wattfold("reservations").stdout == "No reservations.\n"


def test_for_people_and_a_queue_from_now_on(wattfold: Command, fake: FakeCoordinator) -> None:
    given = ("--count", "3", "--features", "big", "--users", "ann,bob", "--queue", "blue")
    answer = wattfold.json("reserve", "course", *given, "--end", "2099-01-31T18:00")
    assert answer["users"] == ["ann", "bob"]
    (asked,) = fake.reserve_requests
    assert (asked.count, list(asked.features), asked.queue) == (3, ["big"], "blue")
    assert asked.start_at_s == 0


def test_jobs_there_without_a_right_are_told(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.jobs_in_the_way = ["4", "5"]
    result = wattfold("reserve", "k", "--nodes", "n1", "--duration", "1h", "--maintenance")
    assert "jobs on the nodes without a right to the reservation: 4 5" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a name for the reservation"),
        (["k", "--nodes", "n1"], "give the end of the reservation"),
        (
            ["k", "--nodes", "n1", "--end", "+1h", "--duration", "1h"],
            "give the end of the reservation",
        ),
        (["k", "--end", "+1h"], "give the nodes of the reservation"),
        (
            ["k", "--end", "+1h", "--nodes", "n1", "--count", "1"],
            "give the nodes of the reservation",
        ),
        (["k", "--list"], "--list and --cancel NAME cannot be combined"),
        (["--list", "--cancel", "k"], "--list and --cancel NAME cannot be combined"),
    ],
)
def test_half_a_request_is_no_request(wattfold: Command, arguments: list[str], said: str) -> None:
    result = wattfold("reserve", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_one(wattfold: Command) -> None:
    result = wattfold("reserve", "--cancel", "k")
    assert (result.exit_code, result.stderr) == (4, "wattfold: no reservation 'k'\n")


def test_jobs_that_may_be_pre_empted(wattfold: Command, fake: FakeCoordinator) -> None:
    wattfold("submit", "--preemptable", "--", "true")
    assert fake.submissions[-1].spec.preemptable
    fake.jobs["job-1"].spec.restartable = True
    assert "preemptable" in wattfold("show", "job-1").stdout


def test_names_are_completed(wattfold: Command, fake: FakeCoordinator) -> None:
    for name in ("kernel", "course"):
        wattfold("reserve", name, "--nodes", "n1", "--duration", "1h", "--maintenance")
    line = ["--coordinator", wattfold.address, "reserve", "--cancel"]
    shell = ShellComplete(cli, {}, "wattfold", "_WATTFOLD_COMPLETE")
    assert [item.value for item in shell.get_completions(line, "k")] == ["kernel"]


def test_nodes_and_jobs_name_it(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.nodes[0].reservations.append("maintenance (k) from 2099-01-31 18:00 to 19:00")
    fake.nodes[0].overstaying_job_ids.append("7")
    first = " ".join(wattfold("nodes").stdout.split())
    assert "maintenance (k) from" in first
    assert "without right to the reservation: 7" in first
    wattfold("submit", "--reservation", "course", "--", "true")
    assert fake.submissions[-1].spec.reservation == "course"
    assert "course" in wattfold("show", "job-1").stdout
