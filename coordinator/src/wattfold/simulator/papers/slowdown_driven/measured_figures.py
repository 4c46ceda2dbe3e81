"""Plots of real programs under static backfill and under sharing: measures, and job timelines."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.slowdown_driven.measured import MeasuredRuns, RealRun
from wattfold.simulator.papers.slowdown_driven.measured_claims import (
    PUBLISHED,
    SHARED,
    STATIC,
    WORDS,
    ratio_of,
)

_WAITS, _ALONE, _SHARES = "#CCCCCC", "#0072B2", "#D55E00"


def draw_shared(measured: MeasuredRuns, folder: Path) -> list[Path]:
    """Draw sharing over static backfill, and the jobs of the first seed.

    Raises OSError and LogError.
    """
    path = folder / "real-programs.png"
    note = "QUICK: a preview, not the evaluation" if measured.quick else "experiment d in miniature"
    first = [measured.of(policy)[0] for policy in (STATIC, SHARED)]
    with figure_of(6.0, f"Real programs, static backfill and sharing\n{note}") as figure:
        grid = figure.add_gridspec(2, 2, width_ratios=(1, 2.2))
        _ratios(figure.add_subplot(grid[:, 0]), measured)
        for row, run in enumerate(first):
            axes = figure.add_subplot(grid[row, 1])
            _jobs(axes, run, max(one.makespan_s for one in first))
            if row == 0:
                axes.legend(loc="upper right", frameon=False, fontsize=8)
            else:
                axes.set_xlabel("s since the first submission")
        save_figure(figure, path)
    return [path]


def _ratios(axes: Axes, measured: MeasuredRuns) -> None:
    for place, (measure, published) in enumerate(PUBLISHED.items()):
        interval = ratio_of(measured, measure)
        error = [[interval.mean - interval.low], [interval.high - interval.mean]]
        axes.bar(
            place,
            interval.mean,
            0.7,
            color=_ALONE,
            yerr=error if interval.count > 1 else None,
            error_kw={"elinewidth": 1, "capsize": 3, "ecolor": "#555555"},
        )
        # The legend has one entry for all of them.
        label = "_" if place else "published"
        axes.hlines(published, place - 0.42, place + 0.42, "black", linestyle="--", label=label)
    axes.axhline(1.0, color="black", linewidth=0.8)
    names = [word.removeprefix("mean ") for word in WORDS.values()]
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_title("sharing over static backfill", loc="left")
    axes.set_ylim(0, 1.15 * max(axes.get_ylim()[1], 1.0))
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    only_value_grid(axes)


def _jobs(axes: Axes, run: RealRun, most_s: float) -> None:
    """Draw a line for each job in order of submission; thicker with two nodes."""
    color = _SHARES if run.policy == SHARED else _ALONE
    for place, job in enumerate(sorted(run.jobs, key=lambda job: job.submitted_s)):
        first = place == 0
        axes.barh(
            place,
            job.started_s - job.submitted_s,
            0.35,
            left=job.submitted_s,
            color=_WAITS,
            label="waits" if first else None,
        )
        axes.barh(
            place,
            job.ended_s - job.started_s,
            0.45 if job.nodes == 1 else 0.9,
            left=job.started_s,
            color=color,
            label="runs (thick: on two nodes)" if first else None,
        )
    axes.set_xlim(0, most_s * 1.02)
    axes.set_yticks(range(0, len(run.jobs), 5 if len(run.jobs) > 8 else 1))
    axes.invert_yaxis()
    axes.set_ylabel("job")
    axes.set_title(f"{run.policy}, seed {run.seed}", loc="left")
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
