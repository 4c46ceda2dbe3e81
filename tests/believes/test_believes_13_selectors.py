"""`cancel`, `hold`, `release` and `requeue` act on jobs selected by their properties."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.coordinator.cli.jobs.selection import MANY
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["address", "fake", "short_folder", "wattfold"]

OWN, OPERATOR, OTHER = pb.JOB_ACCESS_OWN, pb.JOB_ACCESS_OPERATOR, pb.JOB_ACCESS_OTHER
PENDING, RUNNING, HELD = pb.JOB_STATE_PENDING, pb.JOB_STATE_RUNNING, pb.JOB_STATE_HELD


def add(
    fake: FakeCoordinator,
    job_id: str,
    state: pb.JobState,
    user: str = "ana",
    name: str = "study-1",
    age_s: float = 60,
    access: pb.JobAccess = OWN,
) -> None:
    shown = "" if access == OTHER else name
    made = pb.Job(
        job_id=job_id,
        spec=pb.JobSpec(name=shown, size_min=1, size_max=1),
        state=state,
        user=user,
        uid={"ana": 1000, "bo": 1001, "cy": 1002}[user],
        access=access,
        submitted_at_s=time.time() - age_s,
    )
    fake.add(made)


@pytest.fixture
def site(fake: FakeCoordinator) -> FakeCoordinator:
    add(fake, "1", RUNNING, age_s=7200)
    add(fake, "2", PENDING)
    add(fake, "3", PENDING, name="Müller", age_s=7200)
    add(fake, "4", HELD, name="held[4]")
    add(fake, "5", PENDING, user="bo", access=OPERATOR)
    add(fake, "6", PENDING, user="cy", access=OTHER)
    add(fake, "7", pb.JOB_STATE_ENDING)
    add(fake, "8", pb.JOB_STATE_FAILED, age_s=7200)
    return fake


def ids(lines: Iterable[str]) -> list[str]:
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--user ana", "2 3 4 1"),
        ("--user 1001", "5"),
        ("--name study-*", "2 5 1"),
        ("--name M?ller", "3"),
        ("--name held[4]", "4"),
        ("--state running 1 1", "1"),
        ("--state pending", "2 3 5"),
        ("--state held --state running", "4 1"),
        ("--older-than 1h", "3 1"),
        ("--older-than 1h --state pending", "3"),
        ("--user bo --name M*", ""),
        ("--user ana 1 5", "1"),
        ("--state ending", "7"),
    ],
)
def test_jobs_that_match_everything_are_cancelled_waiting_jobs_first(
    site: FakeCoordinator, wattfold: Command, words: str, expected: str
) -> None:
    result = wattfold("cancel", *words.split())
    assert result.exit_code == 0, result.output
    assert ids(result.stdout.splitlines()) == expected.split()
    counted = len(expected.split())
    assert result.stderr.startswith(f"{counted} job{' matches' if counted == 1 else 's match'}")
    cancelled = {job.job_id for job in site.jobs.values() if job.state == pb.JOB_STATE_CANCELLED}
    assert cancelled == set(expected.split())


def test_each_command_selects_the_jobs_that_it_is_for(
    site: FakeCoordinator, wattfold: Command
) -> None:
    assert ids(wattfold("release", "--user", "ana").stdout.splitlines()) == ["4"]
    assert ids(wattfold("hold", "--older-than", "1h").stdout.splitlines()) == ["3"]
    assert wattfold("requeue", "--user", "ana", "--reason", "new data").exit_code == 0
    assert [(one.job_id, one.reason) for one in site.requeues] == [("1", "new data")]
    wattfold("requeue", "--state", "failed", "--user", "ana")
    assert site.requeues[-1].job_id == "8"


def test_a_dry_run_lists_and_changes_nothing(site: FakeCoordinator, wattfold: Command) -> None:
    before = {job.job_id: job.state for job in site.jobs.values()}
    result = wattfold("cancel", "--user", "ana", "--dry-run")
    assert ids(result.stdout.splitlines()) == ["ID", "1", "2", "3", "4"]
    assert result.stderr == "4 jobs match: 1 running, 2 pending, 1 held\n"
    listed = wattfold.json("cancel", "--state", "pending", "--dry-run")["jobs"]
    assert [job["job_id"] for job in listed] == ["2", "3", "5"]
    assert ids(wattfold("hold", "1", "4", "--dry-run").stdout.splitlines()) == ["ID", "1", "4"]
    assert {job.job_id: job.state for job in site.jobs.values()} == before


def test_each_refusal_is_told_and_the_others_go_on(
    site: FakeCoordinator, wattfold: Command
) -> None:
    result = wattfold("hold", "--state", "running", "--state", "pending", "--user", "ana")
    assert result.exit_code == ExitCode.REFUSED
    assert ids(result.stdout.splitlines()) == ["2", "3"]
    assert "wattfold: 1: job 1 does not wait any more" in result.stderr
    results = wattfold.json("hold", "--state", "pending")["jobs"]
    assert [(one["job_id"], one["result"], one["error"]) for one in results] == [
        ("5", "held", None)
    ]


def test_nothing_selected_is_nothing_done(site: FakeCoordinator, wattfold: Command) -> None:
    result = wattfold("cancel")
    assert result.exit_code == ExitCode.USAGE
    assert "give job IDs, or select jobs with --user" in result.stderr
    assert wattfold("cancel", "--yes").exit_code == ExitCode.USAGE
    assert wattfold("cancel", "--state", "gone").exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "answer", "changed"),
    [([], "n\n", False), ([], "y\n", True), (["--yes"], "", True)],
)
def test_many_jobs_are_confirmed_on_a_terminal(
    address: str, fake: FakeCoordinator, words: list[str], answer: str, changed: bool
) -> None:
    for number in range(MANY + 1):
        add(fake, str(number), PENDING)
    command = Path(sys.executable).with_name("wattfold")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [command, "--coordinator", address, "cancel", "--user", "ana", *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        shown, _ = process.communicate(timeout=240)
    told = os.read(ours, 10_000).decode()
    os.close(ours)
    assert f"{MANY + 1} jobs match" in told
    assert ("Cancel these 11 jobs?" in told) == (not words)
    assert len(shown.splitlines()) == (MANY + 1 if changed else 0)
    assert process.returncode == (ExitCode.OK if changed else ExitCode.REFUSED)
    assert all((job.state == PENDING) != changed for job in fake.jobs.values())
