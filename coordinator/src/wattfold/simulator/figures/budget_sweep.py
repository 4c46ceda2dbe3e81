"""Plot of policies under several budgets: a panel per measure, a labelled line per policy.

Lines of several seeds are means. Bars at the values of a policy show the 95 % confidence interval
of its ratio to the first policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.simulator.figures.style import (
    INK,
    figure_of,
    only_value_grid,
    save_figure,
    shortened,
)
from wattfold.simulator.results.budget_sweep import SweepPoint, measures_of
from wattfold.simulator.results.comparison import (
    ComparedMeasure,
    mean_run,
    ratio_to,
)
from wattfold.simulator.results.scales import Quantity, Scale, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = ("completion_s_mean", "energy_j", "total_eur")
"""Measures with a panel."""
_COLORS = ("#555555", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Colors of Okabe and Ito, with gray for the policy that the others are compared with."""
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_APART = 0.055
"""Minimum distance of two names, as a fraction of the height of a panel."""


def draw_budget_sweep(
    points: Sequence[SweepPoint],
    policies: Sequence[str],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Return the figure, with ``notes`` below it. Raises ValueError without a run."""
    lines = [line for line in measures_of(points) if line.key in SHOWN]
    power = scale_for(Quantity.POWER, [point.budget_w for point in points])
    with figure_of(4.3 + 0.18 * len(notes), title) as figure:
        panels = figure.subplots(1, len(lines), squeeze=False)[0]
        for panel, line in zip(panels, lines, strict=True):
            _draw(panel, points, policies, line, power)
        if notes:
            figure.supxlabel("\n".join(notes), fontsize=8, color=INK, x=0.01, ha="left")
    return figure


def save_budget_sweep(
    path: Path,
    points: Sequence[SweepPoint],
    policies: Sequence[str],
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> None:
    """Write the figure as PNG, SVG or PDF, by the ending of the path."""
    save_figure(draw_budget_sweep(points, policies, title=title, notes=notes), path)


def _draw(
    axes: Axes,
    points: Sequence[SweepPoint],
    policies: Sequence[str],
    line: ComparedMeasure,
    power: Scale,
) -> None:
    means = {
        (point.budget_w, name): line.of(mean_run(runs))
        for point in points
        for name, runs in point.runs.items()
    }
    scale = scale_for(line.quantity, means.values())
    ends: list[tuple[float, str, str]] = []
    for place, name in enumerate(policies):
        color = _COLORS[place % len(_COLORS)]
        own = [point for point in points if name in point.runs]
        if not own:
            continue
        x = [point.budget_w / power.size for point in own]
        y = [means[point.budget_w, name] / scale.size for point in own]
        reach = [_reach(point, policies[0], name, line) / scale.size for point in own]
        most = 1 / scale.size if line.quantity is Quantity.SHARE else math.inf
        axes.errorbar(
            x,
            y,
            yerr=[
                [min(*pair) for pair in zip(reach, y, strict=True)],
                [max(min(up, most - value), 0.0) for up, value in zip(reach, y, strict=True)],
            ]
            if any(reach)
            else None,
            color=color,
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=5,
            linewidth=2,
            elinewidth=1,
            capsize=3,
        )
        ends.append((y[-1], name, color))
    axes.set_ylim(bottom=0)
    _name_ends(axes, ends, max(point.budget_w for point in points) / power.size)
    axes.set_xlabel(f"power budget, {power.unit}")
    better = {-1: "lower is better", 1: "higher is better", 0: ""}[line.better]
    axes.set_title(scale.label(line.title), loc="left", pad=16)
    axes.text(0, 1.02, better, transform=axes.transAxes, fontsize=9, color=INK)
    axes.set_xticks([point.budget_w / power.size for point in points][:: -(-len(points) // 7)])
    only_value_grid(axes)


def _reach(point: SweepPoint, first: str, name: str, line: ComparedMeasure) -> float:
    """Return half the interval of the ratio to the first policy, in base units; 0 for the first."""
    base = point.runs.get(first)
    if base is None or name == first or len(base) < 2:
        return 0.0
    half = ratio_to(point.runs[name], base, line).half_width
    return half * line.of(mean_run(base)) if math.isfinite(half) else 0.0


def _name_ends(axes: Axes, ends: list[tuple[float, str, str]], x: float) -> None:
    """Write the name of each line at its right end; names that would overlap are moved apart."""
    low, high = axes.get_ylim()
    least = (high - low) * _APART
    at: list[float] = []
    for y, _, _ in sorted(ends):
        at.append(max(y, at[-1] + least) if at else y)
    # Moved names are centered on their lines as a group.
    up = sum(place - y for place, (y, _, _) in zip(at, sorted(ends), strict=True)) / len(at)
    for place, (_, name, color) in zip(at, sorted(ends), strict=True):
        axes.annotate(
            shortened(name, 22),
            (x, max(place - up, low)),
            xytext=(9, 0),
            textcoords="offset points",
            color=color,
            fontweight="bold",
            fontsize=9.5,
            va="center",
            annotation_clip=False,
        )
