"""A real step host, with callers that have the key of the job and callers that do not."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.contract.step_protocol import (
    INPUT_WINDOW_BYTES,
    NONCE_BYTES,
    Frame,
    FrameKind,
    FrameReader,
    Meeting,
    StepError,
    StepExit,
    StepRequest,
)
from wattfold.nodeagent.adapters.jobs.step_folders import NoStepHostError, StepFolders, host_command
from wattfold.nodeagent.step_host import UNPROVEN_MAX

JOB, NODE, KEY = JobId("j"), "n1", b"k" * 32
NOBODY = 65534


class Shell:
    """The caller's end of a connection, passed on as the agent does."""

    def __init__(self, folders: StepFolders) -> None:
        self.conn, theirs = socket.socketpair()
        self.conn.settimeout(240)
        self.reader = FrameReader(FrameKind)
        with theirs:
            folders.hand_over(theirs, JOB, os.geteuid())

    def send(self, kind: FrameKind, body: bytes = b"") -> None:
        self.conn.sendall(Frame(kind, body).pack())

    def next(self) -> Frame | None:
        """Return the next frame, None at the end."""
        while True:
            for frame in self.reader.frames():
                return frame
            try:
                data = self.conn.recv(65536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self.reader.feed(data)

    def prove(self, key: bytes = KEY, node: str = NODE) -> Frame | None:
        challenge = self.next()
        assert challenge is not None
        assert challenge.kind is FrameKind.CHALLENGE
        nonce = bytes(NONCE_BYTES)
        meeting = Meeting(key=key, job=JOB, node=node, host_nonce=challenge.body, shell_nonce=nonce)
        self.send(FrameKind.PROOF, nonce + meeting.shell_mac())
        answer = self.next()
        if answer is not None and answer.kind is FrameKind.WELCOME:
            assert answer.body == meeting.host_mac(), "the host did not prove itself"
        return answer

    def start(self, command: str) -> None:
        welcome = self.prove()
        assert welcome is not None
        assert welcome.kind is FrameKind.WELCOME
        self.send(FrameKind.REQUEST, request(command))

    def rest(self) -> tuple[bytes, StepExit | str | None]:
        """Return the remaining output and the end of the command."""
        out = b""
        while (frame := self.next()) is not None:
            if frame.kind in (FrameKind.STDOUT, FrameKind.STDERR):
                out += frame.body
            elif frame.kind is FrameKind.EXIT:
                return out, StepExit.unpack(frame.body)
            elif frame.kind is FrameKind.ERROR:
                return out, StepError.unpack(frame.body).text
        return out, None


def request(command: str, cwd: str = "/") -> bytes:
    return StepRequest(command=command.encode(), cwd=cwd.encode(), env=((b"A", b"1"),)).pack()


@pytest.fixture
def folders(tmp_path: Path) -> StepFolders:
    made = StepFolders(tmp_path)
    made.make(JOB, KEY, {}, None)
    return made


@pytest.fixture
def host(folders: StepFolders) -> Iterator[subprocess.Popen[bytes]]:
    """Calls wait in its socket until it runs."""
    with folders.listener(JOB) as listener:
        fd = listener.fileno()
        command = host_command(folders.path(JOB), NODE, JOB, fd)
        process = subprocess.Popen(command, start_new_session=True, pass_fds=[fd])
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        assert process.wait(240) in (0, -signal.SIGTERM), "the latter before it is up"


def test_who_has_the_key_is_served(folders: StepFolders, host: object) -> None:
    shell = Shell(folders)
    shell.start("echo $A $WATTFOLD_X; exit 3")
    assert shell.rest() == (b"1\n", StepExit(code=3))


def test_the_host_proves_itself_too(folders: StepFolders, host: object) -> None:
    welcome = Shell(folders).prove()
    assert welcome is not None
    assert len(welcome.body) == 32


@pytest.mark.parametrize("wrong", [{"key": b"x" * 32}, {"node": "n2"}])
def test_who_has_not_starts_nothing(
    folders: StepFolders, host: object, tmp_path: Path, wrong: dict[str, object]
) -> None:
    shell = Shell(folders)
    answer = shell.prove(**wrong)  # type: ignore[arg-type]
    assert answer is not None
    assert answer.kind is FrameKind.ERROR
    shell.send(FrameKind.REQUEST, request(f"touch {tmp_path}/started"))
    # The host continues, and a later command finds that nothing was started.
    other = Shell(folders)
    other.start(f"ls {tmp_path}/started")
    out, end = other.rest()
    assert b"No such file" in out
    assert isinstance(end, StepExit)


@pytest.mark.parametrize(
    "data",
    [
        Frame(FrameKind.REQUEST, request("true")).pack(),
        Frame(FrameKind.STDIN, b"x").pack(),
        b"\xff" * 100,
        Frame(FrameKind.PROOF, b"short").pack(),
        bytes([FrameKind.PROOF]) + b"\xff\xff\xff\x7f",
    ],
)
def test_frames_out_of_turn_end_the_connection(
    folders: StepFolders, host: object, data: bytes
) -> None:
    shell = Shell(folders)
    assert shell.next() is not None
    shell.conn.sendall(data)
    answer = shell.next()
    assert answer is not None
    assert answer.kind is FrameKind.ERROR
    assert shell.next() is None


def test_silent_callers_give_way_to_new_ones(folders: StepFolders, host: object) -> None:
    silent = [Shell(folders) for _ in range(UNPROVEN_MAX)]
    assert all(shell.next() for shell in silent), "all have been challenged"
    shell = Shell(folders)
    shell.start("echo served")
    assert shell.rest()[0] == b"served\n"
    assert silent[0].next() is None
    assert not select.select([silent[-1].conn], [], [], 0)[0]


def test_more_input_than_the_window_ends_the_step(folders: StepFolders, host: object) -> None:
    shell = Shell(folders)
    shell.start("sleep 1000")
    sent = 0
    try:
        while sent <= INPUT_WINDOW_BYTES + 200_000:
            shell.send(FrameKind.STDIN, b"x" * 65536)
            sent += 65536
    except OSError:
        pass
    out, end = shell.rest()
    assert out == b""
    assert end is None or "window" in str(end)


def test_sigterm_ends_what_runs_and_then_the_host(
    folders: StepFolders, host: subprocess.Popen[bytes]
) -> None:
    shell = Shell(folders)
    shell.start("trap 'echo over; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    frame = shell.next()
    assert frame == Frame(FrameKind.STDOUT, b"up\n")
    host.send_signal(signal.SIGTERM)
    assert host.wait(240) == 0
    assert shell.rest()[1] is None


def test_steps_do_not_inherit_what_the_host_ignores_or_holds(
    folders: StepFolders, host: object
) -> None:
    shell = Shell(folders)
    shell.start("grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | wc -l")
    out, _ = shell.rest()
    lines = out.decode().split()
    assert lines[1] == lines[3] == "0" * 16
    assert int(lines[4]) <= 4


def test_jobs_that_are_not_here_and_names_that_are_no_jobs(folders: StepFolders) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for job in ("other", "../j", ".", ""):
            with pytest.raises(NoStepHostError):
                folders.hand_over(theirs, JobId(job), os.geteuid())
        with pytest.raises(NoStepHostError, match="no step host of job j on this node"):
            folders.hand_over(theirs, JOB, os.geteuid())


def test_another_account_does_not_reach_the_host(folders: StepFolders, host: object) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(NoStepHostError, match="no step host of job j on this node"):
        folders.hand_over(theirs, JOB, NOBODY)


def test_a_host_that_has_ended_takes_no_calls(
    folders: StepFolders, host: subprocess.Popen[bytes]
) -> None:
    host.kill()
    host.wait()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(NoStepHostError, match="no step host of job j on this node"):
        folders.hand_over(theirs, JOB, os.geteuid())


def test_folders_of_jobs_that_are_gone_are_removed(folders: StepFolders) -> None:
    folders.make(JobId("other"), KEY, {"nodes": "x"}, None)
    folders.keep_only([JobId("other")])
    assert not folders.path(JOB).exists()
    assert folders.path(JobId("other")).exists()
