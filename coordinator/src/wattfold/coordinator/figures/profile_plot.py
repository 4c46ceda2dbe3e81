"""The picture of a profile: measured run times against the fitted model, by cap and size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.figures.job_colors import job_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
_CURVE_POINTS = 80
_MARKERS = "osD^vPX*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """A run at a size and cap."""

    size: int
    cap_w: float
    seconds: float


def draw_profile(
    points: Sequence[MeasuredTime], model_s: Callable[[int, float], float], app: str, unit: str
) -> Figure:
    """Time over cap, one curve a size. `model_s(size, cap_w)` is the fitted time in s."""
    if not points:
        raise ValueError(f"a profile plot of {app} needs at least one point")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 5.5), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    caps = [point.cap_w for point in points]
    curve_caps = _spread(min(caps), max(caps))
    sizes = sorted({point.size for point in points})
    looks = job_looks([str(size) for size in sizes])
    for place, size in enumerate(sizes):
        color = looks[str(size)].fill
        mine = [point for point in points if point.size == size]
        axes.plot(curve_caps, [model_s(size, cap) for cap in curve_caps], color=color)
        axes.plot(
            [point.cap_w for point in mine],
            [point.seconds for point in mine],
            _MARKERS[place % len(_MARKERS)],
            color=color,
            markeredgecolor="#222222",
            label=f"{size} {unit}" if size == 1 else f"{size} {unit}s",
        )
    axes.set_title(f"{app}: measured (marks) and model (lines)", loc="left", fontweight="bold")
    axes.set_xlabel("package cap, W")
    axes.set_ylabel("run time, s")
    axes.set_ylim(bottom=0)
    axes.grid(color="#DDDDDD", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def save_profile(
    path: Path,
    points: Sequence[MeasuredTime],
    model_s: Callable[[int, float], float],
    app: str,
    unit: str,
) -> None:
    """Writes the plot as PNG, SVG or PDF by the ending of the path."""
    draw_profile(points, model_s, app, unit).savefig(path, dpi=DPI)


def _spread(low: float, high: float) -> list[float]:
    if high <= low:
        return [low * 0.95, low * 1.05]
    return [low + (high - low) * step / (_CURVE_POINTS - 1) for step in range(_CURVE_POINTS)]
