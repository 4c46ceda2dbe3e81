"""The command line of the remote shell, and the mapping from host names to nodes."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from wattfold.contract.step_protocol import (
    FROM_SHELL_RUNNING,
    Frame,
    FrameKind,
    FrameReader,
    StepExit,
    StepRequest,
)
from wattfold.coordinator.cli.rsh import rsh_session
from wattfold.coordinator.cli.rsh.rsh import (
    Call,
    HostEntry,
    find_place,
    parse_call,
    read_places,
    run,
)
from wattfold.coordinator.cli.rsh.rsh_session import RshError, StepHostAt, run_remote

PLACES = [
    HostEntry(node_id="n0", address="unix:/a", alias="127.0.0.1"),
    HostEntry(node_id="n1", address="unix:/b", alias="127.0.0.2"),
]


@pytest.mark.parametrize(
    ("line", "host", "command", "no_input"),
    [
        (["n1", "orted -mca x"], "n1", "orted -mca x", False),
        (["-x", "n1", '"/usr/bin/proxy"', "--port", "h:1"], "n1", '"/usr/bin/proxy" --port h:1', 0),
        (
            ["n1", "-l", "root", "-o", "A=no", "-o", "B=no", "/bin/bash", "-f"],
            "n1",
            "/bin/bash -f",
            0,
        ),
        (["-n", "-q", "-T", "n1", "true"], "n1", "true", True),
        (["-nxT", "-lroot", "n1", "--", "ls", "-l"], "n1", "ls -l", True),
        (["-p", "22", "me@n1", "-n", "true"], "n1", "true", True),
    ],
)
def test_options_of_ssh_are_taken_before_and_behind_the_host(
    line: list[str], host: str, command: str, no_input: bool
) -> None:
    assert parse_call(line) == Call(host=host, command=command, no_input=bool(no_input))


@pytest.mark.parametrize("line", [[], ["-n"], ["n1"], ["-l", "me", "n1"], ["n1", "-n"]])
def test_a_call_without_host_or_command_is_refused(line: list[str]) -> None:
    with pytest.raises(RshError, match=r"no (host|command) given"):
        parse_call(line)


@pytest.mark.parametrize(
    ("host", "own", "found"),
    [
        ("n1", "n0", "n1"),
        ("127.0.0.2", "n0", "n1"),
        ("localhost", "n0", "n0"),
        ("localhost", "n1", "n1"),
        ("box", "n1", "n1"),
        ("box.site", "n0", "n0"),
        ("n1.cluster.site", "n0", "n1"),
    ],
)
def test_host_names_mean_nodes(host: str, own: str, found: str) -> None:
    assert find_place(host, own, "box.site", PLACES).node_id == found


def test_a_host_outside_the_job_is_refused_with_its_nodes() -> None:
    with pytest.raises(RshError, match="n9 is not a node of this job; its nodes are n0, n1"):
        find_place("n9", "n0", "box", PLACES)


def test_outside_a_job_it_says_how_to_get_inside() -> None:
    with pytest.raises(RshError, match="--own-launcher"):
        run(["n1", "true"], {})


def test_nodes_are_read_from_the_folder_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n0 unix:/a 127.0.0.1\nn1 unix:/b 127.0.0.2\n")
    assert read_places(tmp_path) == PLACES
    (tmp_path / "nodes").write_text("n0\n")
    with pytest.raises(RshError, match="cannot read"):
        read_places(tmp_path)


def test_no_steps_go_to_the_first_node_from_another(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n0 unix:/a -\nn1 unix:/b -\n")
    env = {"WATTFOLD_STEPS": str(tmp_path), "WATTFOLD_NODE_ID": "n1", "WATTFOLD_JOB_ID": "1"}
    with pytest.raises(RshError, match="n0 runs the launcher"):
        run(["n0", "true"], env)


class SignalledSocket(socket.socket):
    """A socket whose sender gets a SIGHUP before the first byte has left."""

    signalled = False

    def _hang_up(self) -> None:
        if not self.signalled:
            self.signalled = True
            os.kill(os.getpid(), signal.SIGHUP)

    def send(self, *given: object) -> int:  # type: ignore[override]
        self._hang_up()
        return super().send(*given)  # type: ignore[arg-type]

    def sendall(self, *given: object) -> None:  # type: ignore[override]
        self._hang_up()
        super().sendall(*given)  # type: ignore[arg-type]


@pytest.fixture
def own_signals() -> Iterator[list[int]]:
    """SIGHUPs that the session did not catch. The handlers are restored after the test."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    numbers += (signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    taken: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _frame: taken.append(number))
    yield taken
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)


def test_a_signal_that_comes_with_the_request_is_passed_on(
    own_signals: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = socket.socketpair()
    conn = SignalledSocket(fileno=here.detach())
    monkeypatch.setattr(
        rsh_session, "_meet", lambda *_: (conn, FrameReader({FrameKind.WELCOME, FrameKind.ERROR}))
    )
    kinds: list[FrameKind] = []

    def host() -> None:
        """Host that ends the command after a signal, or once this process has received it."""
        reader = FrameReader({FrameKind.REQUEST, *FROM_SHELL_RUNNING})
        there.settimeout(240)
        while FrameKind.SIGNAL not in kinds:
            reader.feed(there.recv(4096))
            kinds.extend(frame.kind for frame in reader.frames())
            if own_signals:
                break
        there.sendall(Frame(FrameKind.EXIT, StepExit(code=9).pack()).pack())

    serving = Thread(target=host)
    serving.start()
    with there:
        node = StepHostAt(address="unix:/none", node="n1", job="1", key=b"key")
        request = StepRequest(command=b"true", cwd=b"/")
        assert run_remote(request, node, no_input=True) == 9
        serving.join()
    assert not own_signals, "it ended this process, and the command did not hear of it"
    assert kinds[0] is FrameKind.REQUEST
    assert FrameKind.SIGNAL in kinds
