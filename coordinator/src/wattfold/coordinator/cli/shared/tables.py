"""The table style of all listings: no lines, one row an entry, cut rather than wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. A flexible one is cut first when the terminal is narrow."""

    title: str
    justify: Literal["left", "right"] = "left"
    flexible: bool = False


def left(title: str) -> Column:
    """A column of words."""
    return Column(title=title)


def right(title: str) -> Column:
    """A column of numbers."""
    return Column(title=title, justify="right")


def flexible(title: str) -> Column:
    """A column of words that may be cut."""
    return Column(title=title, flexible=True)


def plain_table(*columns: Column) -> Table:
    """An empty table of these columns; fill it by `add_row`."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(
            Text(column.title, no_wrap=True, overflow="ellipsis"),
            justify=column.justify,
            # rich shrinks the columns that may wrap first; the cells themselves never do.
            no_wrap=not column.flexible,
            overflow="ellipsis",
        )
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Adds an entry of one line."""
    texts = [Text(cell) if isinstance(cell, str) else cell for cell in cells]
    for text in texts:
        text.no_wrap = True
        text.overflow = "ellipsis"
    table.add_row(*texts)


def field_table(fields: list[tuple[str, str | Text]]) -> Table:
    """Names and values of one thing; long values wrap under themselves."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields:
        table.add_row(name, value)
    return table
