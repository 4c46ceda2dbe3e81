"""Group of commands that are imported at their use: gRPC, numpy and matplotlib load slowly."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import click

from wattfold.coordinator.cli.shared.texts.short_helps import SHORT_HELPS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_GAPS = 6
"""Blanks in a line with a command and its help, as counted by click."""


class LazyGroup(click.Group):
    """Group whose subclasses name its commands: ``{"describe": "workload_describe:describe"}``."""

    COMMANDS: ClassVar[Mapping[str, str]] = {}
    """Module of this package and attribute, by the name of the command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return all names, in the order in which they are listed."""
        return list(self.COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None if there is no command of that name."""
        if cmd_name not in self.COMMANDS:
            return None
        module, _, attribute = self.COMMANDS[cmd_name].partition(":")
        loaded: Any = importlib.import_module(f"wattfold.coordinator.cli.{module}")
        command: click.Command = getattr(loaded, attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        names = self.list_commands(ctx)
        limit = formatter.width - _GAPS - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self._listed(name).get_short_help_str(limit)) for name in names]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands without importing them, and options."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(n, help=self._listed(n).get_short_help_str()) for n in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def _listed(self, name: str) -> click.Command:
        """Return a command with only its name and help."""
        return click.Command(name, help=SHORT_HELPS[self.COMMANDS[name]])
