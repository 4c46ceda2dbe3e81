"""A served fake coordinator, and the command run against it in this process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from unit.cli.fake_coordinator import FakeCoordinator, serve, socket_address

from wattfold.coordinator.cli.main import cli


@dataclass(frozen=True)
class Command:
    """Runs `wattfold` against one address."""

    address: str

    def __call__(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(cli, ["--coordinator", self.address, *arguments], env=env)

    def json(self, *arguments: str) -> Any:
        """The document of a command that succeeds."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


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
