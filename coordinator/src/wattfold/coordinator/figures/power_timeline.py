"""The plot of a run: power against the budget, limits of the nodes, and the job on each core.

One column a policy with common axes, so that the eye compares. Draws what it is given and computes
no result. matplotlib is only imported when a picture is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattfold.coordinator.figures.job_colors import JobLook, job_looks
from wattfold.coordinator.figures.run_record import CoreSpan, PolicyRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = tuple[str, int]
"""A core: its node and its number there."""

WIDTH_INCHES = 16.0
DPI = 100
_POWER_INCHES = 3.0
_LIMITS_INCHES = 2.0
_ROW_INCHES = 0.26
_GANTT_INCHES_LEAST = 1.6
_GANTT_INCHES_MOST = 9.0
_MARGIN_INCHES = 1.75
_ROWS_WITH_NUMBERS = 48
_LABEL_CHARACTER_INCHES = 0.125
_INK = "#222222"
_BUDGET = "#B00020"
_COMMITTED = "#0072B2"
_MEASURED = "#009E73"
_NODES = ("#0072B2", "#56B4E9")
"""Neighbours differ; nodes are told apart by their order."""

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "hatch.linewidth": 0.6,
}


def draw_power_timeline(runs: Sequence[PolicyRun], title: str = "") -> Figure:
    """The figure of the runs, 1600 pixels wide. Raises ValueError without a run."""
    if not runs:
        raise ValueError("a power timeline needs at least one run")
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = _rows(runs)
    looks = job_looks(span.job for run in runs for span in _by_start(run.spans))
    gantt_inches = min(max(len(rows) * _ROW_INCHES, _GANTT_INCHES_LEAST), _GANTT_INCHES_MOST)
    legend_rows = -(-len(looks) // _legend_columns(looks))
    heights = [_POWER_INCHES, _LIMITS_INCHES, gantt_inches]
    height = sum(heights) + _MARGIN_INCHES + 0.26 * legend_rows
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(
            len(heights),
            len(runs),
            squeeze=False,
            sharex=True,
            sharey="row",
            height_ratios=heights,
        )
        span_s = max((max(run.end_s, _last_sample_s(run)) for run in runs), default=1.0) or 1.0
        for column, run in enumerate(runs):
            _draw_power(axes[0][column], run, span_s)
            _draw_limits(axes[1][column], run, span_s)
            _draw_cores(axes[2][column], run, rows, looks, span_s / _axis_inches(len(runs)))
        _finish(figure, axes.tolist(), rows, looks, span_s, title, runs[0].limits.nodes)
    return figure


def save_power_timeline(path: Path, runs: Sequence[PolicyRun], title: str = "") -> None:
    """Write the figure as PNG, SVG or PDF, depending on the suffix of the path."""
    draw_power_timeline(runs, title).savefig(path, dpi=DPI)


def _draw_power(axes: Axes, run: PolicyRun, span_s: float) -> None:
    axes.set_title(run.policy, loc="left")
    times = [point.time_s for point in run.power]
    committed = [point.committed_w for point in run.power]
    measured = [point.measured_w for point in run.power]
    axes.fill_between(times, measured, step="post", color=_MEASURED, alpha=0.18, linewidth=0)
    axes.step(times, measured, where="post", color=_MEASURED, linewidth=1.3, label="measured power")
    axes.step(
        times, committed, where="post", color=_COMMITTED, linewidth=1.8, label="committed power"
    )
    _draw_budget(axes, run, span_s)
    axes.set_title(
        f"finished after {run.end_s:.0f} s", loc="right", fontsize=11, fontweight="normal"
    )


def _draw_limits(axes: Axes, run: PolicyRun, span_s: float) -> None:
    """Stack what the limits of each node allow: the upper edge is their sum."""
    points = run.limits.points
    if points:
        times = [*(point.time_s for point in points), run.end_s]
        columns = zip(*(point.node_w for point in [*points, points[-1]]), strict=True)
        colors = [_NODES[place % len(_NODES)] for place in range(len(run.limits.nodes))]
        axes.stackplot(
            times,
            *columns,
            step="post",
            colors=colors,
            alpha=0.75,
            edgecolor="white",
            linewidth=0.5,
        )
    _draw_budget(axes, run, span_s)


def _draw_budget(axes: Axes, run: PolicyRun, span_s: float) -> None:
    budget_times = [point.time_s for point in run.budget] + [span_s]
    budgets = [point.budget_w for point in run.budget]
    if budgets:
        axes.step(
            budget_times,
            [*budgets, budgets[-1]],
            where="post",
            color=_BUDGET,
            linewidth=2.0,
            linestyle=(0, (5, 2)),
            label="power budget",
        )
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_cores(
    axes: Axes, run: PolicyRun, rows: Sequence[Row], looks: dict[str, JobLook], s_per_inch: float
) -> None:
    from matplotlib.patheffects import withStroke

    places = {row: place for place, row in enumerate(rows)}
    spans = _joined(run.spans)
    for span in spans:
        look = looks[span.job]
        axes.broken_barh(
            [(span.start_s, span.end_s - span.start_s)],
            (places[span.node, span.cpu] - 0.44, 0.88),
            facecolor=look.fill,
            edgecolor="white",
            hatch=look.hatch,
            linewidth=0.5,
        )
    for span in _labelled(spans):
        width_inches = (span.end_s - span.start_s) / s_per_inch
        if width_inches > len(span.job) * _LABEL_CHARACTER_INCHES + 0.1:
            axes.text(
                (span.start_s + span.end_s) / 2,
                places[span.node, span.cpu],
                span.job,
                color=looks[span.job].ink,
                ha="center",
                va="center_baseline",
                fontsize=9,
                clip_on=True,
                # Keeps the name readable on a pattern.
                path_effects=[withStroke(linewidth=2.5, foreground=looks[span.job].fill)],
            )
    axes.axvline(run.end_s, color="#666666", linewidth=1.0, linestyle=":")
    for place in range(1, len(rows)):
        if rows[place][0] != rows[place - 1][0]:
            axes.axhline(place - 0.5, color="#888888", linewidth=0.8)


def _finish(
    figure: Figure,
    axes: Sequence[Sequence[Axes]],
    rows: Sequence[Row],
    looks: dict[str, JobLook],
    span_s: float,
    title: str,
    nodes: Sequence[str],
) -> None:
    from matplotlib.patches import Patch

    power, limits, cores = axes
    for panel in (power[0], limits[0]):
        panel.set_ylim(bottom=0)
        panel.set_ylim(top=panel.get_ylim()[1] * 1.08)
        panel.set_ylabel("power (W)")
    power[0].set_xlim(0, span_s)
    order = f" (from bottom to top: {nodes[0]} to {nodes[-1]})" if nodes else ""
    limits[0].set_title(
        f"Power that the limits of the nodes allow{order}",
        loc="left",
        fontsize=11,
        fontweight="normal",
    )
    for panel in cores:
        panel.set_xlabel("time (s)")
        panel.tick_params(axis="y", length=0)
    cores[0].set_title("Cores of the nodes, by job", loc="left", fontsize=11, fontweight="normal")
    _label_rows(cores[0], rows)
    handles, _ = power[0].get_legend_handles_labels()
    power[0].legend(handles=handles[::-1], loc="lower right", framealpha=0.9, fontsize=10)
    patches = [
        Patch(facecolor=look.fill, hatch=look.hatch, edgecolor="white", label=job)
        for job, look in looks.items()
    ]
    if patches:
        figure.legend(
            handles=patches,
            loc="outside lower center",
            ncols=_legend_columns(looks),
            frameon=False,
            fontsize=10,
        )
    if title:
        figure.suptitle(title, fontsize=15, fontweight="bold", x=0.01, ha="left")


def _label_rows(axes: Axes, rows: Sequence[Row]) -> None:
    """Numbers of the cores, and the name of each node in the middle of its rows."""
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    numbers = len(rows) <= _ROWS_WITH_NUMBERS
    axes.set_yticks(
        list(range(len(rows))) if numbers else [],
        labels=[str(cpu) for _, cpu in rows] if numbers else [],
        fontsize=9,
    )
    axes.annotate(
        "node   core",
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
    )
    place = 0
    for node, group in groupby(rows, key=lambda row: row[0]):
        count = len(list(group))
        axes.annotate(
            _shortened(node, count),
            xy=(0, place + (count - 1) / 2),
            xycoords=("axes fraction", "data"),
            xytext=(-44, 0),
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
        )
        place += count


def _shortened(node: str, rows: int) -> str:
    """Shorten a name so that it does not overlap with the next one. The ends of names differ."""
    most = max(3, int(rows * _ROW_INCHES / _LABEL_CHARACTER_INCHES))
    return node if len(node) <= most else "…" + node[1 - most :]


def _rows(runs: Sequence[PolicyRun]) -> list[Row]:
    return sorted({(span.node, span.cpu) for run in runs for span in run.spans})


def _by_start(spans: Sequence[CoreSpan]) -> list[CoreSpan]:
    return sorted(spans, key=lambda span: (span.start_s, span.node, span.cpu))


def _joined(spans: Sequence[CoreSpan]) -> list[CoreSpan]:
    """Join adjacent spans of a job on a core to a single bar."""
    joined: list[CoreSpan] = []
    for span in sorted(spans, key=lambda span: (span.node, span.cpu, span.start_s)):
        last = joined[-1] if joined else None
        same = last and (last.job, last.node, last.cpu) == (span.job, span.node, span.cpu)
        if last and same and span.start_s <= last.end_s + 1e-6:
            joined[-1] = CoreSpan(
                job=last.job,
                node=last.node,
                cpu=last.cpu,
                start_s=last.start_s,
                end_s=max(last.end_s, span.end_s),
            )
        else:
            joined.append(span)
    return joined


def _labelled(spans: Sequence[CoreSpan]) -> list[CoreSpan]:
    """Return the longest bar of every job on every node, which has the most room for the name."""
    longest: dict[tuple[str, str], CoreSpan] = {}
    for span in spans:
        best = longest.get((span.job, span.node))
        if best is None or span.end_s - span.start_s > best.end_s - best.start_s + 1e-9:
            longest[span.job, span.node] = span
    return list(longest.values())


def _last_sample_s(run: PolicyRun) -> float:
    return max((point.time_s for point in run.power), default=0.0)


def _axis_inches(columns: int) -> float:
    return (WIDTH_INCHES - 1.2) / columns - 0.2


def _legend_columns(looks: dict[str, JobLook]) -> int:
    widest = max((len(job) for job in looks), default=1)
    most = max(1, min(10, int(WIDTH_INCHES / (0.6 + 0.09 * widest))))
    lines = max(1, -(-len(looks) // most))
    return max(1, -(-len(looks) // lines))
