"""Plots of ANDREAS and its baselines: costs, completion and times of calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.andreas.case import GAP, SCENARIO
from wattfold.simulator.papers.andreas.evaluation import Findings
from wattfold.simulator.papers.andreas.report import grouped
from wattfold.simulator.papers.andreas.settings import (
    CAPPED,
    EDF,
    FIFO,
    OURS,
    PAPERS,
    PRIORITY,
    UNAWARE,
    WAITING,
)
from wattfold.simulator.papers.samples import MissingError
from wattfold.simulator.sweep.case import Values

Rows = Sequence[tuple[str, int, str, Values]]
"""Rows as returned by `grouped`."""
_COLORS = {
    FIFO: "#D55E00",
    EDF: "#E69F00",
    PRIORITY: "#CC79A7",
    OURS: "#0072B2",
    PAPERS: "#56B4E9",
    **dict(zip(WAITING, ("#8C564B", "#7F7F7F", "#BCBD22"), strict=True)),
    UNAWARE: "#56B4E9",
    CAPPED: "#009E73",
}
_PANELS = (
    ("energy_eur", "energy, EUR", 1.0),
    ("total_eur", "total cost, EUR", 1.0),
    ("makespan_h", "all done after, h", 1.0),
    ("call_s", "mean time of a call, ms", 1e3),
)


def draw(findings: Findings, folder: Path) -> list[Path]:
    """Draw the plots of a family. Returns the files. Raises OSError and LogError."""
    note = f"means over {len(findings.plan.seeds_of(findings.family))} seeds"
    if findings.plan.quick:
        note = "QUICK: small machines and few seeds, not the evaluation"
    if findings.family == GAP:
        return _gaps(findings, folder, note if findings.plan.quick else "cumulative distribution")
    written = []
    rows = grouped(findings)
    names = list(dict.fromkeys(what for what, _, _, _ in rows))
    parts = names if findings.family == SCENARIO else [""]
    for part in parts:
        path = folder / f"{(part or findings.family).replace(' ', '-')}.png"
        with figure_of(6.2, f"{findings.title} {part}".rstrip() + f"\n{note}") as figure:
            axes = figure.subplots(2, 2)
            for panel, (measure, label, scale) in zip(axes.flat, _PANELS, strict=True):
                of = [row for row in rows if row[0] == part or not part]
                if part:
                    _lines(panel, of, measure, scale)
                else:
                    _bars(panel, of, names, measure, scale)
                panel.set_ylabel(label)
                if measure == "total_eur":
                    panel.set_yscale("log")
                only_value_grid(panel)
            axes.flat[0].legend(frameon=False, fontsize="x-small")
            save_figure(figure, path)
        written.append(path)
    return written


def _lines(axes: Axes, rows: Rows, measure: str, scale: float) -> None:
    """Draw a line per policy over the nodes."""
    for policy in dict.fromkeys(row[2] for row in rows):
        of = [(row[1], row[3][measure] * scale) for row in rows if row[2] == policy]
        axes.plot(
            [nodes for nodes, _ in of],
            [value for _, value in of],
            label=policy,
            color=_COLORS[policy],
            marker="o",
            markersize=3,
            linewidth=1.3,
        )
    axes.set_xlabel("nodes")


def _bars(
    axes: Axes,
    rows: Rows,
    names: list[str],
    measure: str,
    scale: float,
) -> None:
    """Draw bars of every policy by case."""
    policies = list(dict.fromkeys(row[2] for row in rows))
    width = 0.8 / max(len(policies), 1)
    for place, policy in enumerate(policies):
        of = {row[0]: row[3][measure] * scale for row in rows if row[2] == policy}
        at = [number for number, name in enumerate(names) if name in of]
        axes.bar(
            [number - 0.4 + width * (place + 0.5) for number in at],
            [of[names[number]] for number in at],
            width=width,
            label=policy,
            color=_COLORS[policy],
        )
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize="x-small")


def _gaps(findings: Findings, folder: Path, note: str) -> list[Path]:
    path = folder / "gap.png"
    with figure_of(3.2, f"{findings.title}\n{note}") as figure:
        axes = figure.subplots(1, 1)
        for name, label, color in (
            ("gap", OURS, _COLORS[OURS]),
            ("gap_greedy", "the paper's search", _COLORS[PAPERS]),
        ):
            try:
                values = np.sort(findings.samples.sample(findings.plan.gaps(), name)) * 100
            except MissingError:
                continue
            share = np.arange(1, len(values) + 1) / len(values) * 100
            axes.step(values, share, where="post", label=label, color=color)
        # Ours are zero and the others span four orders of magnitude.
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xlabel("gap, %")
        axes.set_ylabel("problems with at most that, %")
        axes.legend(frameon=False)
        only_value_grid(axes)
        save_figure(figure, path)
    return [path]
