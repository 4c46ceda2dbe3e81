"""A failed connection says why, and each cause has its own exit code."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from unit.cli.command import Command
from unit.cli.conftest import short_folder
from unit.cli.fake_coordinator import FakeCoordinator, serve

from wattfold.coordinator.cli.shared.connection.connection_failure import connection_failure
from wattfold.coordinator.cli.shared.exit_codes import ExitCode

__all__ = ["short_folder"]

Answer = Callable[[socket.socket], None]


@contextlib.contextmanager
def server(answer: Answer, path: Path | None = None, backlog: int = 16) -> Iterator[str]:
    """Answers each connection, at a path or a port of the loopback device."""
    listening = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
    listening.bind(str(path) if path else ("127.0.0.1", 0))
    listening.listen(backlog)

    def run() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(ConnectionError):
                answer(connection)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"unix:{path}" if path else f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def nothing(connection: socket.socket) -> None:
    """Closes."""


def silence(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def says(data: bytes) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(data)

    return answer


TLS_ALERT = bytes([0x15, 3, 3, 0, 2, 2, 70])


def failure(address: str) -> tuple[int, str]:
    found = connection_failure(address)
    assert found is not None
    assert "--coordinator ADDRESS" in str(found) or "again" in str(found)
    return found.exit_code, str(found)


def test_nobody_listens(short_folder: Path) -> None:
    path = short_folder / "c.sock"
    code, text = failure(f"unix:{path}")
    assert (code, "(no such file or directory)" in text) == (ExitCode.UNREACHABLE, True)
    with server(nothing, path):
        pass
    code, text = failure(f"unix:{path}")
    assert (code, "(connection refused)" in text) == (ExitCode.UNREACHABLE, True)
    with server(nothing) as address:
        pass
    result = Command(address)("power")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "(connection refused)" in result.stderr


def test_a_host_without_an_address() -> None:
    result = Command(f"{'x' * 64}.invalid:7000")("power")
    assert result.exit_code == ExitCode.UNKNOWN_HOST
    assert "unknown host" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another account")
@pytest.mark.parametrize("closed", ["socket", "folder"])
def test_an_account_without_permission(short_folder: Path, closed: str) -> None:
    path, nobody = short_folder / "c.sock", pwd.getpwnam("nobody")
    short_folder.chmod(0o755 if closed == "socket" else 0o700)
    with server(nothing, path) as address:
        path.chmod(0o660)
        reader, writer = os.pipe()
        if not os.fork():
            try:
                os.setgroups([])
                os.setgid(nobody.pw_gid)
                os.setuid(nobody.pw_uid)
                found = connection_failure(address)
                os.write(writer, f"{found and int(found.exit_code)} {found}".encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as told:
            code, _, text = told.read().partition(" ")
        os.wait()
    assert int(code) == ExitCode.NO_ACCESS
    assert "account nobody may not open" in text
    assert ("(mode 0660, owner root)" in text) == (closed == "socket")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(b"SSH-2.0-OpenSSH_9.6\r\n"), "answers in another protocol"),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "answers in another protocol"),
        (says(TLS_ALERT), "speaks TLS"),
        (nothing, "closes connections at once"),
    ],
)
def test_another_server(answer: Answer, words: str) -> None:
    with server(answer) as address:
        result = Command(address)("power")
    assert result.exit_code == ExitCode.OTHER_SERVER
    assert words in result.stderr


def test_a_server_that_says_nothing(short_folder: Path) -> None:
    with server(silence) as address:
        assert failure(address)[0] == ExitCode.TIMED_OUT
    # A local socket is that of a coordinator, which may not take the connection yet.
    with server(silence, short_folder / "c.sock") as address:
        assert failure(address)[0] == ExitCode.BUSY


def test_a_full_queue_of_connections(short_folder: Path) -> None:
    path = short_folder / "c.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(0)
    with listening, socket.socket(socket.AF_UNIX) as first:
        first.connect(str(path))
        assert failure(f"unix:{path}")[0] == ExitCode.BUSY


def test_a_coordinator_has_no_failure(short_folder: Path) -> None:
    fake = FakeCoordinator()
    address = f"unix:{short_folder}/c.sock"
    running = serve(fake, address)
    try:
        assert connection_failure(address) is None
        fake.fail = lambda method: (grpc.StatusCode.DEADLINE_EXCEEDED, "late")
        result = Command(address)("power")
        assert (result.exit_code, "within 10 s" in result.stderr) == (ExitCode.TIMED_OUT, True)
    finally:
        running.stop(grace=None).wait(5)
