"""`wattfold reproduce`: published evaluations, run again and compared claim by claim.

These commands need no coordinator.
"""

from __future__ import annotations

import importlib

import click

_COMMANDS = {"parm": "reproduce_parm:parm"}


class _ReproduceGroup(click.Group):
    """Imports a command when it is used: numpy and matplotlib are slow to start."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        loaded = importlib.import_module(f"wattfold.coordinator.cli.{module}")
        command: click.Command = getattr(loaded, attribute)
        return command


@click.group(cls=_ReproduceGroup)
def reproduce() -> None:
    """Run a published evaluation again and compare it with the paper, claim by claim."""
