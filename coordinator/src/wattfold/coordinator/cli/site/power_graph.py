"""Graph of the recent power in characters: measured, committed, budget.

One column is one time step, the right column is now. Measured power is solid, committed power above
it is shaded, the budget is a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from wattfold.v1 import coordinator_pb2 as pb

EIGHTHS = "▁▂▃▄▅▆▇█"
SHADE = "░"
_LINE = "▔"
LABEL_CELLS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSample:
    """Power at one time."""

    time_s: float
    budget_uw: int
    committed_uw: int
    measured_uw: int


class PowerHistory:
    """Samples of the last `span_s` seconds."""

    def __init__(self, span_s: float = 600.0) -> None:
        self._span_s = span_s
        self._samples: deque[PowerSample] = deque()

    def add(self, time_s: float, power: pb.Power) -> None:
        """Append a sample; a sample that is not after the last is ignored."""
        if self._samples and time_s <= self._samples[-1].time_s:
            return
        self._samples.append(
            PowerSample(
                time_s=time_s,
                budget_uw=power.budget_uw,
                committed_uw=power.committed_uw,
                measured_uw=power.measured_uw,
            )
        )
        while self._samples[0].time_s < time_s - self._span_s:
            self._samples.popleft()

    def columns(self, count: int, step_s: float) -> list[PowerSample | None]:
        """Return the newest sample of every step up to the last; None before the first sample.

        A snapshot is sent only after a change, so an empty step has the previous value.
        """
        if not self._samples:
            return [None] * count
        end_s = self._samples[-1].time_s
        found: list[PowerSample | None] = []
        older = list(self._samples)
        for index in range(count):
            while older and older[-1].time_s > end_s - index * step_s:
                older.pop()
            found.append(older[-1] if older else None)
        return found[::-1]


def power_graph(history: PowerHistory, width: int, height: int, step_s: float = 1.0) -> list[Text]:
    """Return `height` lines of `width` characters; the scale ends at the highest power shown."""
    columns = history.columns(max(1, width - LABEL_CELLS), step_s)
    top_uw = max((_greatest(sample) for sample in columns if sample), default=0) or 1
    return [_row(columns, row, height, top_uw) for row in range(height)]


def _greatest(sample: PowerSample) -> int:
    return max(sample.budget_uw, sample.committed_uw, sample.measured_uw)


def _row(columns: Sequence[PowerSample | None], row: int, height: int, top_uw: int) -> Text:
    line = scale_label(row, height, top_uw)
    for sample in columns:
        line.append_text(_cell(sample, height - 1 - row, height, top_uw))
    return line


def scale_label(row: int, height: int, top_uw: int) -> Text:
    """Return the start of a line: the highest power in the first, and zero in the last."""
    if row == 0:
        label = f"{top_uw / 1e6:6.0f} W "
    else:
        label = f"{0:6d} W " if row == height - 1 else " " * LABEL_CELLS
    return Text(label[-LABEL_CELLS:].rjust(LABEL_CELLS), style="dim")


def _cell(sample: PowerSample | None, level: int, height: int, top_uw: int) -> Text:
    """Return one character; `level` counts rows from the bottom."""
    if sample is None:
        return Text(" ")
    over = sample.committed_uw > sample.budget_uw > 0
    eighths = round(sample.measured_uw / top_uw * height * 8) - level * 8
    if eighths > 0:
        return Text(EIGHTHS[min(eighths, 8) - 1], style="red" if over else "green")
    budget_row = -(-sample.budget_uw * height // top_uw) - 1
    if level == budget_row:
        return Text(_LINE, style="yellow")
    if sample.committed_uw / top_uw * height > level + 0.25:
        return Text(SHADE, style="red" if over else "cyan")
    return Text(" ")
