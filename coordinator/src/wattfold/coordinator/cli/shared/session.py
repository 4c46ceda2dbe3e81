"""The session: the global options of one invocation, passed to every command.

Also the decorators every command wears: the session, and `--json` behind the command as well as
before it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from rich.console import Console, RenderableType

from wattfold.coordinator.cli.shared import json_output

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.client import CoordinatorClient

F = TypeVar("F", bound=Callable[..., Any])

UNLIMITED_WIDTH = 10_000
"""Columns when standard output is no terminal: what is read by a program is never cut."""


class _Output(Console):
    """A console that leaves a closed pipe to the command's own ending."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Session:
    """One invocation of the command. `json` may still be set by the option behind a command."""

    def __init__(self, *, address: str, token_file: Path | None, json: bool, color: bool) -> None:
        self.address = address
        self.json = json
        self.color = color
        self._token_file = token_file

    def connect(self) -> CoordinatorClient:
        """A client with the token of the session, if it has one."""
        # gRPC takes its time to load, and commands without a coordinator do without.
        from wattfold.coordinator.cli.shared.client import CoordinatorClient, read_token

        token = read_token(self._token_file) if self._token_file else None
        return CoordinatorClient(self.address, token)

    def console(self, stderr: bool = False) -> Console:
        """A console on the standard output or error of this moment."""
        stream = sys.stderr if stderr else sys.stdout
        fixed = stream.isatty() or "COLUMNS" in os.environ
        return _Output(
            file=stream,
            width=None if fixed else UNLIMITED_WIDTH,
            no_color=None if self.color else True,
            highlight=False,
            emoji=False,
            markup=False,
            soft_wrap=False,
        )

    def print(self, renderable: RenderableType) -> None:
        """Text on standard output, without the blanks rich fills lines up with."""
        console = self.console()
        with console.capture() as captured:
            console.print(renderable)
        lines = captured.get().splitlines()
        click.echo("\n".join(line.rstrip() for line in lines), color=console.is_terminal)

    def print_json(self, document: object) -> None:
        """The one document of the command."""
        click.echo(json_output.dumps(document))


def _set_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Session).json = True


json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_set_json,
    help="Print one JSON document instead of text.",
)

pass_session = click.make_pass_decorator(Session)


def session_command(command: F) -> F:
    """Gives a command the session as its first argument, and `--json`."""
    return cast(F, json_option(pass_session(command)))
