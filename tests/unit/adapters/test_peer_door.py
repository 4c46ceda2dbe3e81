"""The socket in front of gRPC forwards every byte in both directions and identifies the peer."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from asyncio import selector_events
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wattfold.coordinator.adapters.door import door_limits, peer_door
from wattfold.coordinator.adapters.door.door_limits import Caller
from wattfold.coordinator.adapters.door.peer_door import PeerDoor
from wattfold.coordinator.adapters.door.peers import own_end

GREETING = b"I speak first."
CHUNK = 65536
LARGE = 40 * CHUNK


class Behind:
    """Server behind the socket: it greets, echoes, and records the names of its callers."""

    def __init__(self, path: Path) -> None:
        self.names: list[bytes] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, name = self._listening.accept()
            except OSError:
                return
            self.names.append(name)
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Accept no further connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def _echo(connection: socket.socket) -> None:
    with connection:
        connection.sendall(GREETING)
        while data := connection.recv(CHUNK):
            connection.sendall(data)


def read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(CHUNK)):
        data += more
    return data


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Behind]:
    server = Behind(tmp_path / "behind.sock")
    yield server
    server.close()


@pytest.fixture
def door(tmp_path: Path, behind: Behind) -> Iterator[PeerDoor]:
    del behind
    made = PeerDoor(tmp_path / "door.sock", tmp_path / "behind.sock")
    made.open()
    yield made
    made.close()


def called(tmp_path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(240)
    connection.connect(str(tmp_path / "door.sock"))
    return connection


def exchange(tmp_path: Path, data: bytes) -> None:
    with called(tmp_path) as connection:
        # In a thread, because the data may exceed all buffers of the connection.
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert read(connection, len(GREETING) + len(data)) == GREETING + data
        sender.join()


def test_what_the_server_says_first_comes_through(tmp_path: Path, door: PeerDoor) -> None:
    del door
    for _ in range(50):
        with called(tmp_path) as connection:
            assert read(connection, len(GREETING)) == GREETING


def test_more_than_the_buffers_hold_comes_through_from_many_at_once(
    tmp_path: Path, door: PeerDoor
) -> None:
    del door
    wrong: list[BaseException] = []

    def one(number: int) -> None:
        try:
            exchange(tmp_path, os.urandom(LARGE + number))
        except BaseException as error:  # noqa: BLE001 - told below
            wrong.append(error)

    callers = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_the_server_is_told_the_account(tmp_path: Path, door: PeerDoor, behind: Behind) -> None:
    exchange(tmp_path, b"x")
    told = behind.names[0].decode()
    assert told == own_end(os.geteuid(), door.key, 1)


def test_a_caller_that_goes_makes_room(
    tmp_path: Path, door: PeerDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    del door
    monkeypatch.setattr(door_limits, "CONNECTIONS_MAX_OF_ONE", 1)
    exchange(tmp_path, b"x")
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        with called(tmp_path) as connection:
            if connection.recv(1):
                return
    pytest.fail("the place of a caller that went was never given to another one")


def test_a_caller_too_many_is_let_go_and_the_log_says_so(
    tmp_path: Path,
    door: PeerDoor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del door
    monkeypatch.setattr(door_limits, "CONNECTIONS_MAX_OF_ONE", 1)
    with called(tmp_path) as first:
        assert read(first, len(GREETING)) == GREETING
        with called(tmp_path) as second:
            assert second.recv(1) == b""
        assert "too many connections" in caplog.text
        first.sendall(b"x")
        assert read(first, 1) == b"x"


def test_without_a_server_the_log_says_why_a_caller_is_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    door = PeerDoor(tmp_path / "door.sock", tmp_path / "behind.sock")
    door.open()
    try:
        with called(tmp_path) as connection:
            assert connection.recv(1) == b""
        assert "connection_refused" in caplog.text
    finally:
        door.close()


def test_what_a_caller_says_before_it_is_let_in_waits_for_that(
    tmp_path: Path, door: PeerDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reproduces Python 3.11.2, where a transport that is paused at its creation reads anyway."""
    del door

    def add_reader(self: Any, fd: int, callback: Callable[..., None], *given: Any) -> None:
        self._loop._add_reader(fd, callback, *given)

    async def late(self: peer_door._Outer, caller: Caller) -> None:
        await asyncio.sleep(0.1)
        await join(self, caller)

    join = peer_door._Outer._join
    monkeypatch.setattr(selector_events._SelectorTransport, "_add_reader", add_reader)
    monkeypatch.setattr(peer_door._Outer, "_join", late)
    exchange(tmp_path, os.urandom(LARGE))
