"""`requeue`, `resize`, `suspend`, `resume`, and the display of attempts."""

from __future__ import annotations

import signal

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator

from wattfold.coordinator.cli.jobs.attempts import JobSize
from wattfold.coordinator.cli.shared.parsing import parse_signal
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(autouse=True)
def cluster(fake: FakeCoordinator) -> None:
    running = pb.JOB_STATE_RUNNING
    fake.add(pb.Job(job_id="a", state=running, submitted_at_s=NOW_S, started_at_s=NOW_S))


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), 0), (("--requeue",), 3), (("--requeue", "7"), 7), (("--requeue=1",), 1)],
)
def test_how_often_a_job_may_be_started_again(
    wattfold: Command, fake: FakeCoordinator, words: tuple[str, ...], expected: int
) -> None:
    assert wattfold("submit", *words, "--", "true").exit_code == 0
    assert fake.submissions[-1].spec.requeue_max == expected
    assert list(fake.submissions[-1].spec.argv) == ["true"]


def test_snapshots(wattfold: Command, fake: FakeCoordinator) -> None:
    options = ("--snapshot-dir", "d-%j", "--snapshot-signal", "usr1", "--snapshot-grace", "30s")
    assert wattfold("submit", *options, "--", "true").exit_code == 0
    spec = fake.submissions[-1].spec
    assert (spec.snapshot_dir, spec.snapshot_signal) == ("d-%j", signal.SIGUSR1)
    assert spec.snapshot_grace_ns == 30 * 10**9


def test_requeue_sends_what_was_said(wattfold: Command, fake: FakeCoordinator) -> None:
    result = wattfold("requeue", "a", "--signal", "SIGUSR2", "--grace", "2s", "--reason", "room")
    assert result.stdout == "a requeuing\n"
    (request,) = fake.requeues
    assert (request.signal, request.grace_ns, request.hold, request.reason) == (
        signal.SIGUSR2,
        2 * 10**9,
        False,
        "room",
    )
    assert wattfold("requeue", "a", "--hold").stdout == "a requeuing, then held\n"
    assert fake.requeues[-1].hold


def test_suspend_and_resume(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("suspend", "a").stdout == "a suspended\n"
    assert fake.jobs["a"].state == pb.JOB_STATE_SUSPENDED
    assert "suspended" in wattfold("queue").stdout
    assert wattfold("resume", "a").stdout == "a resumed\n"
    assert fake.jobs["a"].state == pb.JOB_STATE_RUNNING


@pytest.mark.parametrize(
    ("has", "size", "sent", "said"),
    [
        (4, "2", 2, "a 4 -> 2\n"),
        (4, "4", 4, "a keeps its size of 4\n"),
        (0, "3", 3, "a will start with 3\n"),
        (4, "auto", 0, "a: the policy chooses the size again\n"),
    ],
)
def test_resize(
    wattfold: Command, fake: FakeCoordinator, has: int, size: str, sent: int, said: str
) -> None:
    fake.jobs["a"].size = has
    assert wattfold("resize", "a", size).stdout == said
    assert fake.resizes == [("a", sent)]
    answer = wattfold.json("resize", "a", size)
    assert answer == {"job_id": "a", "size_ordered": sent, "size": has}


@pytest.mark.parametrize("size", ["0", "-1", "two", "", str(1 << 32)])
def test_what_is_no_size(wattfold: Command, fake: FakeCoordinator, size: str) -> None:
    result = wattfold("resize", "--", "a", size)
    assert result.exit_code == 2
    assert not fake.resizes


def test_the_size_is_completed() -> None:
    found = [item.value for item in JobSize().shell_complete(None, None, "a")]  # type: ignore[arg-type]
    assert found == ["auto"]


def test_a_restart_is_shown(wattfold: Command, fake: FakeCoordinator) -> None:
    job = fake.jobs["a"]
    job.state, job.size, job.next_size, job.size_ordered = pb.JOB_STATE_ENDING, 4, 2, 2
    job.reason, job.restart_s = "restarting: 4 -> 2 nodes", 75.0
    job.shares.add(node_id="n7", cpus="0-3")
    assert "restarting: 4 -> 2 nodes" in wattfold("queue").stdout
    shown = wattfold("show", "a").stdout
    assert "restarting: 4 -> 2 nodes" in shown
    assert "about 1m15s" in shown
    assert wattfold.json("show", "a")["next_size"] == 2


@pytest.mark.parametrize("word", ["--mode", "--resize"])
def test_mode_restart(wattfold: Command, fake: FakeCoordinator, word: str) -> None:
    wattfold("submit", "--nodes", "1-4", word, "restart", "--no-check", "run")
    assert fake.submissions[-1].spec.mode == common_pb2.RESIZE_MODE_RESTART


@pytest.mark.parametrize("command", ["requeue", "suspend", "resume"])
def test_no_such_job(wattfold: Command, command: str) -> None:
    assert wattfold(command, "nobody").exit_code == 4


def test_attempts_are_shown(wattfold: Command, fake: FakeCoordinator) -> None:
    job = fake.jobs["a"]
    job.attempt, job.spec.restartable, job.spec.requeue_max = 2, True, 3
    job.attempts.add(number=1, node_ids=["n7"], started_at_s=1, ended_at_s=2, why="board is dead")
    assert "a#2" in wattfold("queue").stdout
    shown = wattfold("show", "a").stdout
    assert "2, at most 3 more after lost nodes" in shown
    assert "on n7: board is dead" in shown
    assert wattfold.json("show", "a")["attempts"][0]["why"] == "board is dead"


@pytest.mark.parametrize("text", ["KILL", "sigstop", "0", "9", "99", "NOPE", "", "-1", "_IGN"])
def test_what_is_no_signal_for_a_program(text: str) -> None:
    with pytest.raises(ValueError, match="for example USR1"):
        parse_signal(text)


def test_signals() -> None:
    names = ("USR1", "sigusr1", "10", "TERM")
    assert [parse_signal(text) for text in names] == [10, 10, 10, 15]
