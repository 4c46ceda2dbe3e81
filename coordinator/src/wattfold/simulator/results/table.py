"""Table of runs for people, and plain data with stable names for programs.

Rows are metrics and columns policies. If there are too many policies for the width, the table is
transposed and split into blocks below each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from wattfold.simulator.results.measures import MEASURES, Measure
from wattfold.simulator.results.metrics import Metrics
from wattfold.simulator.results.scales import Scale, scale_for

Document = dict[str, int | float | str | None]

WIDTH = 80
_MOST_COLUMNS = 3
_TIMINGS = frozenset(measure.key for measure in MEASURES if measure.timing)
_RARE = frozenset(measure.key for measure in MEASURES if measure.rare)
_NAME_LEAST = 8
_GAP = 2


def metrics_table(
    runs: Sequence[Metrics],
    title: str = "",
    *,
    names: Sequence[str] = (),
    timings: bool = True,
    width: int = WIDTH,
) -> Table | Group:
    """Return a table of runs; the best value of each row is green, time over the budget red.

    ``names`` replace the policies as heads of the runs. Without ``timings`` the table is the same
    on every computer. Metrics without a value are left out. Raises ValueError without a run.
    """
    if not runs:
        raise ValueError("a comparison needs at least one run")
    heads = list(names) or [run.policy for run in runs]
    if len(heads) != len(runs):
        raise ValueError(f"{len(runs)} runs need as many names, got {len(heads)}")
    rows = [
        _Row(measure, runs)
        for measure in MEASURES
        if (timings or not measure.timing) and _is_told(measure, runs)
    ]
    if len(runs) <= _MOST_COLUMNS:
        return _upright(rows, heads, title, width)
    return _transposed(rows, heads, title, width)


def metrics_document(run: Metrics, *, timings: bool = True) -> Document:
    """Return a run under stable names with units; missing values are None.

    PARM's completion times appear next to the equal response times. Without ``timings`` two runs of
    the same seed give the same document on any computer.
    """
    document: Document = {}
    for key, value in asdict(run).items():
        if (timings or key not in _TIMINGS) and (value or key not in _RARE):
            document[key] = None if isinstance(value, float) and not math.isfinite(value) else value
    for name in ("mean", "median", "max"):
        document[f"completion_s_{name}"] = document[f"response_s_{name}"]
    return document


def _is_told(measure: Measure, runs: Sequence[Metrics]) -> bool:
    values = [measure.of(run) for run in runs]
    return any(not math.isnan(value) for value in values) and (not measure.rare or any(values))


class _Row:
    """A metric of all runs, in one unit."""

    def __init__(self, measure: Measure, runs: Sequence[Metrics]) -> None:
        self.measure = measure
        self.values = [measure.of(run) for run in runs]
        self.scale: Scale = scale_for(measure.quantity, self.values)

    @property
    def title(self) -> str:
        return self.scale.label(self.measure.title)

    def cells(self) -> list[Text]:
        return [
            Text(self.scale.text(value), style=self._style(value), no_wrap=True)
            for value in self.values
        ]

    def width(self) -> int:
        """Return its width as a column, in characters."""
        return max(*map(len, _two_lines(self.title)), *(len(cell.plain) for cell in self.cells()))

    def _style(self, value: float) -> str:
        if self.measure.key == "over_budget_s" and value > 0:
            return "bold red"
        known = [other for other in self.values if not math.isnan(other)]
        # A single run, or a value equal to all others, does not count as best.
        if not self.measure.better or len(set(known)) < 2:
            return ""
        best = min(known) if self.measure.better < 0 else max(known)
        return "green" if value == best else ""


def _upright(rows: Sequence[_Row], heads: Sequence[str], title: str, width: int) -> Table:
    table = _empty(title)
    table.add_column("", no_wrap=True)
    cells = [row.cells() for row in rows]
    room = width - max(len(row.title) for row in rows)
    for place, head in enumerate(heads):
        widest = max(len(row[place].plain) for row in cells)
        most = max(widest, room // len(heads) - _GAP)
        table.add_column(Text(_cut(head, most), no_wrap=True), justify="right", no_wrap=True)
    for row, texts in zip(rows, cells, strict=True):
        table.add_row(row.title, *texts)
    return table


def _transposed(rows: Sequence[_Row], heads: Sequence[str], title: str, width: int) -> Group:
    name_width = min(max(_NAME_LEAST, *(len(head) for head in heads)), width // 3)
    names = [_cut(head, name_width) for head in heads]
    blocks: list[list[_Row]] = []
    room = 0
    for row in rows:
        needs = row.width() + _GAP
        if needs > room:
            blocks.append([])
            room = width - name_width
        blocks[-1].append(row)
        room -= needs
    parted: list[Table | Text] = []
    for place, block in enumerate(blocks):
        parted += [Text()] if place else []
        parted.append(_block(block, names, "" if place else title))
    return Group(*parted)


def _block(rows: Sequence[_Row], names: Sequence[str], title: str) -> Table:
    table = _empty(title)
    table.add_column("\npolicy", no_wrap=True)
    for row in rows:
        table.add_column("\n".join(_two_lines(row.title)), justify="right", no_wrap=True)
    for name, *cells in zip(names, *(row.cells() for row in rows), strict=True):
        table.add_row(name, *cells)
    return table


def _empty(title: str) -> Table:
    return Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, _GAP, 0, 0),
    )


def _two_lines(title: str) -> list[str]:
    """Split the words of a title into two lines of about the same length."""
    words = title.split()
    splits = [
        (" ".join(words[:place]), " ".join(words[place:])) for place in range(1, len(words) + 1)
    ]
    return list(min(splits, key=lambda lines: max(map(len, lines))))


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: max(1, most - 1)] + "…"
