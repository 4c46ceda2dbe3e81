"""The session: the global options of one invocation, passed to every command.

Also the decorators every command wears: the session, and `--json` behind the command as well as
before it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from wattfold.coordinator.cli.shared.client import CoordinatorClient

F = TypeVar("F", bound=Callable[..., Any])

UNLIMITED_WIDTH = 10_000
"""Columns when standard output is no terminal: what is read by a program is never cut."""
_OF_RICH = {"COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
"""Variables that rich lays out by."""


class Session:
    """One invocation of the command. `json` may still be set by the option behind a command."""

    def __init__(
        self, *, address: str, token_file: str | os.PathLike[str] | None, json: bool, color: bool
    ) -> None:
        self.address = address
        self.json = json
        self.color = color
        self._token_file = token_file

    def connect(self) -> CoordinatorClient:
        """A client with the token of the session, if it has one."""
        # gRPC takes its time to load, and commands without a coordinator do without.
        from wattfold.coordinator.cli.shared.client import CoordinatorClient, read_token

        token = None
        if self._token_file:
            from pathlib import Path

            token = read_token(Path(self._token_file))
        return CoordinatorClient(self.address, token)

    def console(self, stderr: bool = False) -> Console:
        """A console on the standard output or error of this moment."""
        # Rich takes its time to load, and most listings do without.
        from wattfold.coordinator.cli.shared.console import OutputConsole

        stream = sys.stderr if stderr else sys.stdout
        fixed = stream.isatty() or "COLUMNS" in os.environ
        return OutputConsole(
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
        lines = self._plain_lines(renderable)
        if lines is not None:
            click.echo("\n".join(lines), color=sys.stdout.isatty())
            return
        console = self.console()
        with console.capture() as captured:
            console.print(renderable)
        lines = captured.get().splitlines()
        click.echo("\n".join(line.rstrip() for line in lines), color=console.is_terminal)

    def _plain_lines(self, renderable: RenderableType) -> list[str] | None:
        """A table that fits, as rich would lay it out; None: it is for rich."""
        from wattfold.coordinator.cli.shared.tables import FieldTable, PlainTable

        if not isinstance(renderable, PlainTable | FieldTable) or _OF_RICH.intersection(os.environ):
            return None
        if not sys.stdout.isatty():
            return renderable.lines(UNLIMITED_WIDTH, "none")
        if os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
            return None
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            return None
        colors = self.color and not os.environ.get("NO_COLOR")
        return renderable.lines(width, "colors" if colors else "styles")

    def print_json(self, document: object) -> None:
        """The one document of the command."""
        from wattfold.coordinator.cli.shared import json_output

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
