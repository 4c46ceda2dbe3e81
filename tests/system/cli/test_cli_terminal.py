"""The command as a process: on a terminal, in a pipe, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.own_terminal import Terminal
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address

from wattfold.v1 import coordinator_pb2 as pb

pytestmark = pytest.mark.system

WATTFOLD = (sys.executable, "-m", "wattfold.coordinator.cli.main")
DEADLINE_S = 240.0


@pytest.fixture
def fake() -> FakeCoordinator:
    return FakeCoordinator()


@pytest.fixture
def address(fake: FakeCoordinator) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="wf-") as folder:
        where = socket_address(Path(folder))
        server = serve(fake, where)
        yield where
        server.stop(grace=None).wait(5)


@pytest.mark.parametrize("how", ["q", "\x03", "terminated"])
def test_watch_restores_the_terminal(address: str, how: str) -> None:
    terminal = Terminal([*WATTFOLD, "--coordinator", address, "watch"])
    try:
        terminal.read_until("committed")
        terminal.read_until("q quits")
        assert not termios.tcgetattr(terminal.slave)[3] & termios.ECHO
        if how == "terminated":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            terminal.write(how)
        assert terminal.end() == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before
        assert terminal.shown.rindex(b"\x1b[?1049l") > terminal.shown.rindex(b"\x1b[?1049h")
        assert terminal.shown.rindex(b"\x1b[?25h") > terminal.shown.rindex(b"\x1b[?25l")
        assert b"Traceback" not in terminal.shown
    finally:
        terminal.close()


def test_watch_without_a_coordinator_leaves_the_screen_alone(tmp_path: Path) -> None:
    terminal = Terminal([*WATTFOLD, "--coordinator", "unix:/nowhere.sock", "watch"])
    try:
        terminal.read_until("no coordinator at unix:/nowhere.sock")
        assert terminal.end() == 3
        assert b"\x1b[?1049h" not in terminal.shown
    finally:
        terminal.close()


def test_chosen_columns_are_aligned_on_a_terminal_and_fit_it(
    address: str, fake: FakeCoordinator
) -> None:
    reason = "a long reason " * 10
    for name in ("j1", "job-2"):
        spec = pb.JobSpec(name="a b")
        fake.add(pb.Job(job_id=name, state=pb.JOB_STATE_PENDING, spec=spec, reason=reason))
    words = [*WATTFOLD, "--no-color", "--coordinator", address, "queue", "--no-header"]
    terminal = Terminal([*words, "--format", "id,cap,name,reason"])
    try:
        assert terminal.end() == 0
        first, second = terminal.shown.decode().replace("\r", "").splitlines()
        assert first.startswith("j1    - a b a long reason")
        assert second.startswith("job-2 - a b a long reason")
        assert {len(first), len(second)} == {80}
    finally:
        terminal.close()


def test_interrupted_wait_detaches(address: str, fake: FakeCoordinator) -> None:
    process = subprocess.Popen(
        [*WATTFOLD, "--coordinator", address, "submit", "--wait", "--", "true"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "job-1 running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out == "job-1\n"
    assert err == (
        "wattfold: detached, the job continues; see `wattfold show job-1`, or stop it with "
        "`wattfold cancel job-1`\n"
    )
    assert fake.jobs["job-1"].state == pb.JOB_STATE_RUNNING


def test_interrupted_wait_for_jobs_leaves_them_running(address: str, fake: FakeCoordinator) -> None:
    for job_id in "ab":
        fake.add(pb.Job(job_id=job_id, state=pb.JOB_STATE_RUNNING))
    process = subprocess.Popen(
        [*WATTFOLD, "--coordinator", address, "wait", "a", "b"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert [process.stderr.readline() for _ in "ab"] == ["a running\n", "b running\n"]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, "")
    assert err == "wattfold: detached, the jobs continue\n"
    assert {job.state for job in fake.jobs.values()} == {pb.JOB_STATE_RUNNING}


def test_interrupted_profile_cancels_its_probe(address: str, fake: FakeCoordinator) -> None:
    process = subprocess.Popen(
        [*WATTFOLD, "--coordinator", address, "profile", "--cores", "1", "--", "true"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fake.wait_for_job(pb.JOB_STATE_RUNNING, DEADLINE_S)
    with fake.changed:
        assert fake.changed.wait_for(lambda: fake.looks > 0, DEADLINE_S)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert (out, "Traceback" in err) == ("", False)
    assert fake.jobs["job-1"].state == pb.JOB_STATE_CANCELLED
    assert fake.profiles == {}


def test_a_closed_pipe_is_no_error(address: str, fake: FakeCoordinator) -> None:
    for number in range(3000):
        fake.add(pb.Job(job_id=f"job-{number}", state=pb.JOB_STATE_PENDING))
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = subprocess.run(
            [*WATTFOLD, "--coordinator", address, "queue"],
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=DEADLINE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")
