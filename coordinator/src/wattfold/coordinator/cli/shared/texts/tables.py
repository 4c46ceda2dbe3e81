"""Tables of all listings, without lines, with one row per entry and shortened cells.

A column of descriptions is wrapped instead.

Importing rich takes longer than a coordinator needs to answer, and rich lays out 2,000 rows in more
than a second. This module therefore lays out tables itself. Rich lays out cells of several lines or
styles, long values of single entries, and parts of screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from wattfold.coordinator.cli.shared.texts.text_layout import cell_width, fitted, narrowed

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_STYLE_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}
_COLOR_CODE_MIN = 30


Ansi: TypeAlias = Literal["none", "styles", "colors"]
"""Codes that the output accepts: none, only bold and dim, or also colors."""


class Styled(NamedTuple):
    """A text with a style of rich, such as `red` or `bold green`."""

    text: str
    style: str = ""

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.text, style=self.style)


Cell: TypeAlias = "str | Styled | Text"


class Column(NamedTuple):
    """A column. A flexible column is cut first if the terminal is narrow, or wrapped."""

    title: str
    justify: Literal["left", "right"] = "left"
    flexible: bool = False
    wraps: bool = False
    """Whether long cells of a flexible column take several lines."""


def left(title: str) -> Column:
    """Return a column of words."""
    return Column(title=title)


def right(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title=title, justify="right")


def flexible(title: str) -> Column:
    """Return a column of words that may be cut."""
    return Column(title=title, flexible=True)


def wrapped(title: str) -> Column:
    """Return a column of sentences."""
    return Column(title=title, flexible=True, wraps=True)


class PlainTable:
    """A table with one line per entry, below the titles of the columns."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._rows: list[tuple[Cell, ...]] = []
        self._titled = True

    @property
    def row_count(self) -> int:
        """Number of entries."""
        return len(self._rows)

    def add_row(self, *cells: Cell) -> None:
        """Add an entry."""
        self._rows.append(cells)

    def without_titles(self) -> PlainTable:
        """Show the entries only, and return the table."""
        self._titled = False
        return self

    def lines(self, width: int, ansi: Ansi) -> list[str] | None:
        """Return the table as text, or None if it needs rich: cells of several lines or styles."""
        head = tuple(Styled(column.title, "bold") for column in self._columns)
        rows = [head, *self._rows] if self._titled else self._rows
        return _aligned(rows, self._columns, 1, width, ansi, cuts=True, titled=self._titled)

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None,
            pad_edge=False,
            header_style="bold",
            padding=(0, 1, 0, 0),
            show_header=self._titled,
        )
        for column in self._columns:
            table.add_column(
                Text(column.title, no_wrap=True, overflow="ellipsis"),
                justify=column.justify,
                # rich shrinks the columns that may wrap first; the cells themselves never wrap.
                no_wrap=not column.flexible,
                overflow="ellipsis",
            )
        for row in self._rows:
            texts = [_text(cell) for cell in row]
            for text, column in zip(texts, self._columns, strict=True):
                text.no_wrap = not column.wraps
                text.overflow = "fold" if column.wraps else "ellipsis"
            table.add_row(*texts)
        return table


class FieldTable:
    """A table of names and values of one object; long values wrap."""

    def __init__(self, fields: list[tuple[str, Cell]]) -> None:
        self._fields = fields

    def lines(self, width: int, ansi: Ansi) -> list[str] | None:
        """Return the table as text, or None if it needs rich: values that do not fit."""
        rows = [(Styled(name, "bold"), value) for name, value in self._fields]
        return _aligned(rows, [left(""), left("")], 2, width, ansi, cuts=False)

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in self._fields:
            table.add_row(name, value)
        return table


def plain_table(*columns: Column) -> PlainTable:
    """Return an empty table of these columns; fill it with `add_row`."""
    return PlainTable(columns)


def add_row(table: PlainTable, *cells: Cell) -> None:
    """Add an entry of one line."""
    table.add_row(*cells)


def field_table(fields: list[tuple[str, Cell]]) -> FieldTable:
    """Return a table of names and values of one object; long values wrap."""
    return FieldTable(fields)


def _text(cell: Cell) -> Text:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(cell)
    return cell.__rich__() if isinstance(cell, Styled) else cell


def _aligned(
    rows: Sequence[Sequence[Cell]],
    columns: Sequence[Column],
    gap: int,
    width: int,
    ansi: Ansi,
    *,
    cuts: bool,
    titled: bool = False,
) -> list[str] | None:
    """Lay out rows below each other; None if only rich can, or if ``cuts`` is needed but not set.

    Columns that do not fit are narrowed. Their cells are cut, or continue in the next line, except
    those of the first row if it is ``titled``.
    """
    plain = [[_plain(cell) for cell in row] for row in rows]
    if any(cell is None for row in plain for cell in row):
        return None
    cells = [[cell for cell in row if cell is not None] for row in plain]
    natural = [
        max((cell_width(row[at].text) for row in cells), default=0) for at in range(len(columns))
    ]
    room = width - gap * (len(columns) - 1)
    if sum(natural) > room and not cuts:
        return None
    widths = narrowed(natural, [column.flexible for column in columns], room)
    lines: list[str] = []
    for number, row in enumerate(cells):
        is_title = titled and number == 0
        texts = [
            fitted(cell.text.rstrip(), columns_wide, wraps=column.wraps and not is_title)
            for cell, columns_wide, column in zip(row, widths, columns, strict=True)
        ]
        for at in range(max(map(len, texts))):
            parts = []
            for cell, text, columns_wide, column in zip(row, texts, widths, columns, strict=True):
                line = text[at] if at < len(text) else ""
                blanks = " " * (columns_wide - cell_width(line))
                shown = _with_codes(line, cell.style, ansi)
                parts.append(blanks + shown if column.justify == "right" else shown + blanks)
            lines.append((" " * gap).join(parts).rstrip())
    return lines


def _plain(cell: Cell) -> Styled | None:
    """Return a cell of printable text in one style; None for any other cell."""
    if isinstance(cell, str):
        cell = Styled(cell)
    return cell if isinstance(cell, Styled) and cell.text.isprintable() else None


def _with_codes(text: str, style: str, ansi: Ansi) -> str:
    codes = [_STYLE_CODES[word] for word in style.split()] if ansi != "none" else []
    if ansi == "styles":
        codes = [code for code in codes if int(code) < _COLOR_CODE_MIN]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text
