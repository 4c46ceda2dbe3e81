"""`submit --batch`: one job for each line of a file, sent in few calls.

A line has the words that would follow `wattfold submit`. So users can turn a loop of a script into
a file, and there is no second notation for the options of a job. Each job is accepted or refused on
its own, and each refusal names its line.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.jobs.scripts import job_script
from wattfold.coordinator.cli.jobs.scripts.script_command import (
    BATCH_LINE,
    BATCH_OPTIONS,
    STDIN,
    ScriptCommand,
)
from wattfold.coordinator.cli.jobs.submission.submitting import request_of
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

JOBS_PER_CALL = 500
BYTES_PER_CALL = 2_000_000


@dataclass(slots=True)
class Line:
    """A line of a batch, with its request until it was sent, and its result."""

    number: int
    request: pb.SubmitRequest | None = None
    job_id: str = ""
    error: str = ""
    warning: str = ""


def submit_batch(session: Session, command: ScriptCommand, path: Path) -> None:
    """Submit the jobs of a file, and end the command. The exit code tells whether all succeeded."""
    context = click.get_current_context()
    prefix: list[str] = context.meta[BATCH_OPTIONS]
    text = _text(path)
    lines: list[Line] = []
    with session.connect() as client:
        for part in _parts(_parsed(LineParser(client, command, prefix), text)):
            _send(client, [line for line in part if line.request is not None])
            for line in part:
                _tell(session, path, line)
            lines += part
    if session.json:
        jobs = [
            {"line": one.number, "job_id": one.job_id or None, "error": one.error or None}
            for one in lines
        ]
        session.print_json({"jobs": jobs})
    for warning in dict.fromkeys(line.warning for line in lines if line.warning):
        click.echo(f"wattfold: {warning}", err=True)
    refused = sum(bool(line.error) for line in lines)
    if refused:
        click.echo(f"wattfold: {refused} of {len(lines)} jobs were refused", err=True)
    context.exit(ExitCode.REFUSED if refused else ExitCode.OK)


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read {path}: {error}") from error


class LineParser:
    """Parses lines without building a parser and the default values for each of them.

    This takes a fifth of the time of click for a whole command line.
    """

    def __init__(
        self, client: CoordinatorClient, command: ScriptCommand, prefix: list[str]
    ) -> None:
        self._client = client
        self._command = command
        self._prefix = prefix
        self._plain = command.make_context("submit", [*prefix, "--", "true"], obj=BATCH_LINE)
        self._parser = command.make_parser(self._plain)
        self._params = {param.name: param for param in command.get_params(self._plain)}

    def request(self, words: list[str]) -> pb.SubmitRequest:
        """Return the request of a line. Raises UsageError, BadRequestError and ValueError."""
        context, options = self._options([*self._prefix, *words])
        if options.pop("wait") or options.pop("batch"):
            raise click.UsageError("--wait and --batch are not for lines of a batch")
        return request_of(context, self._client, **options)

    def _options(self, words: list[str]) -> tuple[click.Context, dict[str, Any]]:
        given, _, _ = self._parser.parse_args(list(words))
        argv, cwd = given.get("argv"), given.get("cwd")
        argv = argv if isinstance(argv, tuple) else ()
        plain = argv[:1] not in ((), (STDIN,)) and "help" not in given
        if not plain or job_script.script_of(
            list(argv), Path(cwd if isinstance(cwd, str) else ".")
        ):
            # Without a parent: contexts share what scripts store with their parents.
            context = self._command.make_context("submit", words, obj=BATCH_LINE)
            return context, dict(context.params)
        options = dict(self._plain.params)
        for name in given:
            param = self._params[name]
            value, _ = param.consume_value(self._plain, given)
            if param.expose_value:
                options[name] = param.process_value(self._plain, value)
        return self._plain, options


def _parsed(parser: LineParser, text: str) -> Iterator[Line]:
    """Yield the lines with jobs. Empty lines and comments are none."""
    for number, words in enumerate(text.splitlines(), start=1):
        line = Line(number)
        try:
            if given := shlex.split(words, comments=True):
                line.request = parser.request(given)
                yield line
        except click.UsageError as error:
            line.error = error.format_message()
            yield line
        except (BadRequestError, ValueError) as error:
            line.error = str(error)
            yield line


def _parts(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Split lines into the parts for one call each."""
    part: list[Line] = []
    size = 0
    for line in lines:
        part.append(line)
        size += _own_bytes(line)
        if len(part) >= JOBS_PER_CALL or size >= BYTES_PER_CALL:
            yield part
            part, size = [], 0
    if part:
        yield part


def _own_bytes(line: Line) -> int:
    if line.request is None:
        return 0
    return sum(len(word) for word in line.request.spec.argv) + 500


def _send(client: CoordinatorClient, lines: Sequence[Line]) -> None:
    requests = [line.request for line in lines if line.request is not None]
    if not requests:
        return
    common = set(requests[0].spec.env.items())
    for request in requests[1:]:
        common &= set(request.spec.env.items())
    for request in requests:
        for name, _ in common:
            del request.spec.env[name]
    message = pb.SubmitManyRequest(jobs=requests, env=dict(common))
    for line, result in zip(lines, client.submit_many(message), strict=True):
        line.job_id, line.error, line.warning = result.job_id, result.error, result.warning
        line.request = None


def _tell(session: Session, path: Path, line: Line) -> None:
    if line.error:
        click.echo(f"wattfold: {path}:{line.number}: {line.error}", err=True)
    elif not session.json:
        click.echo(line.job_id)
