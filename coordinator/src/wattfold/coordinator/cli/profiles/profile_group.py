"""`wattfold profile`: measures a program, or deletes stored data with a subcommand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from wattfold.coordinator.cli.shared.lazy_group import LazyGroup


class ProfileGroup(LazyGroup):
    """A command with subcommands. Without the name of a subcommand, it measures a program.

    A program with such a name is measured after `--`.
    """

    COMMANDS: ClassVar[Mapping[str, str]] = {
        "epochs": "profiles.profile_epochs:epochs",
        "delete": "profiles.profile_drop:delete",
        "reset": "profiles.profile_drop:reset",
    }
    DEFAULT: ClassVar[str] = "measure"

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one of the commands, or the measurement."""
        if cmd_name == self.DEFAULT:
            return self.default
        return super().get_command(ctx, cmd_name)

    @property
    def default(self) -> click.Command:
        """Return the command that runs without the name of a subcommand."""
        from wattfold.coordinator.cli.profiles.profile import profile as measure

        return measure

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line without a command's name as a measurement."""
        named = bool(args) and args[0] in self.COMMANDS
        if not named and args not in (["--help"], ["-h"]):
            args = [self.DEFAULT, *args]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the usage of the measurement."""
        return self.default.collect_usage_pieces(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the measurement, then the subcommands."""
        self.default.format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of the measurement, and the commands."""
        self.default.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


@click.group(cls=ProfileGroup)
def profile() -> None:
    """Measure an application and fit its model."""
