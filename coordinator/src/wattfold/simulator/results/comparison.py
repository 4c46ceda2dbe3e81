"""Comparison of policies on the same jobs: main metrics, relative to the first policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

import numpy as np
from rich.table import Table
from rich.text import Text

from wattfold.contract.units import NS_PER_S
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.results.intervals import Interval, ratio_of_means
from wattfold.simulator.results.metrics import Metrics, mean_between, metrics_of
from wattfold.simulator.results.scales import Quantity, Scale, scale_for
from wattfold.simulator.results.training_costs import energy_eur

HOUR_S = 3600.0
_SAME = 0.005
"""Ratios closer to 1 than this count as equal in the display."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Metrics of one policy."""

    policy: str
    jobs: int
    makespan_s: float
    completion_s_mean: float
    wait_s_mean: float
    wait_s_median: float
    wait_s_p99: float
    bounded_slowdown_mean: float
    bounded_slowdown_median: float
    energy_j: float
    utilisation: float
    """Held nodes relative to all nodes over the makespan, 0..1."""
    budget_utilisation: float
    """Committed power relative to the budget over the makespan, 0..1."""
    throughput_per_h: float
    """Ended jobs per hour from the first submission to the last end."""
    total_eur: float = math.nan
    """With the next two, only for runs with training jobs: see `Metrics`."""
    energy_eur: float = math.nan
    tardiness_eur: float = math.nan
    nodes_awake: float = math.nan
    """Share of the nodes that are awake or boot, 0..1; with the next two, only if nodes sleep."""
    boots: float = math.nan
    failed_boots: float = math.nan
    paid_eur: float = math.nan
    """Cost of the energy of all nodes, only with prices and without training jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMeasure:
    """A line; ``better`` is -1 if less is better, 1 if more is better, 0 for neither."""

    key: str
    title: str
    quantity: Quantity
    better: int

    def of(self, run: Compared) -> float:
        """Return the value, in base units."""
        return float(getattr(run, self.key))


def _line(key: str, title: str, quantity: Quantity, better: int = -1) -> ComparedMeasure:
    return ComparedMeasure(key=key, title=title, quantity=quantity, better=better)


COMPARED: tuple[ComparedMeasure, ...] = (
    _line("makespan_s", "makespan", Quantity.TIME),
    _line("completion_s_mean", "mean completion", Quantity.TIME),
    _line("wait_s_mean", "mean wait", Quantity.TIME),
    _line("wait_s_median", "median wait", Quantity.TIME),
    _line("wait_s_p99", "wait, 99th percentile", Quantity.TIME),
    _line("bounded_slowdown_mean", "mean bounded slowdown", Quantity.RATIO),
    _line("bounded_slowdown_median", "median bounded slowdown", Quantity.RATIO),
    _line("energy_j", "energy", Quantity.ENERGY),
    _line("utilisation", "nodes used", Quantity.SHARE, 0),
    _line("budget_utilisation", "budget committed", Quantity.SHARE, 0),
    _line("throughput_per_h", "jobs an hour", Quantity.COUNT, 1),
)
OF_TRAINING: tuple[ComparedMeasure, ...] = (
    _line("total_eur", "energy in use and tardiness", Quantity.COST),
    _line("energy_eur", "energy of nodes in use", Quantity.COST),
    _line("tardiness_eur", "tardiness", Quantity.COST),
)

OF_SLEEP: tuple[ComparedMeasure, ...] = (
    _line("nodes_awake", "nodes awake", Quantity.SHARE, 0),
    _line("boots", "boots", Quantity.COUNT),
    _line("failed_boots", "failed boots", Quantity.COUNT),
)

OF_PRICES: tuple[ComparedMeasure, ...] = (_line("paid_eur", "cost of energy", Quantity.COST),)


def lines_of(runs: Sequence[Compared]) -> tuple[ComparedMeasure, ...]:
    """Return the compared metrics of these runs."""
    trains = any(not math.isnan(run.total_eur) for run in runs)
    sleeps = any(not math.isnan(run.boots) for run in runs)
    pays = any(not math.isnan(run.paid_eur) for run in runs)
    lines = COMPARED + (OF_TRAINING if trains else ()) + (OF_SLEEP if sleeps else ())
    return lines + (OF_PRICES if pays else ())


def compared(record: RunRecord) -> Compared:
    """Return the metrics of an ended run."""
    metrics = metrics_of(record)
    ended = metrics.jobs - metrics.jobs_unfinished
    hours = metrics.makespan_s / HOUR_S
    return Compared(
        policy=record.policy,
        jobs=metrics.jobs,
        makespan_s=metrics.makespan_s,
        completion_s_mean=metrics.completion_s_mean,
        wait_s_mean=metrics.wait_s_mean,
        wait_s_median=metrics.wait_s_median,
        wait_s_p99=_wait_s_p99(record),
        bounded_slowdown_mean=metrics.bounded_slowdown_mean,
        bounded_slowdown_median=metrics.bounded_slowdown_median,
        energy_j=metrics.energy_j,
        utilisation=metrics.utilisation,
        budget_utilisation=_of_budget(record, metrics),
        throughput_per_h=ended / hours if hours > 0 else math.nan,
        **_costs(record, metrics),
        **_sleep(record),
    )


class _Sleep(TypedDict, total=False):
    nodes_awake: float
    boots: float
    failed_boots: float


def _sleep(record: RunRecord) -> _Sleep:
    counts = record.sleep
    if counts is None:
        return {}
    return {
        "nodes_awake": counts.awake_ns / max(counts.node_ns, 1),
        "boots": float(counts.boots),
        "failed_boots": float(counts.failed),
    }


def _wait_s_p99(record: RunRecord) -> float:
    ended = record.columns.end_ns >= 0
    waits_ns = (record.columns.start_ns - record.jobs.submit_ns)[ended]
    return float(np.percentile(waits_ns, 99)) / NS_PER_S if len(waits_ns) else math.nan


def decision_s(runs: Sequence[RunRecord]) -> float:
    """Return the mean time of a simulated decision, with its share of the simulator.

    It is NaN if no time is known. The time depends on the computer and its load, so it is not part
    of the metrics of a run.
    """
    decisions = sum(run.decisions for run in runs)
    return sum(run.wall_s for run in runs) / decisions if decisions else math.nan


class _Costs(TypedDict, total=False):
    total_eur: float
    energy_eur: float
    tardiness_eur: float
    paid_eur: float


def _costs(record: RunRecord, metrics: Metrics) -> _Costs:
    if record.jobs.training is None:
        prices = record.prices
        return {"paid_eur": energy_eur(record, record.series.drawn_uw, prices)} if prices else {}
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
    """Return a value relative to the first policy's; NaN if that is zero or missing."""
    return value / base if base > 0 else math.nan


