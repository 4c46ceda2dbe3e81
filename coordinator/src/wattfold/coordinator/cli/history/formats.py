"""Output of lists of ended jobs and reports: as a table, as CSV or as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.shared.session import Session

F = TypeVar("F", bound=Callable[..., Any])
TABLE, CSV, JSON = "table", "csv", "json"

format_option = click.option(
    "--format",
    "form",
    type=click.Choice((TABLE, CSV, JSON)),
    default=TABLE,
    show_default=True,
    help="Form of the output. CSV has one line of column names; JSON is the document of --json.",
)


def chosen_format(session: Session, form: str) -> str:
    """Return the format of the output. Raises UsageError if --json asks for another one."""
    if session.json and form == CSV:
        raise click.UsageError("--json and --format csv exclude each other")
    return JSON if session.json else form


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows below the names of their columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(row[name]) for name in columns})
    click.echo(out.getvalue(), nl=False)


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return shown_text(value) if isinstance(value, str) else value
