"""Output of lists for scripts: chosen columns, or CSV. JSON has its own module.

Chosen columns are separated by tabs if standard output is not a terminal, one line per entry. No
value is empty or contains a tab or the end of a line: ``-`` stands for a missing value. So `awk`
finds each column by its number. Values may contain blanks, and then it needs ``-F'\\t'``. On a
terminal, the columns are aligned with blanks.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from wattfold.contract.local_time import local
from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.shared.connection.session import Session
from wattfold.coordinator.cli.shared.texts.columns import Fields, Value
from wattfold.coordinator.cli.shared.texts.tables import Column, PlainTable, add_row, plain_table
from wattfold.coordinator.cli.shared.texts.word_lists import completed_in_list

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
TABLE, CSV, JSON = "table", "csv", "json"
FORMS = (TABLE, CSV, JSON)
NO_VALUE = "-"

Form = str | tuple[str, ...]
"""A form of output, or the names of columns."""


class FormType(click.ParamType[Form]):
    """`table`, `csv`, `json`, or names of columns with commas between them."""

    name = "format"

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Form:
        if value in FORMS or isinstance(value, tuple):
            return cast(Form, value)
        names = tuple(part.strip().lower() for part in value.split(","))
        for name in names:
            if name not in self.columns:
                forms = f"{', '.join(FORMS)}, or columns separated by commas: "
                self.fail(f"no column {name!r}; give {forms}{', '.join(self.columns)}", param, ctx)
        return names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        forms = FORMS if "," not in incomplete else ()
        return completed_in_list((*forms, *self.columns), incomplete)


def columns_option(columns: Sequence[str]) -> Callable[[F], F]:
    """Return the option for the form of a list with these columns."""
    return click.option(
        "--format",
        "-o",
        "form",
        type=FormType(columns),
        default=TABLE,
        show_default=True,
        metavar="FORM|COLUMN[,COLUMN]...",
        help="Form of the output: table, csv, json, or the columns to print, separated by tabs. "
        f"Columns: {', '.join(columns)}.",
    )


header_option = click.option(
    "--no-header", is_flag=True, help="Print neither the counts nor the names of the columns."
)

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=TABLE,
    show_default=True,
    help="Form of the output. CSV has one line of column names; JSON is the document of --json.",
)


def chosen_format(session: Session, form: Form) -> Form:
    """Return the format of the output. Raises UsageError if --json asks for another one."""
    if session.json and form not in (TABLE, JSON):
        shown = form if isinstance(form, str) else ",".join(form)
        raise click.UsageError(f"--json and --format {shown} exclude each other")
    return JSON if session.json else form


def print_columns(
    session: Session,
    fields: Fields[T],
    names: Sequence[str],
    items: Iterable[T],
    *,
    header: bool = True,
) -> None:
    """Print the values of these columns, one line per entry."""
    titles = [fields[name].title(name).upper() for name in names]
    rows = [list(map(plain_text, _values(fields, names, item))) for item in items]
    if sys.stdout.isatty() and (rows or header):
        session.print(_aligned(titles, rows, header))
        return
    lines = ["\t".join(row) for row in ([titles, *rows] if header else rows)]
    click.echo("".join(f"{line}\n" for line in lines), nl=False)


def _values(fields: Fields[T], names: Sequence[str], item: T) -> list[Value]:
    return [fields[name].value(item) for name in names]


def _aligned(titles: Sequence[str], rows: Sequence[Sequence[str]], header: bool) -> PlainTable:
    table = plain_table(*(Column(title=title, flexible=True) for title in titles))
    for row in rows:
        add_row(table, *row)
    return table if header else table.without_titles()


def plain_text(value: Value) -> str:
    """Return a value for a script: without blanks at its ends, tabs and line ends, never empty.

    Times are ISO 8601 with the offset of the local zone. Numbers have at most six decimals.
    """
    match value:
        case None:
            return NO_VALUE
        case str():
            text = "".join(map(_printable, shown_text(value))).strip()
            return text or NO_VALUE
        case float():
            return _number(value)
        case int():
            return str(value)
        case _:
            return local(value.unix_s).isoformat(timespec="seconds")


def _printable(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def print_csv_columns(
    fields: Fields[T], names: Sequence[str], items: Iterable[T], *, header: bool = True
) -> None:
    """Print these columns as CSV. Missing values are empty."""
    titles = [fields[name].title(name) for name in names]
    rows = (
        {
            title: plain_text(value)
            if (value := fields[name].value(item)) not in (None, "")
            else ""
            for name, title in zip(names, titles, strict=True)
        }
        for item in items
    )
    print_csv(titles, rows, header=header)


def print_csv(
    columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, header: bool = True
) -> None:
    """Print rows below the names of their columns."""
    click.echo(csv_text(columns, rows, header=header), nl=False)


def csv_text(
    columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, header: bool = True
) -> str:
    """Return rows as CSV below the names of their columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    if header:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(row[name]) for name in columns})
    return out.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, float):
        return _number(value)
    return shown_text(value) if isinstance(value, str) else value


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