Repeats = Sequence[Compared]
"""Runs of one policy, one per seed, in the same order for all policies."""


def mean_run(runs: Repeats) -> Compared:
    """Return the mean of every metric over the seeds."""
    means = {
        field.name: sum(getattr(run, field.name) for run in runs) / len(runs)
        for field in fields(Compared)
        if field.name not in ("policy", "jobs")
    }
    return Compared(policy=runs[0].policy, jobs=runs[0].jobs, **means)


def ratio_to(
    runs: Repeats, base: Repeats, line: ComparedMeasure, confidence: float = 0.95
) -> Interval:
    """Return one metric relative to the first policy: the ratio of the means over the seeds.

    Its interval has runs of the same seed as pairs. NaN if the mean of the first policy is zero or
    missing.
    """
    below = [line.of(run) for run in base]
    if not sum(below) > 0:
        return Interval(mean=math.nan, low=math.nan, high=math.nan, count=len(base))
    return ratio_of_means([line.of(run) for run in runs], below, confidence)


def comparison_table(policies: Sequence[Repeats]) -> Table:
    """Return a table with a column per policy, and the ratio to the first policy, green if better.

    For several seeds it shows the means, and half the width of the interval of a ratio. Raises
    ValueError without a run.
    """
    if not policies:
        raise ValueError("a comparison needs at least one run")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    means = [mean_run(runs) for runs in policies]
    for place, mean in enumerate(means):
        table.add_column(Text(mean.policy), justify="right", no_wrap=True)
        if place:
            table.add_column("ratio", justify="right", no_wrap=True, style="dim")
    for line in lines_of(means):
        scale = scale_for(line.quantity, [line.of(mean) for mean in means])
        table.add_row(scale.label(line.title), *_cells(line, policies, means, scale))
    return table


def _cells(
    line: ComparedMeasure, policies: Sequence[Repeats], means: Sequence[Compared], scale: Scale
) -> list[Text]:
    cells: list[Text] = []
    for place, (runs, mean) in enumerate(zip(policies, means, strict=True)):
        cells.append(Text(scale.text(line.of(mean))))
        if place:
            cells.append(ratio_cell(ratio_to(runs, policies[0], line), line.better))
    return cells


def ratio_cell(by: Interval, better: int) -> Text:
    """Return `0.35x`, or `0.35x ±0.04` for several seeds; green if better, red if worse."""
    if math.isnan(by.mean):
        return Text("-")
    # A difference within the interval is neither better nor worse.
    doubt = by.half_width if by.count > 1 else _SAME
    gain = (by.mean - 1) * better
    style = "green" if gain > max(doubt, _SAME) else "red" if gain < -max(doubt, _SAME) else ""
    spread = f" ±{by.half_width:.2f}" if by.count > 1 else ""
    return Text(f"{by.mean:.2f}x{spread}", style=style)


def interval_sentence(seeds: int, first: int) -> str:
    """Explain the numbers of several seeds; empty for one seed."""
    if seeds < 2:
        return ""
    return (
        f"Means over {seeds} seeds ({first} to {first + seeds - 1}); ± is the 95 % confidence "
        "interval of a ratio (Student's t, paired by seed)."
    )


def comparison_document(policies: Sequence[Repeats]) -> list[dict[str, object]]:
    """Return the policies under stable names with units: means over the seeds, ratios to the first.

    None = unknown. ``relative_95`` has the interval of each ratio, if there are several seeds.
    """
    lines = lines_of([mean_run(runs) for runs in policies])
    return [_document(runs, policies[0], lines) for runs in policies]


def _document(runs: Repeats, base: Repeats, lines: Sequence[ComparedMeasure]) -> dict[str, object]:
    mean = mean_run(runs)
    ratios = {line.key: ratio_to(runs, base, line) for line in lines}
    document: dict[str, object] = {
        "policy": mean.policy,
        "jobs": mean.jobs,
        **{line.key: _known(line.of(mean)) for line in lines},
        "relative": {key: _known(by.mean) for key, by in ratios.items()},
    }
    if len(runs) > 1:
        document["relative_95"] = {
            key: [_known(by.low), _known(by.high)] for key, by in ratios.items()
        }
    return document


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
