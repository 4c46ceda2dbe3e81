"""`wattfold workload`: logs and models of jobs, described, converted, generated, fetched.

These commands need no coordinator.
"""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "describe": "workload_describe:describe",
    "convert": "workload_convert:convert",
    "generate": "workload_generate:generate",
    "fetch": "workload_fetch:fetch",
}


class _WorkloadGroup(click.Group):
    """Imports a command when it is used: numpy is slow to start."""

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


@click.group(cls=_WorkloadGroup)
def workload() -> None:
    """Describe, convert, generate and fetch logs of jobs (Standard Workload Format)."""
