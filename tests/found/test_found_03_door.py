"""Operators reach the coordinator during floods of connections; a refused connection is cheap."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.adapters.api_site import ApiSite
from unit.adapters.test_peer_door import GREETING, Behind, read
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, serve

from wattfold.coordinator.adapters.door import peer_door
from wattfold.coordinator.adapters.door.door_limits import (
    BURST,
    CONNECTIONS_MAX,
    CONNECTIONS_MAX_OF_ONE,
    KEPT_FOR_OPERATORS,
    RATE_PER_S,
    Caller,
    DoorLimits,
)
from wattfold.coordinator.adapters.door.peer_door import Entrance, PeerDoor
from wattfold.coordinator.adapters.door.peers import operators_path
from wattfold.coordinator.adapters.log_throttle import EVERY_S, LogThrottle
from wattfold.coordinator.cli.shared.connection import client
from wattfold.coordinator.cli.shared.connection.address import entrance
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import BusyError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode

S = 1_000_000_000
NOBODY = 65534
DAEMON_GID = 1
CALLS = 20
PUBLIC = Entrance(mode=0o666, operators_gid=DAEMON_GID)
_FLOOD = """
import socket, sys
path = sys.argv[1]
for number in range(10**9):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        try:
            connection.connect(path)
        except BlockingIOError:
            pass
    if number == 2000:
        print("flooding", flush=True)
