"""Plots of Figures 4 to 7 and Tables V and VI of the paper, with intervals over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wattfold.simulator.figures.style import figure_of, save_figure
from wattfold.simulator.papers.parm.case import (
    BASELINE_MAX,
    BASELINE_MIN,
    CLUSTER_SETS,
    LARGE_SETS,
    PRICED,
)
from wattfold.simulator.papers.parm.evaluation import ExperimentFindings
from wattfold.simulator.papers.parm.outcomes import Point
from wattfold.simulator.results.intervals import Interval

_LOOKS = {
    BASELINE_MAX: ("#000000", "baseline", "o"),
    BASELINE_MIN: ("#7F7F7F", "baseline, minimum size", "s"),
    "noMM": ("#CC79A7", "noMM", "v"),
    "noSE": ("#E69F00", "noSE", "^"),
    "wSE": ("#0072B2", "wSE", "D"),
    PRICED: ("#56B4E9", "wSE, resizes priced (ours)", "P"),
    "naive": ("#D55E00", "one cap for all nodes", "x"),
}
"""Colors of Okabe and Ito; the shapes distinguish the policies in print."""
_MIN = 60.0


def draw(findings: ExperimentFindings, folder: Path) -> list[Path]:
    """Draw the plots of an experiment. Returns the files. Raises OSError."""
    seeds = len(findings.plan.seeds)
    note = f"{seeds} seeds, 95 % intervals" if seeds > 1 else "one seed"
    if findings.plan.quick:
        note = f"QUICK: few settings and seeds, not the evaluation ({note})"
    paths = []
    for name, title, drawer in _DRAWERS[findings.experiment.name]:
        with figure_of(4.2, f"{title}\n{note}") as figure:
            drawer(figure, findings.points)
            path = folder / f"{name}.png"
            save_figure(figure, path)
            paths.append(path)
    return paths


def _cluster(figure: Figure, points: Sequence[Point]) -> None:
    panels = figure.subplots(1, 3)
    for axes, (measure, title, scale) in zip(
        panels,
        (
            ("completion_s", "mean completion time, min", _MIN),
            ("response_s", "mean response time, min", _MIN),
            ("nodes", "mean nodes in use", 1.0),
        ),
        strict=True,
    ):
        _grouped_bars(axes, points, measure, scale)
        axes.set_ylabel(title)
    _legend(figure, panels[0])
    power = panels[2].twinx()
    _cap_marks(power, points)
    power.set_ylabel("mean package cap, W (diamonds)")


def _grouped_bars(axes: Axes, points: Sequence[Point], measure: str, scale: float) -> None:
    policies = [name for name in _LOOKS if any(p.policy == name for p in points)]
    width = 0.8 / max(len(policies), 1)
    for place, policy in enumerate(policies):
        for group, jobs in enumerate(CLUSTER_SETS):
            found = _find(points, jobs, policy, measure)
            if not found:
                continue
            color, label, _ = _LOOKS[policy]
            [point] = found
            axes.bar(
                group + (place - (len(policies) - 1) / 2) * width,
                point.interval.mean / scale,
                width * 0.92,
                color=color,
                yerr=_error(point.interval, scale),
                error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#555555"},
                label=label if group == 0 else None,
            )
    axes.set_xticks(range(len(CLUSTER_SETS)), CLUSTER_SETS)
    axes.set_ylim(bottom=0)


def _cap_marks(axes: Axes, points: Sequence[Point]) -> None:
    policies = [name for name in _LOOKS if any(p.policy == name for p in points)]
    width = 0.8 / max(len(policies), 1)
    for place, policy in enumerate(policies):
        for group, jobs in enumerate(CLUSTER_SETS):
            for point in _find(points, jobs, policy, "cap_w"):
                axes.plot(
                    group + (place - (len(policies) - 1) / 2) * width,
                    point.interval.mean,
                    marker="D",
                    markersize=4,
                    color="white",
                    markeredgecolor="black",
                )
    axes.set_ylim(0, 65)


def _large(figure: Figure, points: Sequence[Point]) -> None:
    panels = figure.subplots(1, len(LARGE_SETS), sharey=True)
    for axes, jobs in zip(panels, LARGE_SETS, strict=True):
        for policy in _LOOKS:
            _line(axes, _find(points, jobs, policy, "completion_s"), policy, _MIN)
        axes.set_title(jobs)
        axes.set_xlabel("arrival time scaling factor (γ)")
        axes.invert_xaxis()
    # All means must be visible; an interval may leave the plot.
    shown = [p.interval.mean / _MIN for p in points if p.measure == "completion_s"]
    panels[0].set_ylim(0, 1.05 * max(shown, default=1.0))
    panels[0].set_ylabel("mean completion time, min")
    _legend(figure, panels[0])


def _speedups(figure: Figure, points: Sequence[Point]) -> None:
    """Draw means over means; the intervals of the ratios are with the verdicts."""
    axes = figure.subplots()
    styles = dict(zip(LARGE_SETS, ("-", "--", ":"), strict=True))
    for jobs, style in styles.items():
        base = {p.x: p.interval.mean for p in _find(points, jobs, BASELINE_MAX, "completion_s")}
        for policy in ("noSE", "wSE"):
            found = [p for p in _find(points, jobs, policy, "completion_s") if p.x in base]
            color, label, marker = _LOOKS[policy]
            axes.plot(
                [p.x for p in found],
                [base[p.x] / p.interval.mean for p in found],
                style,
                color=color,
                marker=marker,
                markersize=4,
                label=f"{label}, {jobs}",
            )
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.invert_xaxis()
    axes.set_xlabel("arrival time scaling factor (γ)")
    axes.set_ylabel("speedup over the baseline")
    _legend(figure, axes)


def _naive(figure: Figure, points: Sequence[Point]) -> None:
    axes = figure.subplots()
    found = _of(points, "naive", "completion_s")
    color, label, _ = _LOOKS["naive"]
    axes.bar(
        range(len(found)),
        [p.interval.mean / _MIN for p in found],
        color=color,
        yerr=np.hstack([_error(p.interval, _MIN) for p in found]) if found else None,
        error_kw={"elinewidth": 1, "capsize": 2, "ecolor": "#555555"},
        label=label,
    )
    for point in _of(points, "wSE", "completion_s"):
        axes.axhline(point.interval.mean / _MIN, color=_LOOKS["wSE"][0], label="wSE")
        if point.interval.count > 1:
            axes.axhspan(
                point.interval.low / _MIN,
                point.interval.high / _MIN,
                color=_LOOKS["wSE"][0],
                alpha=0.2,
                linewidth=0,
            )
    axes.set_xticks(range(len(found)), [f"{p.x:g}" for p in found])
    axes.set_xlabel("package cap of all nodes, W")
    axes.set_ylabel("mean completion time, min")
    _legend(figure, axes)


def _fairness(figure: Figure, points: Sequence[Point]) -> None:
    _two_axes(figure, points, "α")


def _levels(figure: Figure, points: Sequence[Point]) -> None:
    _two_axes(figure, points, "power levels |P_j|")


def _two_axes(figure: Figure, points: Sequence[Point], label: str) -> None:
    """Draw the mean on the left axis and the maximum on the right, as in Figures 6 and 7."""
    left = figure.subplots()
    right = left.twinx()
    right.spines["right"].set_visible(True)
    for axes, measure, look, style, title in (
        (left, "completion_s", "wSE", "-", "mean completion time, min"),
        (
            right,
            "completion_s_max",
            "naive",
            "--",
            "maximum completion time, min (dashed)",
        ),
    ):
        _line(axes, _of(points, "wSE", measure), look, _MIN, style)
        axes.set_ylabel(title, color=_LOOKS[look][0])
        axes.set_ylim(bottom=0)
    left.set_xlabel(label)


def _line(
    axes: Axes,
    found: Sequence[Point],
    policy: str,
    scale: float,
    style: str = "-",
) -> None:
    if not found:
        return
    color, name, marker = _LOOKS[policy]
    xs = [p.x for p in found]
    axes.plot(
        xs,
        [p.interval.mean / scale for p in found],
        style,
        color=color,
        marker=marker,
        markersize=4,
        label=name,
    )
    if all(p.interval.count > 1 for p in found):
        axes.fill_between(
            xs,
            [p.interval.low / scale for p in found],
            [p.interval.high / scale for p in found],
            color=color,
            alpha=0.2,
            linewidth=0,
        )


def _legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend below the panels, where it covers no data."""
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )


