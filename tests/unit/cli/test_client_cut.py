"""A connection that ends under a call: it is made again and the call asked once more."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from wattfold.coordinator.cli.shared.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import UnreachableError

GREAT = 65536


class Cutting:
    """A way to a server on which the first connections end under their first call.

    Such a connection is let through until the first answer is about to come back.
    """

    def __init__(self, path: Path, server: str, cuts: int) -> None:
        self.cut = 0
        self._cuts = cuts
        self._server = server.removeprefix("unix:")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            outer, _ = self._listening.accept()
            inner = socket.socket(socket.AF_UNIX)
            inner.connect(self._server)
            threading.Thread(target=self._carry, args=(inner, outer), daemon=True).start()
            threading.Thread(target=self._requests, args=(outer, inner), daemon=True).start()

    def _requests(self, outer: socket.socket, inner: socket.socket) -> None:
        while data := _received(outer):
            # The name of a method stands in the header of a call as it is.
            if b"/wattfold.v1.Coordinator/" in data and self.cut < self._cuts:
                self.cut += 1
                outer.shutdown(socket.SHUT_RDWR)
                return
            if not _passed_on(data, inner):
                return

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        while (data := _received(source)) and _passed_on(data, sink):
            pass


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(GREAT)
    except OSError:
        return b""


def _passed_on(data: bytes, sink: socket.socket) -> bool:
    try:
        sink.sendall(data)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("cuts", [0, 1])
def test_a_call_is_asked_once_more(
    short_folder: Path, address: str, cuts: int, caplog: pytest.LogCaptureFixture
) -> None:
    way = Cutting(short_folder / "way", address, cuts)
    with CoordinatorClient(f"unix:{short_folder / 'way'}") as client:
        assert [node.node_id for node in client.list_nodes().nodes] == ["n1", "n2"]
    assert way.cut == cuts
    assert ("was cut; asking once more" in caplog.text) is bool(cuts)


def test_a_second_cut_is_told(short_folder: Path, address: str) -> None:
    way = Cutting(short_folder / "way", address, 2)
    with (
        CoordinatorClient(f"unix:{short_folder / 'way'}") as client,
        pytest.raises(UnreachableError),
    ):
        client.list_nodes()
    assert way.cut == 2
