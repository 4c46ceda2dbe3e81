"""`wattfold-coordinator journal`: show events, skip an event, export events to a file."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from wattfold.coordinator.adapters.journal import replaying
from wattfold.coordinator.adapters.journal.file import JournalError
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.reading import (
    JournalReader,
    StoredEvent,
    as_object,
    export,
)
from wattfold.coordinator.cli.site.maintenance import fail, journal_path, where
from wattfold.coordinator.core.state.state import CoreSettings

SHOWN = 20
_BODY_WIDTH = 100


@click.group("journal")
def journal() -> None:
    """Show, export or skip events of the journal."""


@journal.command("show")
@where
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=SHOWN,
    metavar="N",
    help=f"Number of events to show, the newest. Default: {SHOWN}.",
)
@click.option("--kind", default="", help="Only events of this kind, such as BudgetChanged.")
@click.option("--skipped", is_flag=True, help="Only events that are not replayed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event.")
@click.pass_context
def show(
    context: click.Context,
    config: Path | None,
    state_dir: str | None,
    number: int | None,
    last: int,
    kind: str,
    skipped: bool,
    as_json: bool,
) -> None:
    """Show the newest events, or event NUMBER in full. The coordinator may keep running."""
    path = journal_path(context, config, state_dir)
    try:
        with JournalReader(path) as reader:
            if number is None:
                rows = list(reader.rows(kind=kind, aside_only=skipped, newest=last))
            else:
                rows = [next(reader.rows(number), None)]  # type: ignore[list-item]
                if rows[0] is None or rows[0].number != number:
                    seen = reader.overview()
                    fail(
                        f"journal {path} has no event {number}; it has events {seen.first} to "
                        f"{seen.last}"
                    )
    except JournalError as error:
        fail(error)
    for row in rows:
        click.echo(json.dumps(as_object(row)) if as_json else _text(row, full=number is not None))


@journal.command("skip")
@where
@click.argument("number", type=click.IntRange(min=1))
@click.option("--reason", required=True, help="Why, for those who look at the journal later.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_context
def skip(
    context: click.Context,
    config: Path | None,
    state_dir: str | None,
    number: int,
    reason: str,
    as_json: bool,
) -> None:
    """Leave event NUMBER out when a stopped coordinator starts again.

    The event remains in the journal, but has no effect: a job, a budget or a report is forgotten. A
    coordinator skips an event by itself if it cannot handle the event.
    """
    path = journal_path(context, config, state_dir)
    if not path.exists():
        fail(f"no journal at {path}; name its directory with --state-dir")
    try:
        opened = Journal(path)
        try:
            row = _skipped(opened, path, number, reason)
        finally:
            opened.close()
    except JournalError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps(as_object(row)))
    else:
        click.echo(f"the next start skips event {number}, {row.kind}: {reason}")


def _skipped(opened: Journal, path: Path, number: int, reason: str) -> StoredEvent:
    with JournalReader(path) as reader:
        seen = reader.overview()
        row = next(reader.rows(number), None)
    if row is None or row.number != number:
        raise JournalError(
            f"journal {path} has no event {number}; it has events {seen.first} to {seen.last}"
        )
    if number <= seen.checkpoint:
        raise JournalError(
            f"event {number} is part of the state that was stored after event {seen.checkpoint}, "
            "so it cannot be skipped; restore a backup from before it"
        )
    if fault := replaying.without(opened, CoreSettings(), number):
        raise JournalError(
            f"without event {number}, event {fault.entry.number} cannot be handled "
            f"({fault.reason}); nothing was changed"
        )
    opened.set_aside(number, reason)
    with JournalReader(path) as reader:
        return next(reader.rows(number))


@journal.command("export")
@where
@click.option(
    "--from", "first", type=click.IntRange(min=1), default=1, metavar="N", help="First event."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def export_command(
    context: click.Context,
    config: Path | None,
    state_dir: str | None,
    first: int,
    force: bool,
    target: Path,
) -> None:
    """Write the events to FILE, one JSON object per line; `-` is the standard output.

    The first line describes the journal. Environments of jobs are not included, but commands and
    account names are. The coordinator may keep running.
    """
    path = journal_path(context, config, state_dir)
    try:
        lines = map(json.dumps, export(path, first))
        if str(target) == "-":
            for line in lines:
                click.echo(line)
            return
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
        with open(os.open(target, flags, 0o600), "w", encoding="utf-8") as out:
            count = sum(1 for line in lines if out.write(f"{line}\n"))
    except JournalError as error:
        fail(error)
    except FileExistsError:
        fail(f"{target} exists; choose another name, or give --force")
    except OSError as error:
        fail(f"{target}: {error.strerror}")
    click.echo(f"{target}: {count - 1} events", file=sys.stdout)


def _text(row: StoredEvent, *, full: bool) -> str:
    moment = datetime.fromtimestamp(row.time_s).astimezone().isoformat(timespec="seconds")
    head = f"{row.number} {moment} {row.kind}"
    if row.set_aside:
        head += f" (skipped: {row.set_aside})"
    if full:
        return f"{head}\n{json.dumps(row.body, indent=2)}"
    body = _short(row.body)
    return f"{head} {body}"


def _short(body: dict[str, Any]) -> str:
    text = json.dumps(body)
    return text if len(text) <= _BODY_WIDTH else f"{text[: _BODY_WIDTH - 3]}..."
