"""Policies over many runs: bars of several figures of merit, or lines over a swept parameter.

Both show the mean over the seeds and its 95 % confidence interval, as a whisker or as a band; a
policy with one run has neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.figures.job_colors import job_looks
from wattfold.coordinator.figures.simulation_style import (
    INK,
    figure_of,
    only_value_grid,
    save_figure,
    shortened,
)
from wattfold.coordinator.simulation.results.intervals import Interval, seed_interval
from wattfold.coordinator.simulation.results.measures import Measure, measure
from wattfold.coordinator.simulation.results.metrics import Metrics
from wattfold.coordinator.simulation.results.scales import Scale, number, scale_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR_MEASURES = ("completion_s_mean", "bounded_slowdown_mean", "makespan_s", "energy_j")
_PANELS_A_ROW = 4
_MARKERS = "osD^vPX*"
_LINES = ("-", "--", "-.", ":")


def draw_comparison_bars(
    runs: Mapping[str, Sequence[Metrics]],
    measures: Sequence[str] = BAR_MEASURES,
    title: str = "",
) -> Figure:
    """One panel a figure of merit, one bar a policy, whiskers from its runs.

    Raises ValueError without policies, runs or measures, and for a measure that is none.
    """
    if not runs or not measures or not all(runs.values()):
        raise ValueError("bars need at least one measure, and a run of every policy")
    rows = -(-len(measures) // _PANELS_A_ROW)
    columns = -(-len(measures) // rows)
    with figure_of(0.9 + rows * (1.1 + 0.38 * len(runs)), title) as figure:
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for place, panel in enumerate(axes.flat):
            if place < len(measures):
                _draw_bars(panel, runs, measure(measures[place]))
            else:
                panel.set_visible(False)
    return figure


def save_comparison_bars(
    path: Path,
    runs: Mapping[str, Sequence[Metrics]],
    measures: Sequence[str] = BAR_MEASURES,
    title: str = "",
) -> None:
    """Writes the figure as PNG, SVG or PDF by the ending of the path."""
    save_figure(draw_comparison_bars(runs, measures, title), path)


def draw_sweep(
    runs: Mapping[str, Mapping[float, Sequence[Metrics]]],
    parameter: str,
    of: str = "completion_s_mean",
    title: str = "",
    *,
    logarithmic: bool = False,
) -> Figure:
    """One line a policy over the values of a parameter, with a band where there are seeds.

    ``parameter`` is the label of the x axis, ``of`` the figure of merit on the y axis, which is
    logarithmic on demand. Raises ValueError without points and for a measure that is none.
    """
    if not runs or not all(points and all(points.values()) for points in runs.values()):
        raise ValueError("a sweep needs at least one policy, and runs at every point of each")
    merit = measure(of)
    lines = {
        policy: [(x, seed_interval(points[x], merit.key)) for x in sorted(points)]
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
    """Writes the figure as PNG, SVG or PDF by the ending of the path."""
    save_figure(draw_sweep(runs, parameter, of, title, logarithmic=logarithmic), path)


def _draw_bars(axes: Axes, runs: Mapping[str, Sequence[Metrics]], merit: Measure) -> None:
    intervals = [seed_interval(seeds, merit.key) for seeds in runs.values()]
    scale = scale_for(merit.quantity, [interval.mean for interval in intervals])
    looks = job_looks(runs)
    ends = [_top(interval) / scale.size for interval in intervals]
    reach = max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0
    for place, (policy, interval) in enumerate(zip(runs, intervals, strict=True)):
        value = interval.mean / scale.size
        if not math.isfinite(value):
            axes.text(reach * 0.03, place, "-", va="center", fontsize=9)
            continue
        axes.barh(
            place,
            value,
            height=0.68,
            color=looks[policy].fill,
            hatch=looks[policy].hatch,
            edgecolor="white",
        )
        if interval.count > 1:
            half = interval.half_width / scale.size
            axes.errorbar(value, place, xerr=half, color=INK, capsize=3, linewidth=1.2)
        axes.text(
            ends[place] + reach * 0.03, place, number(value), va="center_baseline", fontsize=9
        )
    axes.set_title(scale.label(merit.title), loc="left", fontsize=10)
    axes.set_yticks(range(len(runs)), [shortened(policy, 22) for policy in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, reach * 1.32)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)


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
    # Within one decade ticks at 1, 2 and 5 may all miss the axis.
    narrow = most < 10 * least
    axes.yaxis.set_major_locator(AutoLocator() if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_points(axes: Axes, places: Sequence[float]) -> None:
    """A tick for every value that was tried, while they are few."""
    if 1 < len(places) <= 12:
        axes.set_xticks(places, [f"{place:g}" for place in places])


def _top(interval: Interval) -> float:
    return interval.high if interval.count > 1 else interval.mean