"""
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or ""
"""An interpreter that other accounts can run; the current interpreter may be in a home directory.
"""
as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON, reason="needs root and a Python in /usr/bin"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account may enter."""
    made = Path(tempfile.mkdtemp(prefix="wf-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def flood(folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two flooding processes of another account; `begin` starts them."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.kill()
        process.communicate()


def begin(flood: list[subprocess.Popen[bytes]], path: Path) -> None:
    for _ in range(2):
        command = [PYTHON, "-c", _FLOOD, str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, user=NOBODY)
        flood.append(process)
    for process in flood:
        assert process.stdout is not None
        assert process.stdout.readline() == b"flooding\n"


@as_root
def test_root_gets_through_every_time_while_another_account_floods(
    folder: Path, flood: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "c.sock"

    def call() -> int:
        with CoordinatorClient(f"unix:{path}", timeout_s=240.0) as found:
            return found.power().budget_uw

    async def run() -> list[int]:
        async with ApiSite(folder) as site:
            door = PeerDoor(path, folder / "api.sock", PUBLIC)
            door.open()
            try:
                begin(flood, path)
                answers = [await asyncio.to_thread(call) for _ in range(CALLS)]
                assert site.core.state.ledger.budget_uw == answers[0]
                return answers
            finally:
                door.close()

    assert len(asyncio.run(run())) == CALLS
    assert len([r for r in caplog.records if "connection_" in r.getMessage()]) < 20


def test_a_full_queue_of_the_common_socket_keeps_no_operator_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_door, "BACKLOG", 2)
    monkeypatch.setattr(client, "BUSY_S", 0.1)
    address = f"unix:{folder}/c.sock"

    def call() -> int:
        with CoordinatorClient(address, timeout_s=240.0) as found:
            return found.power().budget_uw

    async def run() -> None:
        async with ApiSite(folder) as site:
            door = PeerDoor(folder / "c.sock", folder / "api.sock", PUBLIC)
            monkeypatch.setattr(door, "_listeners", door._listeners[1:])
            door.open()
            common = socket.socket(socket.AF_UNIX)
            (folder / "c.sock").unlink()
            common.bind(str(folder / "c.sock"))
            common.listen(2)
            waiting = list(fill(folder / "c.sock"))
            try:
                assert await asyncio.to_thread(call) == site.core.state.ledger.budget_uw
                monkeypatch.setattr(client, "entrance", lambda address: address)
                with pytest.raises(BusyError):
                    await asyncio.to_thread(call)
            finally:
                door.close()
                for connection in (common, *waiting):
                    connection.close()

    asyncio.run(run())


def fill(path: Path) -> Iterator[socket.socket]:
    """Open connections until the queue of the listener is full."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(str(path))
        except BlockingIOError:
            connection.close()
            return
        yield connection


def test_the_rate_of_an_account_is_limited_before_anything_is_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = Behind(tmp_path / "behind.sock")
    monkeypatch.setattr(Caller, "operator", False)
    door = PeerDoor(tmp_path / "door.sock", tmp_path / "behind.sock")
    door._limits = DoorLimits(now_ns=lambda: S)
    door.open()
    try:
        for number in range(BURST + 40):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(240)
                connection.connect(str(tmp_path / "door.sock"))
                expected = GREETING if number < BURST else b""
                assert read(connection, len(GREETING)) == expected
    finally:
        door.close()
        behind.close()
    assert len(behind.names) == BURST
    told = [r.getMessage() for r in caplog.records if "connection_refused" in r.getMessage()]
    assert told == [
        f"event=connection_refused uid={os.geteuid()} "
        f'why="more than {RATE_PER_S} connections per second"'
    ]


def test_a_rate_recovers_and_operators_have_none() -> None:
    now_ns = [S]
    limits = DoorLimits(lambda: now_ns[0])
    ada, root = Caller(uid=1001, in_group=False), Caller(uid=0, in_group=False)

    def passes(caller: Caller) -> bool:
        refused = limits.refusal(caller)
        if not refused:
            limits.leave(caller)
        return not refused

    assert all(passes(ada) for _ in range(BURST))
    assert not passes(ada)
    assert all(passes(root) for _ in range(BURST + 1))
    now_ns[0] += S
    assert sum(passes(ada) for _ in range(BURST)) == RATE_PER_S


def test_connections_are_reserved_for_operators() -> None:
    limits = DoorLimits(lambda: S)
    users = [Caller(uid=1000 + number, in_group=False) for number in range(3)]
    refused = [limits.refusal(user) for user in users for _ in range(BURST)]
    assert refused.count("") == CONNECTIONS_MAX - KEPT_FOR_OPERATORS
    assert refused[CONNECTIONS_MAX_OF_ONE - 1] == ""
    assert refused[-1] == "too many connections"
    assert limits.refusal(Caller(uid=1009, in_group=True)) == ""


@as_root
def test_only_operators_can_open_their_socket(folder: Path) -> None:
    behind = Behind(folder / "behind.sock")
    path = folder / "c.sock"
    own = operators_path(str(path))
    door = PeerDoor(path, folder / "behind.sock", PUBLIC)
    door.open()
    connect = "import socket, sys; s = socket.socket(1); s.connect(sys.argv[1]); s.recv(99)"

    def connects(path: str, *groups: int) -> bool:
        done = subprocess.run(
            [PYTHON, "-c", connect, path],
            user=NOBODY,
            group=NOBODY,
            extra_groups=groups,
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    try:
        assert connects(str(path))
        assert not connects(own)
        assert connects(own, DAEMON_GID)
        assert entrance(f"unix:{path}") == f"unix:{own}"
    finally:
        door.close()
        behind.close()
    assert not Path(own).exists()


def test_a_private_socket_needs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    Path(operators_path(str(path))).touch()
    door = PeerDoor(path, tmp_path / "behind.sock")
    try:
        assert not Path(operators_path(str(path))).exists()
        assert entrance(f"unix:{path}") == f"unix:{path}"
    finally:
        door.close()


@as_root
def test_a_socket_of_operators_that_another_account_has_made_is_not_used(folder: Path) -> None:
    path = folder / "c.sock"
    own = Path(operators_path(str(path)))
    for one in (path, own):
        socket.socket(socket.AF_UNIX).bind(str(one))
    assert entrance(f"unix:{path}") == f"unix:{own}"
    os.chown(own, NOBODY, NOBODY)
    assert entrance(f"unix:{path}") == f"unix:{path}"
    assert stat.S_ISSOCK(own.stat().st_mode)


@pytest.fixture
def busy_door(tmp_path: Path, fake: FakeCoordinator) -> Iterator[PeerDoor]:
    server = serve(fake, f"unix:{tmp_path}/inner.sock")
    door = PeerDoor(tmp_path / "c.sock", tmp_path / "inner.sock")
    door.open()
    yield door
    door.close()
    server.stop(None)


@pytest.fixture
def fake() -> FakeCoordinator:
    return FakeCoordinator()


class Refusing(DoorLimits):
    """Refuses the first connections."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self.refused = refused

    def refusal(self, caller: Caller) -> str:
        self.refused -= 1
        return "too many" if self.refused >= 0 else super().refusal(caller)


def test_the_command_tries_again(tmp_path: Path, busy_door: PeerDoor) -> None:
    busy_door._limits = Refusing(3)
    result = Command(f"unix:{tmp_path}/c.sock")("nodes")
    assert (result.exit_code, result.stderr) == (ExitCode.OK, "")


def test_the_command_says_that_the_coordinator_is_busy(
    tmp_path: Path, busy_door: PeerDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "BUSY_S", 0.2)
    busy_door._limits = Refusing(10**9)
    address = f"unix:{tmp_path}/c.sock"
    result = Command(address)("nodes")
    assert result.exit_code == ExitCode.BUSY
    assert result.stderr == (
        f"wattfold: the coordinator at {address} is busy: it takes no more connections of this "
        "account now; try again later, with fewer commands at once\n"
    )


def test_lines_of_a_kind_are_counted() -> None:
    lines: list[str] = []
    now_s = [0.0]
    throttle = LogThrottle(lines.append, lambda: now_s[0])
    for _ in range(100):
        throttle.tell("refused", uid=7)
    throttle.tell("refused", uid=8)
    assert lines == ["event=refused uid=7", "event=refused uid=8"]
    now_s[0] = EVERY_S
    throttle.tell("refused", uid=7)
    throttle.tell("refused", uid=7)
    assert lines[2:] == ["event=refused uid=7 times=100"]
