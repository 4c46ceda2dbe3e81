"""Table of the results of several policies on the same workload, for rich."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from wattfold.coordinator.figures.run_record import PolicyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """A row of the table; of a compared measure, smaller values are better."""

    title: str
    value: Callable[[PolicyResult], float]
    places: int
    compared: bool = False


_MEASURES = (
    _Measure(title="jobs", value=lambda r: r.jobs, places=0),
    _Measure(
        title="mean completion s", value=lambda r: r.mean_completion_s, places=1, compared=True
    ),
    _Measure(title="makespan s", value=lambda r: r.makespan_s, places=1, compared=True),
    _Measure(title="energy kJ", value=lambda r: r.energy_j / 1e3, places=2, compared=True),
    _Measure(title="peak committed W", value=lambda r: r.committed_w_peak, places=1),
    _Measure(title="peak measured W", value=lambda r: r.measured_w_peak, places=1),
    _Measure(title="budget W", value=lambda r: r.budget_w, places=1),
    _Measure(title="resizes", value=lambda r: r.resizes, places=0),
    _Measure(title="foreign CPU time %", value=lambda r: r.observed.foreign_share * 100, places=1),
)
_PEAKS = frozenset({"peak committed W", "peak measured W"})


def comparison_table(
    results: Sequence[PolicyResult], title: str = "", *, ratios: bool = True
) -> Table:
    """One column a policy, and with ``ratios`` for each after the first its ratio to the first.

    A ratio below 1 is better (green). A peak above the budget of its run is red.
    Raises ValueError without results.
    """
    if not results:
        raise ValueError("a comparison needs at least one result")
    table = Table(title=title or None, title_justify="left", box=None, header_style="bold")
    table.add_column("", no_wrap=True)
    for place, result in enumerate(results):
        table.add_column(result.policy, justify="right", no_wrap=True)
        if place and ratios:
            table.add_column("ratio", justify="right", no_wrap=True, style="dim")
    for measure in _MEASURES:
        table.add_row(measure.title, *_cells(measure, results, ratios=ratios))
    return table


def _cells(measure: _Measure, results: Sequence[PolicyResult], *, ratios: bool) -> list[Text]:
    base = measure.value(results[0])
    cells: list[Text] = []
    for place, result in enumerate(results):
        value = measure.value(result)
        over = measure.title in _PEAKS and value > result.budget_w
        cells.append(Text(f"{value:,.{measure.places}f}", style="bold red" if over else ""))
        if place and ratios:
            cells.append(_ratio(value, base) if measure.compared else Text())
    return cells


def _ratio(value: float, base: float) -> Text:
    if base <= 0:
        return Text("-")
    ratio = value / base
    return Text(f"{ratio:.2f}x", style="green" if ratio < 0.995 else "red" if ratio > 1.005 else "")
