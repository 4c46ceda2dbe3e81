"""A group of commands that are imported when they are used: gRPC, numpy and matplotlib are slow."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import click


class LazyGroup(click.Group):
    """Subclasses name their commands: ``{"describe": "workload_describe:describe"}``."""

    COMMANDS: ClassVar[Mapping[str, str]] = {}
    """Module of this package and attribute, by the name of the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the order in which they are listed."""
        return list(self.COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command; None if there is none of that name."""
        if cmd_name not in self.COMMANDS:
            return None
        module, _, attribute = self.COMMANDS[cmd_name].partition(":")
        loaded: Any = importlib.import_module(f"wattfold.coordinator.cli.{module}")
        command: click.Command = getattr(loaded, attribute)
        return command
