"""Plots of Figures 7 to 10 of the paper of the adaptive job scheduler."""

from __future__ import annotations

import math
from pathlib import Path

from matplotlib.axes import Axes

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.equipartition.case import (
    ADAPTIVE,
    STALLED,
    TRADITIONAL,
)
from wattfold.simulator.papers.equipartition.evaluation import Findings, curve
from wattfold.simulator.papers.equipartition.settings import LOADS
from wattfold.simulator.papers.samples import MissingError

_COLORS = {TRADITIONAL: "#D55E00", ADAPTIVE: "#0072B2", STALLED: "#56B4E9"}
_MARKERS = {TRADITIONAL: "s", ADAPTIVE: "o", STALLED: "^"}


def draw(findings: Findings, folder: Path) -> list[Path]:
    """Draw response and utilization by load. Returns the file. Raises OSError and LogError."""
    plan, one = findings.plan, findings.family
    note = f"{one.jobs:,} jobs on 64 processors, means and 95 % intervals over "
    note += f"{len(plan.seeds_of(one.jobs))} seeds"
    if plan.quick:
        note = "QUICK: short runs and few seeds, not the evaluation"
    path = folder / "response-and-utilisation.png"
    with figure_of(4.2, f"Equipartition of adaptive jobs against rigid jobs\n{note}") as figure:
        left, right = figure.subplots(1, 2)
        _panel(left, findings, "response_s", 1.0, math.inf)
        left.set_ylabel("mean response, s")
        _panel(right, findings, "utilisation", 100.0, 1.0)
        right.set_ylabel("utilisation, %")
        right.set_ylim(0, 100)
        left.legend(frameon=False)
        save_figure(figure, path)
    return [path]


def _panel(axes: Axes, findings: Findings, measure: str, scale: float, most: float) -> None:
    """``most`` is the highest value that the measure can have."""
    stall = f"{ADAPTIVE}, {findings.plan.settings.stall_s:g} s a resize"
    for scheduler, label in (
        (TRADITIONAL, TRADITIONAL),
        (STALLED, stall),
        (ADAPTIVE, ADAPTIVE),
    ):
        try:
            intervals = [found.within(0.0, most) for found in curve(findings, scheduler, measure)]
        except MissingError:
            continue
        means = [interval.mean * scale for interval in intervals]
        low = [(i.mean - i.low) * scale if i.count > 1 else 0.0 for i in intervals]
        high = [(i.high - i.mean) * scale if i.count > 1 else 0.0 for i in intervals]
        axes.errorbar(
            LOADS,
            means,
            yerr=[low, high],
            label=label,
            color=_COLORS[scheduler],
            marker=_MARKERS[scheduler],
            markersize=4,
            capsize=2,
            linewidth=1.5,
        )
    axes.set_xlabel("load factor")
    axes.set_ylim(bottom=0)
    only_value_grid(axes)
