"""Policies on the same jobs, each against the first: the few figures a choice is made by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from rich.table import Table
from rich.text import Text

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.metrics import Metrics, mean_between, metrics_of
from wattfold.coordinator.simulation.results.scales import Quantity, Scale, scale_for

HOUR_S = 3600.0
_SAME = 0.005
"""Ratios closer to 1 than this are neither better nor worse to the eye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The figures of one policy."""

    policy: str
    jobs: int
    makespan_s: float
    completion_s_mean: float
    wait_s_mean: float
    bounded_slowdown_mean: float
    energy_j: float
    utilisation: float
    """Nodes held of all nodes over the makespan, 0..1."""
    budget_utilisation: float
    """Committed power of the budget over the makespan, 0..1."""
    throughput_per_h: float
    """Jobs that ended, by the hours from the first submission to the last end."""
    total_eur: float = math.nan
    """With the next two, of runs whose jobs train: see `Metrics`."""
    energy_eur: float = math.nan
    tardiness_eur: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """One line: ``better`` is -1 where less is better, 1 for more."""

    key: str
    title: str
    quantity: Quantity
    better: int

    def of(self, run: Compared) -> float:
        """The value, in base units."""
        return float(getattr(run, self.key))


def _line(key: str, title: str, quantity: Quantity, better: int = -1) -> ComparedMeasure:
    return ComparedMeasure(key=key, title=title, quantity=quantity, better=better)


COMPARED: tuple[ComparedMeasure, ...] = (
    _line("makespan_s", "makespan", Quantity.TIME),
    _line("completion_s_mean", "mean completion", Quantity.TIME),
    _line("wait_s_mean", "mean wait", Quantity.TIME),
    _line("bounded_slowdown_mean", "mean bounded slowdown", Quantity.RATIO),
    _line("energy_j", "energy", Quantity.ENERGY),
    _line("utilisation", "nodes used", Quantity.SHARE, 1),
    _line("budget_utilisation", "budget committed", Quantity.SHARE, 1),
    _line("throughput_per_h", "jobs an hour", Quantity.COUNT, 1),
)
OF_TRAINING: tuple[ComparedMeasure, ...] = (
    _line("total_eur", "energy in use and tardiness", Quantity.COST),
    _line("energy_eur", "energy of nodes in use", Quantity.COST),
    _line("tardiness_eur", "tardiness", Quantity.COST),
)


def lines_of(runs: Sequence[Compared]) -> tuple[ComparedMeasure, ...]:
    """What is compared of these runs."""
    trains = any(not math.isnan(run.total_eur) for run in runs)
    return COMPARED + OF_TRAINING if trains else COMPARED


def compared(record: RunRecord) -> Compared:
    """The figures of a run that has ended."""
    metrics = metrics_of(record)
    ended = metrics.jobs - metrics.jobs_unfinished
    hours = metrics.makespan_s / HOUR_S
    return Compared(
        policy=record.policy,
        jobs=metrics.jobs,
        makespan_s=metrics.makespan_s,
        completion_s_mean=metrics.completion_s_mean,
        wait_s_mean=metrics.wait_s_mean,
        bounded_slowdown_mean=metrics.bounded_slowdown_mean,
        energy_j=metrics.energy_j,
        utilisation=metrics.utilisation,
        budget_utilisation=_of_budget(record, metrics),
        throughput_per_h=ended / hours if hours > 0 else math.nan,
        **_costs(record, metrics),
    )


class _Costs(TypedDict, total=False):
    total_eur: float
    energy_eur: float
    tardiness_eur: float


def _costs(record: RunRecord, metrics: Metrics) -> _Costs:
    if record.jobs.training is None:
        return {}
    return {
        "total_eur": metrics.total_eur,
        "energy_eur": metrics.energy_eur,
        "tardiness_eur": metrics.tardiness_eur,
    }


def _of_budget(record: RunRecord, metrics: Metrics) -> float:
    series = record.series
    first_ns = int(record.jobs.submit_ns.min()) if len(record.jobs) else 0
    last_ns = first_ns + round(metrics.makespan_s * NS_PER_S)
    budget_uw = mean_between(series.time_ns, series.budget_uw, first_ns, last_ns)
    committed_uw = mean_between(series.time_ns, series.committed_uw, first_ns, last_ns)
    return committed_uw / budget_uw if budget_uw > 0 else math.nan


def ratio(value: float, base: float) -> float:
    """A value by that of the first policy; NaN where that is zero or missing."""
    return value / base if base > 0 else math.nan


def comparison_table(runs: Sequence[Compared]) -> Table:
    """One column a policy; after each but the first its ratio to the first, green if better.

    Raises ValueError without a run.
    """
    if not runs:
        raise ValueError("a comparison needs at least one run")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    for place, run in enumerate(runs):
        table.add_column(Text(run.policy), justify="right", no_wrap=True)
        if place:
            table.add_column("ratio", justify="right", no_wrap=True, style="dim")
    for line in lines_of(runs):
        values = [line.of(run) for run in runs]
        scale = scale_for(line.quantity, values)
        table.add_row(scale.label(line.title), *_cells(line, values, scale))
    return table


def _cells(line: ComparedMeasure, values: Sequence[float], scale: Scale) -> list[Text]:
    cells: list[Text] = []
    for place, value in enumerate(values):
        cells.append(Text(scale.text(value)))
        if place:
            cells.append(_ratio_cell(ratio(value, values[0]), line.better))
    return cells


def _ratio_cell(by: float, better: int) -> Text:
    if math.isnan(by):
        return Text("-")
    gain = (by - 1) * better
    style = "green" if gain > _SAME else "red" if gain < -_SAME else ""
    return Text(f"{by:.2f}x", style=style)


def comparison_document(runs: Sequence[Compared]) -> list[dict[str, object]]:
    """The runs under stable names with units, and their ratios to the first; None = unknown."""
    lines = lines_of(runs)
    return [
        {
            "policy": run.policy,
            "jobs": run.jobs,
            **{line.key: _known(line.of(run)) for line in lines},
            "relative": {line.key: _known(ratio(line.of(run), line.of(runs[0]))) for line in lines},
        }
        for run in runs
    ]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
