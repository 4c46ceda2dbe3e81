"""The command, run in this process against one coordinator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result

from wattfold.coordinator.cli.main import cli

# What the caller of the tests may have set and would change the output.
_UNSET: dict[str, str | None] = {"COLUMNS": None, "WATTFOLD_TOKEN_FILE": None}


@dataclass(frozen=True)
class Command:
    """Runs `wattfold` against one address."""

    address: str

    def __call__(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        settings = {**_UNSET, **(env or {})}
        return CliRunner().invoke(cli, ["--coordinator", self.address, *arguments], env=settings)

    def json(self, *arguments: str) -> Any:
        """The document of a command that succeeds."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)
