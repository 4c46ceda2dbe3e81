"""Plot of policies over many runs: lines over a swept parameter.

A line shows the mean over the seeds, and a band its 95 % confidence interval. A policy with one run
has no band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.figures.job_colors import job_looks
from wattfold.simulator.figures.style import (
    figure_of,
    only_value_grid,
    save_figure,
    shortened,
)
from wattfold.simulator.results.intervals import Interval, seed_interval
from wattfold.simulator.results.measures import measure
from wattfold.simulator.results.metrics import Metrics
from wattfold.simulator.results.scales import Quantity, Scale, number, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vPX*"
_LINES = ("-", "--", "-.", ":")


def draw_sweep(
    runs: Mapping[str, Mapping[float, Sequence[Metrics]]],
    parameter: str,
    of: str = "completion_s_mean",
    title: str = "",
    *,
    logarithmic: bool = False,
) -> Figure:
    """Return a figure with a line per policy over the values of a parameter.

    A policy with several seeds has a band. ``parameter`` is the label of the x axis, ``of`` the
    measure on the y axis, which may be logarithmic. Raises ValueError without points and for an
    unknown measure.
    """
    if not runs or not all(points and all(points.values()) for points in runs.values()):
        raise ValueError("a sweep needs at least one policy, and runs at every point of each")
    merit = measure(of)
    most = 1.0 if merit.quantity is Quantity.SHARE else math.inf
    lines = {
        policy: [(x, seed_interval(points[x], merit.key).within(0, most)) for x in sorted(points)]
        for policy, points in runs.items()
    }
    means = [interval.mean for line in lines.values() for _, interval in line]
    scale = scale_for(merit.quantity, means)
    with figure_of(5.0, title) as figure:
        axes = figure.subplots()
        _draw_lines(axes, lines, scale)
        only_value_grid(axes)
        axes.set_xlabel(parameter)
        axes.set_ylabel(scale.label(merit.title))
        if logarithmic:
            _logarithmic(axes)
        else:
            axes.set_ylim(bottom=0)
        _mark_points(axes, sorted({x for line in lines.values() for x, _ in line}))
        figure.legend(
            loc="outside lower center",
            ncols=min(4, len(lines)),
            frameon=False,
            fontsize=9.5,
        )
    return figure


def save_sweep(
    path: Path,
    runs: Mapping[str, Mapping[float, Sequence[Metrics]]],
    parameter: str,
    of: str = "completion_s_mean",
    title: str = "",
    *,
    logarithmic: bool = False,
) -> None:
    """Write the figure as PNG, SVG or PDF, by the ending of the path."""
    save_figure(draw_sweep(runs, parameter, of, title, logarithmic=logarithmic), path)


def _draw_lines(
    axes: Axes, lines: Mapping[str, Sequence[tuple[float, Interval]]], scale: Scale
) -> None:
    looks = job_looks(lines)
    for place, (policy, line) in enumerate(lines.items()):
        color = looks[policy].fill
        places = [x for x, _ in line]
        axes.fill_between(
            places,
            [interval.low / scale.size for _, interval in line],
            [interval.high / scale.size for _, interval in line],
            color=color,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(
            places,
            [interval.mean / scale.size for _, interval in line],
            color=color,
            marker=_MARKERS[place % len(_MARKERS)],
            linestyle=_LINES[place // 7 % len(_LINES)],
            markersize=6,
            linewidth=1.8,
            label=shortened(policy, 28),
        )


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    least, most = axes.get_ylim()
    # Within one decade, ticks at 1, 2 and 5 may all miss the axis.
    narrow = most < 10 * least
    axes.yaxis.set_major_locator(AutoLocator() if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_points(axes: Axes, places: Sequence[float]) -> None:
    """Set a tick for every value of the parameter, unless there are too many."""
    if 1 < len(places) <= 12:
        axes.set_xticks(places, [f"{place:g}" for place in places])
