"""Heat maps of slowdown, wait and run time of the jobs, by nodes and run time.

One run has a logarithmic scale of one color. Two runs are shown as ratios on a scale of two colors
that meet at 1. A category without jobs stays white.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.figures.style import (
    figure_of,
    machine_title,
    save_figure,
    shortened,
)
from wattfold.simulator.results.categories import Categories, categories
from wattfold.simulator.results.scales import Quantity, scale_for, short_number
from wattfold.simulator.workloads.workload import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW_INCHES = 0.3
_MARGIN_INCHES = 2.2
_RATIO_MOST = 16.0
"""Ratios beyond this, or its inverse, have the strongest color."""
_RATIO_LEAST = 2.0
"""If all ratios are closer to 1 than this, the colors stay pale."""
_LEAST_WAIT_S = 1.0
"""A shorter wait counts as no wait, because its ratio to another wait is meaningless."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Panel:
    title: str
    values: Floats
    diverging: bool


def draw_heat_maps(record: RunRecord, workload: str = "") -> Figure:
    """Return the mean slowdown, wait and run-time ratio of one run, by category."""
    held = categories(record)
    wait = scale_for(Quantity.TIME, [_most(held.wait_s)])
    panels = (
        _Panel(title="mean slowdown", values=held.slowdown, diverging=False),
        _Panel(title=wait.label("mean wait"), values=held.wait_s / wait.size, diverging=False),
        _Panel(title="run time / static", values=held.run_ratio, diverging=True),
    )
    title = f"{shortened(record.policy, 40)}: {machine_title([record], workload)}"
    return _draw(panels, held, title)


def draw_category_ratios(ours: Categories, theirs: Categories, title: str) -> Figure:
    """Return the ratios of the means of two sets of runs; below 1 the first is better.

    Both sets have the same jobs and rows.
    """
    panels = (
        _Panel(
            title="slowdown ratio", values=_ratio(ours.slowdown, theirs.slowdown, 0), diverging=True
        ),
        _Panel(
            title="wait ratio",
            values=_ratio(ours.wait_s, theirs.wait_s, _LEAST_WAIT_S),
            diverging=True,
        ),
        _Panel(
            title="run time ratio",
            values=_ratio(ours.run_ratio, theirs.run_ratio, 0),
            diverging=True,
        ),
    )
    return _draw(panels, ours, title)


def save_heat_maps(path: Path, record: RunRecord, workload: str = "") -> None:
    """Write the figure of one run as PNG, SVG or PDF, by the ending of the path."""
    save_figure(draw_heat_maps(record, workload), path)


def _draw(panels: Sequence[_Panel], held: Categories, title: str) -> Figure:
    height = len(held.size_labels) * _ROW_INCHES + _MARGIN_INCHES
    with figure_of(height, title) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for place, panel in enumerate(panels):
            _draw_panel(figure, axes[place], panel, held, _reach(panels))
        axes[0].set_ylabel("requested nodes")
    return figure


def _draw_panel(figure: Figure, axes: Axes, panel: _Panel, held: Categories, reach: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    norm, colors = _diverging(reach) if panel.diverging else _sequential(panel)
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
    _write_cells(axes, panel, norm, colors)
    bar = figure.colorbar(image, ax=axes, orientation="horizontal", aspect=30, pad=0.02)
    if panel.diverging:
        bar.ax.xaxis.set_major_locator(FixedLocator(_ratio_ticks(reach)))
        bar.ax.xaxis.set_minor_locator(NullLocator())
    bar.ax.xaxis.set_major_formatter(FuncFormatter(_tick_text))
    bar.ax.xaxis.set_minor_formatter(NullFormatter())
    bar.outline.set_visible(False)


def _write_cells(axes: Axes, panel: _Panel, norm: Any, colors: Any) -> None:
    for (row, column), value in np.ndenumerate(panel.values):
        if np.isnan(value):
            continue
        red, green, blue, _ = colors(norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        axes.text(
            column + 0.5,
            row + 0.5,
            f"{value:.2f}" if panel.diverging and 0.995 <= value < 9.995 else short_number(value),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
        )


def _diverging(reach: float) -> tuple[Any, Any]:
    """Return a scale of two colors that meet at 1."""
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    return LogNorm(1 / reach, reach, clip=True), mpl.colormaps["RdBu_r"]


def _sequential(panel: _Panel) -> tuple[Any, Any]:
    """Return a logarithmic scale of one color, readable with any color vision."""
    import matplotlib as mpl
    from matplotlib.colors import LogNorm

    known = panel.values[np.isfinite(panel.values) & (panel.values > 0)]
    most = float(known.max()) if len(known) else 1.0
    least = max(float(known.min()) if len(known) else 1.0, most / 1e5)
    return LogNorm(least, max(most, least * 10), clip=True), mpl.colormaps["cividis"]


def _reach(panels: Sequence[_Panel]) -> float:
    """Return the ratio with the strongest color, common to all panels so that they compare."""
    ratios = np.concatenate([panel.values.ravel() for panel in panels if panel.diverging])
    known = ratios[np.isfinite(ratios) & (ratios > 0)]
    most = float(np.exp(np.abs(np.log(known)).max())) if len(known) else 1.0
    return min(max(most, _RATIO_LEAST), _RATIO_MOST)


def _ratio_ticks(reach: float) -> list[float]:
    above = (1.5, 2.0) if reach < 4 else (2.0, 4.0) if reach < 8 else (4.0, 16.0)
    kept = [tick for tick in above if tick <= reach * 1.001]
    return [*(1 / tick for tick in reversed(kept)), 1.0, *kept]


def _tick_text(value: float, _: object = None) -> str:
    text = short_number(value)
    return text.replace(".0", "") if value >= 0.995 else text


def _ratio(values: Floats, baselines: Floats, minimum: float) -> Floats:
    """Return the ratio; values below ``minimum`` count as ``minimum``."""
    ratios: Floats = np.maximum(values, minimum) / np.maximum(baselines, minimum)
    return ratios


def _most(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else 0.0
