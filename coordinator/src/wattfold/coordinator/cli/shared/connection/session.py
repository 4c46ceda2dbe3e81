"""Session of one invocation, with its global options, passed to every command.

The module also has the decorators of every command: the session, and `--json` after the command as
well as before it.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from wattfold.coordinator.cli.shared.connection.address import checked_address
from wattfold.coordinator.cli.shared.errors import BadRequestError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

F = TypeVar("F", bound=Callable[..., Any])

UNLIMITED_WIDTH = 10_000
"""Columns if standard output is not a terminal: output for programs is never cut."""
_OF_RICH = {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
"""Variables that affect the layout of rich."""


class Session:
    """An invocation of the command. The option `--json` after a command may still set `json`."""

    def __init__(
        self, *, address: str, token_file: str | os.PathLike[str] | None, json: bool, color: bool
    ) -> None:
        self.address = address
        self.json = json
        self.color = color
        self._token_file = token_file

    def connect(self) -> CoordinatorClient:
        """Return a client with the token of the session, if it has one.

        Raises BadRequestError if the runtime directory is too long for the default socket.
        """
        # gRPC loads slowly, and commands without a coordinator do not need it.
        from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient, read_token

        try:
            checked_address(self.address)
        except ValueError as error:
            text = f"{self.address}: {error}, or set WATTFOLD_COORDINATOR"
            raise BadRequestError(text) from None
        token = None
        if self._token_file:
            from pathlib import Path

            token = read_token(Path(self._token_file))
        return CoordinatorClient(self.address, token)

    def global_options(self) -> tuple[str, ...]:
        """Return the options that reach the same coordinator, for another process."""
        token = ("--token-file", os.fspath(self._token_file)) if self._token_file else ()
        return ("--coordinator", self.address, *token)

    def console(self, stderr: bool = False) -> Console:
        """Return a console on the current standard output or error."""
        # Rich loads slowly, and most listings do not need it.
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
        """Print text on standard output, without the padding blanks of rich."""
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
        """Return the lines of a table; None if rich must print it."""
        from wattfold.coordinator.cli.shared.texts.tables import FieldTable, PlainTable

        if not isinstance(renderable, PlainTable | FieldTable) or _OF_RICH.intersection(os.environ):
            return None
        given = os.environ.get("COLUMNS", "")
        if not sys.stdout.isatty():
            return renderable.lines(int(given) if given.isdigit() else UNLIMITED_WIDTH, "none")
        if os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
            return None
        try:
            width = int(given or os.get_terminal_size(sys.stdout.fileno()).columns)
        except (OSError, ValueError):
            return None
        colors = self.color and not os.environ.get("NO_COLOR")
        return renderable.lines(width, "colors" if colors else "styles")

    def print_json(self, document: object) -> None:
        """Print the single document of the command."""
        from wattfold.coordinator.cli.shared.texts import json_output

        utf8 = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
        click.echo(json_output.dumps(document, ascii_only=not utf8))


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
    """Pass the session to a command as its first argument, and add `--json`."""
    return cast(F, json_option(pass_session(command)))
