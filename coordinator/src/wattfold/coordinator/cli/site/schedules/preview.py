"""Preview of a schedule: a table of its changes, and a graph of the budgets to come in characters.

A column of the graph is a span of time with its lowest budget. The minimum of the nodes is shaded,
and a budget below it is red.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from wattfold.contract.local_time import moment
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.site.power_graph import EIGHTHS, LABEL_CELLS, SHADE, scale_label
from wattfold.v1 import coordinator_pb2 as pb

ROWS_MAX = 50
"""Maximum number of changes in the table, refused ones first. `--json` has all of them."""
GRAPH_LINES = 8


class BudgetLevel(NamedTuple):
    """A budget from a time on."""

    at_s: float
    budget_uw: int


class PreviewRow(NamedTuple):
    """A line of the table: what happens to one budget."""

    word: str
    one: pb.AnnouncedBudget


def rows(answer: pb.ScheduleBudgetsResponse) -> list[PreviewRow]:
    """Return what happens to each budget, in order of time."""
    words = {
        "announce": answer.announced,
        "keep": answer.kept,
        "cancel": answer.cancelled,
        "REFUSE": answer.refused,
    }
    found = [PreviewRow(word, one) for word, budgets in words.items() for one in budgets]
    return sorted(found, key=lambda row: row.one.at_s)


def preview_table(shown: Sequence[PreviewRow]) -> PlainTable:
    """Return the table of these rows."""
    table = plain_table(
        left("FROM"), right("BUDGET"), left("CHANGE"), left("CAPS FALL"), flexible("OBSTACLE")
    )
    for word, one in shown:
        number = f" {one.number}" if one.number else ""
        add_row(
            table,
            moment(one.at_s),
            f.power(one.budget_uw),
            f"{word}{number}",
            f.clock(one.from_s) if 0 < one.from_s < one.at_s else f.NONE,
            one.obstacle or f.NONE,
        )
    return table


def chosen(found: Sequence[PreviewRow]) -> list[PreviewRow]:
    """Return the rows of the table if there are too many: refused ones first, then the next."""
    first = sorted(found, key=lambda row: row.word != "REFUSE")[:ROWS_MAX]
    return sorted(first, key=lambda row: row.one.at_s)


def levels(
    power: pb.Power, answer: pb.ScheduleBudgetsResponse, name: str, now_s: float
) -> list[BudgetLevel]:
    """Return the budgets from now on as they would be, with those of other announcements."""
    others = [one for one in power.announced if one.schedule != name]
    coming = [*others, *answer.announced, *answer.kept, *answer.refused]
    later = [BudgetLevel(one.at_s, one.budget_uw) for one in coming if one.at_s > now_s]
    return [BudgetLevel(now_s, power.budget_uw), *sorted(later)]


def budget_graph(found: Sequence[BudgetLevel], minimum_uw: int, width: int) -> Iterator[Text]:
    """Yield the lines of the graph, at most ``width`` characters wide."""
    count = max(width - LABEL_CELLS, 20)
    start_s, last_s = found[0].at_s, found[-1].at_s
    # The last budget has no end: it gets a twentieth of the width.
    step_s = max((last_s - start_s) * 1.05, 60.0) / count
    columns = _columns(found, start_s, step_s, count)
    top_uw = max(*columns, minimum_uw, 1)
    for row in range(GRAPH_LINES):
        line = scale_label(row, GRAPH_LINES, top_uw)
        for budget_uw in columns:
            line.append_text(_cell(budget_uw, GRAPH_LINES - 1 - row, top_uw, minimum_uw))
        yield line
    begin, end = (moment(at_s, "minutes") for at_s in (start_s, start_s + step_s * count))
    axis = begin + end.rjust(count - len(begin)) if len(begin + end) < count else begin
    yield Text(" " * LABEL_CELLS + axis, style="dim")


def _columns(found: Sequence[BudgetLevel], start_s: float, step_s: float, count: int) -> list[int]:
    """Return the lowest budget within each column."""
    columns: list[int] = []
    number, budget_uw = 0, found[0].budget_uw
    for column in range(count):
        lowest_uw, end_s = budget_uw, start_s + (column + 1) * step_s
        while number < len(found) and found[number].at_s < end_s:
            budget_uw = found[number].budget_uw
            lowest_uw = min(lowest_uw, budget_uw)
            number += 1
        columns.append(lowest_uw)
    return columns


def _cell(budget_uw: int, level: int, top_uw: int, minimum_uw: int) -> Text:
    """Return one character; ``level`` counts lines from the bottom."""
    eighths = round(budget_uw / top_uw * GRAPH_LINES * 8) - level * 8
    if eighths <= 0:
        return Text(" ")
    if budget_uw < minimum_uw:
        return Text(EIGHTHS[min(eighths, 8) - 1], style="red")
    if eighths >= 8 and minimum_uw / top_uw * GRAPH_LINES > level + 0.5:
        return Text(SHADE, style="yellow")
    return Text(EIGHTHS[min(eighths, 8) - 1], style="green")
