"""Plot of policies on the same jobs: a panel per measure, a bar per policy, ratios to the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.figures.job_colors import job_looks
from wattfold.simulator.figures.style import (
    GRID,
    figure_of,
    save_figure,
    shortened,
)
from wattfold.simulator.results.comparison import (
    Compared,
    ComparedMeasure,
    lines_of,
    ratio,
)
from wattfold.simulator.results.scales import (
    Quantity,
    Scale,
    common_time_scale,
    number,
    scale_for,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS_A_ROW = 4


def draw_policy_comparison(runs: Sequence[Compared], title: str = "") -> Figure:
    """Return the figure; a panel states whether less or more is better, if either is.

    Raises ValueError without a run.
    """
    if not runs:
        raise ValueError("a comparison needs at least one run")
    lines = lines_of(runs)
    rows = -(-len(lines) // _PANELS_A_ROW)
    time = common_time_scale([_values(runs, x) for x in lines if x.quantity is Quantity.TIME])
    with figure_of(0.9 + rows * (1.1 + 0.4 * len(runs)), title) as figure:
        axes = figure.subplots(rows, _PANELS_A_ROW, squeeze=False, sharey=True)
        for panel, line in zip(axes.flat, lines, strict=False):
            _draw(panel, runs, line, time)
        for panel in axes.flat[len(lines) :]:
            panel.set_visible(False)
    return figure


def save_policy_comparison(path: Path, runs: Sequence[Compared], title: str = "") -> None:
    """Write the figure as PNG, SVG or PDF, by the ending of the path."""
    save_figure(draw_policy_comparison(runs, title), path)


def _values(runs: Sequence[Compared], line: ComparedMeasure) -> list[float]:
    return [line.of(run) for run in runs]


def _draw(axes: Axes, runs: Sequence[Compared], line: ComparedMeasure, time: Scale) -> None:
    values = _values(runs, line)
    scale = time if line.quantity is Quantity.TIME else scale_for(line.quantity, values)
    looks = job_looks(run.policy for run in runs)
    reach = max((value for value in values if math.isfinite(value)), default=0.0) or 1.0
    for place, (run, value) in enumerate(zip(runs, values, strict=True)):
        length = value if math.isfinite(value) else 0.0
        look = looks[run.policy]
        axes.barh(place, length, height=0.68, color=look.fill, hatch=look.hatch, edgecolor="white")
        text = number(value / scale.size)
        by = ratio(value, values[0])
        if place and math.isfinite(by):
            text += f"  ({by:.2f}x)"
        axes.text(length + reach * 0.03, place, text, va="center_baseline", fontsize=8.5)
    arrow = {-1: "lower is better", 1: "higher is better", 0: ""}[line.better]
    axes.set_title(scale.label(line.title), loc="left", fontsize=10)
    axes.set_xlabel(arrow, fontsize=8)
    axes.set_yticks(range(len(runs)), [shortened(run.policy, 22) for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, reach * 1.75)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
