"""Plot of a fitted profile with its measured points: time by size, and time by cap.

matplotlib is imported only for a plot, because it takes a second and planning never needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wattfold.coordinator.models.fitting import FitResult, ProfilePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES_MAX = 6
"""Maximum number of distinguishable lines in a panel. Beyond it, an even selection is drawn."""


def write_png(path: Path, result: FitResult, points: Sequence[ProfilePoint]) -> None:
    """Write a figure of two panels, 1,650 by 825 pixels. Raises OSError if that fails."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    by_size, by_cap = figure.subplots(1, 2)
    _time_by_size(by_size, result, points)
    _time_by_cap(by_cap, result, points)
    profile = result.profile
    figure.suptitle(
        f"{profile.app}: A = {profile.average_parallelism:.3g}, σ = {profile.sigma:.2f}, "
        f"T1 = {profile.t1_s:.4g} s, β = {profile.beta:.2f}"
    )
    figure.supxlabel(_caption(result), fontsize=9)
    figure.savefig(path, format="png")


def _caption(result: FitResult) -> str:
    worst = max((abs(residual) for residual in result.residuals), default=0.0)
    return (
        f"{len(result.residuals)} measured points (marks), fitted model (lines); relative "
        f"residuals: RMS {result.rms_relative_error:.1%}, largest {worst:.1%}"
    )


def _chosen(values: Sequence[float]) -> list[float]:
    ordered = sorted(set(values))
    if len(ordered) <= LINES_MAX:
        return ordered
    picks = np.linspace(0, len(ordered) - 1, LINES_MAX).round().astype(int)
    return [ordered[index] for index in picks.tolist()]


def _time_by_size(axes: Axes, result: FitResult, points: Sequence[ProfilePoint]) -> None:
    largest = max(point.size for point in points)
    sizes = np.geomspace(1.0, max(2.0, float(largest)), 120)
    for cap in _chosen([point.cap_w for point in points]):
        at_cap = [point for point in points if point.cap_w == cap]
        (line,) = axes.plot(sizes, result.profile.times_s(sizes, [cap])[:, 0], label=f"{cap:.4g} W")
        axes.plot(
            [point.size for point in at_cap],
            [point.seconds for point in at_cap],
            "o",
            color=line.get_color(),
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel(f"size ({result.profile.unit.value})")
    axes.set_ylabel("run time (s)")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(title="cap per package")


def _time_by_cap(axes: Axes, result: FitResult, points: Sequence[ProfilePoint]) -> None:
    profile = result.profile
    low = min(profile.p_low_w, *(point.cap_w for point in points))
    high = max(profile.p_high_w, *(point.cap_w for point in points))
    caps = np.linspace(low, high * 1.03, 200)
    for size in _chosen([float(point.size) for point in points]):
        at_size = [point for point in points if point.size == size]
        (line,) = axes.plot(caps, profile.times_s([size], caps)[0], label=f"{size:.0f}")
        axes.plot(
            [point.cap_w for point in at_size],
            [point.seconds for point in at_size],
            "o",
            color=line.get_color(),
        )
    for power_w, name in ((profile.p_low_w, "$p_l$"), (profile.p_high_w, "$p_h$")):
        axes.axvline(power_w, color="grey", linestyle=":", linewidth=1)
        axes.annotate(
            name,
            (power_w, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
        )
    axes.set_xlabel("cap per package (W)")
    axes.set_ylabel("run time (s)")
    axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(title=profile.unit.value, loc="center left", bbox_to_anchor=(1.0, 0.5))
