"""A fake coordinator on a socket, and the command that uses it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The path of a socket has at most 107 bytes, which pytest's own folders may exceed."""
    with tempfile.TemporaryDirectory(prefix="wf-") as name:
        yield Path(name)


@pytest.fixture
def fake() -> FakeCoordinator:
    return FakeCoordinator()


@pytest.fixture
def address(fake: FakeCoordinator, short_folder: Path) -> Iterator[str]:
    where = socket_address(short_folder)
    server = serve(fake, where)
    yield where
    server.stop(grace=None).wait(5)


@pytest.fixture
def wattfold(address: str) -> Command:
    return Command(address)
