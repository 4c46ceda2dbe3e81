"""The command, run in this process against one coordinator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner, Result

from wattfold.coordinator.cli.main import cli

# Variables of the caller's environment that would change the output.
_UNSET: dict[str, str | None] = {"COLUMNS": None, "WATTFOLD_TOKEN_FILE": None}


@dataclass(frozen=True)
class Command:
    """`wattfold` with a fixed coordinator address."""

    address: str

    def __call__(
        self, *arguments: str, env: dict[str, str] | None = None, stdin: str | None = None
    ) -> Result:
        settings = {**_UNSET, **(env or {})}
        words = ["--coordinator", self.address, *arguments]
        return CliRunner().invoke(cli, words, env=settings, input=stdin)

    def json(self, *arguments: str) -> Any:
        """Return the JSON document of a successful command."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)
