"""Where a policy helps: mean slowdown, wait and run time of the jobs by nodes and run time.

For one run on a logarithmic scale of one colour, for two as ratios on a scale of two colours that
part at 1. A category without jobs stays white.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattfold.coordinator.figures.simulation_style import (
    figure_of,
    machine_title,
    save_figure,
    shortened,
)
from wattfold.coordinator.simulation.pool.record import RunRecord
from wattfold.coordinator.simulation.results.categories import Categories, categories
from wattfold.coordinator.simulation.results.scales import Quantity, scale_for, short_number
from wattfold.coordinator.simulation.workloads.workload import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW_INCHES = 0.3
_MARGIN_INCHES = 2.2
_RATIO_MOST = 16.0
"""Ratios beyond this, or its inverse, have the strongest colour."""
_LEAST_WAIT_S = 1.0
"""Below this a wait is none, and its ratio to another says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Panel:
    title: str
    values: Floats
    diverging: bool


def draw_heat_maps(record: RunRecord, workload: str = "") -> Figure:
    """Mean slowdown, wait and run-time ratio of one run, by category."""
    held = categories(record)
    wait = scale_for(Quantity.TIME, [_most(held.wait_s)])
    panels = (
        _Panel(title="mean slowdown", values=held.slowdown, diverging=False),
        _Panel(title=wait.label("mean wait"), values=held.wait_s / wait.size, diverging=False),
        _Panel(title="run time / static", values=held.run_ratio, diverging=True),
    )
    title = f"{shortened(record.policy, 40)}: {machine_title([record], workload)}"
    return _draw(panels, held, title)


def draw_heat_map_ratios(record: RunRecord, baseline: RunRecord, workload: str = "") -> Figure:
    """The means of one run over those of another on the same jobs; below 1 the first is better.

    Raises ValueError for runs of different jobs.
    """
    if not np.array_equal(record.jobs.job_ids, baseline.jobs.job_ids):
        raise ValueError("heat maps of a ratio need two runs of the same jobs")
    ours, theirs = categories(record), categories(baseline)
    panels = (
        _Panel(title="slowdown", values=_ratio(ours.slowdown, theirs.slowdown, 0), diverging=True),
        _Panel(
            title="wait", values=_ratio(ours.wait_s, theirs.wait_s, _LEAST_WAIT_S), diverging=True
        ),
        _Panel(
            title="run time", values=_ratio(ours.run_ratio, theirs.run_ratio, 0), diverging=True
        ),
    )
    names = f"{shortened(record.policy, 24)} / {shortened(baseline.policy, 24)}"
    return _draw(panels, ours, f"{names}: {machine_title([record, baseline], workload)}")


def save_heat_maps(path: Path, record: RunRecord, workload: str = "") -> None:
    """Writes the figure of one run as PNG, SVG or PDF by the ending of the path."""
    save_figure(draw_heat_maps(record, workload), path)


def save_heat_map_ratios(
    path: Path, record: RunRecord, baseline: RunRecord, workload: str = ""
) -> None:
    """Writes the figure of two runs as PNG, SVG or PDF by the ending of the path."""
    save_figure(draw_heat_map_ratios(record, baseline, workload), path)


def _draw(panels: Sequence[_Panel], held: Categories, title: str) -> Figure:
    height = len(held.size_labels) * _ROW_INCHES + _MARGIN_INCHES
    with figure_of(height, title) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for place, panel in enumerate(panels):
            _draw_panel(figure, axes[place], panel, held)
        axes[0].set_ylabel("nodes asked for")
    return figure


def _draw_panel(figure: Figure, axes: Axes, panel: _Panel, held: Categories) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    norm, colors = _colors(panel)
    image = axes.pcolormesh(
        np.ma.masked_invalid(panel.values), norm=norm, cmap=colors, edgecolors="white", linewidth=1
    )
    axes.set_title(panel.title, loc="left")
    axes.set_xticks(
        np.arange(len(held.run_labels)) + 0.5,
        held.run_labels,
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        fontsize=8.5,
    )
    axes.set_yticks(np.arange(len(held.size_labels)) + 0.5, held.size_labels, fontsize=8.5)
    axes.tick_params(length=0)
    axes.set_xlabel("static run time")
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    _write_cells(axes, panel.values, norm, colors)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", aspect=30, pad=0.02)
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    bar.ax.xaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)


def _write_cells(axes: Axes, values: Floats, norm: Any, colors: Any) -> None:
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        red, green, blue, _ = colors(norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        axes.text(
            column + 0.5,
            row + 0.5,
            short_number(float(value)),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
        )


def _colors(panel: _Panel) -> tuple[Any, Any]:
    """How values become colours: two colours parting at 1, or one on a logarithmic scale."""
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    known = panel.values[np.isfinite(panel.values) & (panel.values > 0)]
    if panel.diverging:
        reach = max(float(np.abs(np.log(known)).max()) if len(known) else 0.0, np.log(1.1))
        most = min(float(np.exp(reach)), _RATIO_MOST)
        return LogNorm(1 / most, most, clip=True), mpl.colormaps["RdBu_r"]
    least = float(known.min()) if len(known) else 1.0
    most = float(known.max()) if len(known) else 1.0
    least = max(least, most / 1e5)
    return LogNorm(least, max(most, least * 1.1), clip=True), mpl.colormaps["cividis"]


def _ratio(values: Floats, baselines: Floats, least: float) -> Floats:
    """Their ratio; 1 where both are no more than `least`, which also stands in for less."""
    ratios: Floats = np.maximum(values, least) / np.maximum(baselines, least)
    return ratios


def _most(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
