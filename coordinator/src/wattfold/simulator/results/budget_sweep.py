"""Policies under several budgets: a table per metric, of budgets and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from wattfold.simulator.results.comparison import (
    ComparedMeasure,
    Repeats,
    comparison_document,
    lines_of,
    mean_run,
    ratio_cell,
    ratio_to,
)
from wattfold.simulator.results.scales import Quantity, scale_for

TABLES = ("completion_s_mean", "bounded_slowdown_mean", "makespan_s", "energy_j", "total_eur")
"""Metrics with their own table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A budget in W, and the runs of the policies that can run under it, by policy name."""

    budget_w: float
    runs: Mapping[str, Repeats]
    refused: Mapping[str, str]
    """Reasons of the policies that cannot run under the budget."""


def measures_of(points: Sequence[SweepPoint]) -> tuple[ComparedMeasure, ...]:
    """Return the metrics in tables and plots of a sweep."""
    means = [mean_run(runs) for point in points for runs in point.runs.values()]
    return tuple(line for line in lines_of(means) if line.key in TABLES)


def sweep_table(
    points: Sequence[SweepPoint], policies: Sequence[str], line: ComparedMeasure
) -> Table:
    """Return a table of values under each budget; other policies also have ratios to the first.

    `-` marks a policy that cannot run under a budget.
    """
    power = scale_for(Quantity.POWER, [point.budget_w for point in points])
    means = {
        (point.budget_w, name): line.of(mean_run(runs))
        for point in points
        for name, runs in point.runs.items()
    }
    scale = scale_for(line.quantity, means.values())
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(scale.label(line.title), no_wrap=True)
    for place, name in enumerate(policies):
        table.add_column(Text(name), justify="right", no_wrap=True)
        if place:
            table.add_column("ratio", justify="right", no_wrap=True, style="dim")
    for point in points:
        cells: list[Text] = []
        base = point.runs.get(policies[0])
        for place, name in enumerate(policies):
            runs = point.runs.get(name)
            value = means.get((point.budget_w, name))
            cells.append(Text("-" if value is None else scale.text(value)))
            if place:
                if runs is None or base is None:
                    cells.append(Text("-"))
                else:
                    cells.append(ratio_cell(ratio_to(runs, base, line), line.better))
        table.add_row(f"{power.text(point.budget_w)} {power.unit}", *cells)
    return table


def refusals(points: Sequence[SweepPoint]) -> list[str]:
    """Explain why policies have no result under some budgets, a sentence for each reason."""
    by_reason: dict[tuple[float, str], list[str]] = {}
    for point in points:
        for name, reason in point.refused.items():
            # The first of many jobs adds little to their number.
            said = reason.partition("; the first is")[0]
            by_reason.setdefault((point.budget_w, said), []).append(name)
    return [
        f"{', '.join(names)} cannot run under {_watts(budget_w)}: {reason}."
        for (budget_w, reason), names in by_reason.items()
    ]


def _watts(power_w: float) -> str:
    scale = scale_for(Quantity.POWER, [power_w])
    return f"{scale.text(power_w)} {scale.unit}"


def sweep_document(points: Sequence[SweepPoint]) -> list[dict[str, object]]:
    """Return each budget under stable names with units, and ratios to the first running policy."""
    return [
        {
            "budget_w": point.budget_w,
            "runs": comparison_document(list(point.runs.values())) if point.runs else [],
            "refused": dict(point.refused),
        }
        for point in points
    ]