def _find(points: Sequence[Point], jobs: str, policy: str, measure: str) -> list[Point]:
    return [p for p in _of(points, policy, measure) if p.jobs == jobs]


def _of(points: Sequence[Point], policy: str, measure: str) -> list[Point]:
    found = [p for p in points if p.policy == policy and p.measure == measure]
    return sorted(found, key=lambda p: p.x)


def _error(interval: Interval, scale: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the distances below and above the mean as a column; zeros for one seed."""
    if interval.count < 2:
        return np.zeros((2, 1))
    return np.array(
        [[(interval.mean - interval.low) / scale], [(interval.high - interval.mean) / scale]]
    )


_Drawer = Callable[[Figure, Sequence[Point]], None]
_DRAWERS: dict[str, tuple[tuple[str, str, _Drawer], ...]] = {
    "cluster": (("figure-4-cluster", "Cluster of 38 nodes, 3300 W", _cluster),),
    "large": (
        ("figure-5-completion", "Large machine, 4.75 MW", _large),
        ("table-5-speedup", "Large machine: mean completion, speedup over the baseline", _speedups),
    ),
    "naive": (("table-6-naive", "One cap for all nodes, Set1, γ 0.5", _naive),),
    "fairness": (("figure-6-fairness", "Fairness, wSE, Set1, γ 0.5", _fairness),),
    "levels": (("figure-7-levels", "Power levels, wSE, Set1, γ 0.5", _levels),),
}
"""For each experiment: the name of a file, its title, and its drawing function."""
