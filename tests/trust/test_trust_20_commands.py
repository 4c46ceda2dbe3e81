"""Details of the command that affect the trust of its users."""

from __future__ import annotations

import gzip
import os
import pty
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator
from unit.workloads.swf_files import job, log

from wattfold.coordinator.cli.site.watch_feed import Events as KeyEvents
from wattfold.coordinator.cli.site.watch_feed import Key, keys_from_terminal
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["address", "fake", "short_folder", "wattfold"]
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A terminal: the user's side and the program's side."""
    person, program = pty.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def pressed(terminal: tuple[int, int], *writes: bytes) -> list[str]:
    """Return the keys that the command reads from these writes and a final q."""
    person, program = terminal
    events: KeyEvents = queue.Queue()
    with keys_from_terminal(program, events):
        for data in (*writes, b"q"):
            os.write(person, data)
            if data == b"q":
                break
        found = [events.get(timeout=240)]
        while found[-1] != Key("q"):
            found.append(events.get(timeout=240))
    return [event.key for event in found if isinstance(event, Key)]


@pytest.mark.parametrize("arrow", [b"\x1b[A", b"\x1b[B", b"\x1bOC", b"\x1b[5~"])
def test_an_arrow_is_no_escape(terminal: tuple[int, int], arrow: bytes) -> None:
    assert "\x1b" not in pressed(terminal, arrow)


def test_escape_alone_is_taken(terminal: tuple[int, int]) -> None:
    person, program = terminal
    events: KeyEvents = queue.Queue()
    with keys_from_terminal(program, events):
        os.write(person, b"\x1b")
        assert events.get(timeout=240) == Key("\x1b")


def test_a_size_no_node_has_is_refused_before_the_first_run(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    result = wattfold("profile", "--cores", "1,9", "--no-check", "--", "true")
    assert result.exit_code == 1
    assert "size 9 cannot be measured: the largest node that is up has 4 cores" in result.stderr
    assert fake.submissions == []


def test_jobs_that_wait_are_cancelled_first(wattfold: Command, fake: FakeCoordinator) -> None:
    states = {
        "runs": pb.JOB_STATE_RUNNING,
        "waits": pb.JOB_STATE_PENDING,
        "also-runs": pb.JOB_STATE_RUNNING,
        "held": pb.JOB_STATE_HELD,
    }
    for name, state in states.items():
        fake.add(pb.Job(job_id=name, state=state))
    result = wattfold("cancel", "runs", "waits", "nobody", "also-runs", "held")
    assert [line.split()[0] for line in result.stdout.splitlines()] == [
        "waits",
        "held",
        "runs",
        "also-runs",
    ]
    assert result.exit_code == 4
    assert "nobody" in result.stderr


# ---- logs --------------------------------------------------------------------------------------


@pytest.fixture
def alone() -> Command:
    """The command without a coordinator."""
    return Command("unix:/nonexistent/wattfold.sock")


@pytest.mark.parametrize("packed", [False, True])
def test_a_picture_is_no_log(alone: Command, tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "picture.swf"
    path.write_bytes(gzip.compress(PNG) if packed else PNG)
    result = alone("workload", "describe", str(path))
    assert result.exit_code == 1
    assert "is no text, so it is not a workload log" in result.stderr


def test_a_log_of_odd_rows_says_so(alone: Command, tmp_path: Path) -> None:
    path = tmp_path / "odd.swf"
    path.write_text("".join(f"{n} 0 0\n" for n in range(1, 6)))
    for command in (("workload", "describe"), ("simulate", "--nodes", "4", "--log")):
        result = alone(*command, str(path))
        assert result.exit_code == 1
        assert "all 5 rows were invalid and were dropped: 5 by " in result.stderr
        assert "first in line 1" in result.stderr


@pytest.mark.parametrize("text", ["", "1 0 0\n2 0 0\n"])
def test_reproduce_looks_at_its_log_before_it_starts(
    alone: Command, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "none.swf"
    path.write_text(text)
    out = tmp_path / "out"
    result = alone("reproduce", "parm", "large", "--log", str(path), "--out", str(out))
    assert result.exit_code in (1, 2)
    assert "none.swf" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--policy", "easy", "--alpha", "0.3"], "--alpha applies to PARM only, not to easy"),
        (["--alpha", "0.3"], "--alpha applies to PARM only, not to easy"),
        (["--policy", "parm-wse", "--size", "min"], "--size applies to backfilling only"),
        (["--load", "0.5"], "--load applies to --model poisson only"),
        (["--jobs", "5"], "--jobs applies to --model only"),
        (["--out", "OUT", "--resume"], "nothing to resume in OUT"),
    ],
)
def test_an_option_nobody_looks_at_is_refused(
    alone: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    log(tmp_path, *(job(n, n * 300, f4=200, f5=2) for n in range(1, 4)), name="few.swf")
    result = alone("simulate", "--log", "few.swf", "--nodes", "4", *options)
    assert result.exit_code == 2
    assert told in result.stderr


def test_an_option_for_one_of_two_policies_is_taken(alone: Command, tmp_path: Path) -> None:
    path = log(tmp_path, *(job(n, n * 300, f4=200, f5=2) for n in range(1, 4)), name="few.swf")
    base = ("simulate", "--log", str(path), "--nodes", "4", "--json")
    result = alone(*base, "--policy", "easy", "--policy", "parm-nose", "--alpha", "0.3")
    assert result.exit_code == 0, result.stderr
