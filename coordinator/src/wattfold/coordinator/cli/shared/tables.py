"""Tables of all listings: no lines, one row per entry, cells that are cut instead of wrapped.

Importing rich takes longer than a coordinator needs to answer. This module therefore lays out
tables whose cells all fit. Rich lays out tables that must be cut or wrapped, and parts of screens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

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
"""Codes that the output takes: none, or bold and dim, or these and colours."""


class Styled(NamedTuple):
    """A text with a style of rich, such as `red` or `bold green`."""

    text: str
    style: str = ""

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.text, style=self.style)


Cell: TypeAlias = "str | Styled | Text"


class Column(NamedTuple):
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


class PlainTable:
    """Entries of one line each, below the titles of the columns."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._rows: list[tuple[Cell, ...]] = []

    @property
    def row_count(self) -> int:
        """Number of entries."""
        return len(self._rows)

    def add_row(self, *cells: Cell) -> None:
        """Adds an entry."""
        self._rows.append(cells)

    def lines(self, width: int, ansi: Ansi) -> list[str] | None:
        """The table as text, or None if this needs rich: cells that do not fit or are no ASCII."""
        head = tuple(Styled(column.title, "bold") for column in self._columns)
        right_aligned = [column.justify == "right" for column in self._columns]
        return _aligned([head, *self._rows], right_aligned, 1, width, ansi)

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        for column in self._columns:
            table.add_column(
                Text(column.title, no_wrap=True, overflow="ellipsis"),
                justify=column.justify,
                # rich shrinks the columns that may wrap first; the cells themselves never do.
                no_wrap=not column.flexible,
                overflow="ellipsis",
            )
        for row in self._rows:
            texts = [_text(cell) for cell in row]
            for text in texts:
                text.no_wrap = True
                text.overflow = "ellipsis"
            table.add_row(*texts)
        return table


class FieldTable:
    """Names and values of one thing; long values wrap under themselves."""

    def __init__(self, fields: list[tuple[str, Cell]]) -> None:
        self._fields = fields

    def lines(self, width: int, ansi: Ansi) -> list[str] | None:
        """The table as text, or None if this needs rich: values that do not fit or are no ASCII."""
        rows: list[tuple[Cell, ...]] = [
            (Styled(name, "bold"), value) for name, value in self._fields
        ]
        return _aligned(rows, [False, False], 2, width, ansi)

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in self._fields:
            table.add_row(name, value)
        return table


def plain_table(*columns: Column) -> PlainTable:
    """An empty table of these columns; fill it by `add_row`."""
    return PlainTable(columns)


def add_row(table: PlainTable, *cells: Cell) -> None:
    """Adds an entry of one line."""
    table.add_row(*cells)


def field_table(fields: list[tuple[str, Cell]]) -> FieldTable:
    """Names and values of one thing; long values wrap under themselves."""
    return FieldTable(fields)


def _text(cell: Cell) -> Text:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(cell)
    return cell.__rich__() if isinstance(cell, Styled) else cell


def _aligned(
    rows: list[tuple[Cell, ...]], right_aligned: list[bool], gap: int, width: int, ansi: Ansi
) -> list[str] | None:
    plain = [[_plain(cell) for cell in row] for row in rows]
    # Wide characters, line ends and texts of several styles are left to rich.
    if any(cell is None for row in plain for cell in row):
        return None
    cells = [[cell for cell in row if cell is not None] for row in plain]
    widths = [
        max((len(row[at].text) for row in cells), default=0) for at in range(len(right_aligned))
    ]
    if sum(widths) + gap * (len(widths) - 1) > width:
        return None
    lines = []
    for row in cells:
        parts = []
        for cell, columns, to_right in zip(row, widths, right_aligned, strict=True):
            text = cell.text.rstrip()
            blanks = " " * (columns - len(text))
            shown = _with_codes(text, cell.style, ansi)
            parts.append(blanks + shown if to_right else shown + blanks)
        lines.append((" " * gap).join(parts).rstrip())
    return lines


def _plain(cell: Cell) -> Styled | None:
    """A cell of printable ASCII text in one style; None for any other."""
    if isinstance(cell, str):
        cell = Styled(cell)
    fits = isinstance(cell, Styled) and cell.text.isascii() and cell.text.isprintable()
    return cell if isinstance(cell, Styled) and fits else None


def _with_codes(text: str, style: str, ansi: Ansi) -> str:
    codes = [_STYLE_CODES[word] for word in style.split()] if ansi != "none" else []
    if ansi == "styles":
        codes = [code for code in codes if int(code) < _COLOR_CODE_MIN]
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes and text else text
