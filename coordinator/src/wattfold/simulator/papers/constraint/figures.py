"""Plots of the measures of the CP scheduler's evaluation by instance."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.constraint.case import short
from wattfold.simulator.papers.constraint.evaluation import Findings
from wattfold.simulator.papers.constraint.report import found
from wattfold.simulator.papers.constraint.settings import (
    COLUMNS,
    CP,
    FIFO,
    LOOK,
    OURS,
    PREDICTED,
    WALLTIME,
    WEIGHTED,
)

_COLORS = {
    FIFO: "#D55E00",
    LOOK: "#E69F00",
    WALLTIME: "#CC79A7",
    OURS: "#0072B2",
    CP: "#009E73",
    PREDICTED: "#56B4E9",
    **dict(zip(WEIGHTED, ("#0072B2", "#56B4E9", "#009E73", "#F0E442"), strict=True)),
}
_PANELS = (("wqt", "WQT", 1.0), ("nl", "NL, late jobs", 1.0), ("tr_s", "TR, h", 1 / 3600))
_TIMES = (("ao_s", "mean decision, ms", 1e3), ("ao_max_s", "longest decision, ms", 1e3))


def draw(findings: Findings, folder: Path) -> list[Path]:
    """Draw waits, and times of decisions. Returns the files. Raises OSError and LogError."""
    note = "QUICK: few instances, not the evaluation" if findings.plan.quick else "lower is better"
    written = []
    for name, panels, title in (
        ("waits", _PANELS, "Waits relative to the expected waits of queues"),
        ("decisions", _TIMES, "Times of decisions"),
    ):
        path = folder / f"{name}.png"
        with figure_of(2.2 * len(panels), f"{findings.title}: {title}\n{note}") as figure:
            found_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
            for axes, (measure, label, scale) in zip(found_axes[:, 0], panels, strict=True):
                _panel(axes, findings, measure, scale)
                axes.set_ylabel(label)
            if found_axes[0, 0].containers:
                # In a panel it would cover bars.
                figure.legend(
                    *found_axes[0, 0].get_legend_handles_labels(),
                    loc="outside lower center",
                    ncols=len(COLUMNS),
                    frameon=False,
                )
            save_figure(figure, path)
        written.append(path)
    return written


def _panel(axes: Axes, findings: Findings, measure: str, scale: float) -> None:
    """Draw bars of every policy by instance; a missing result has no bar."""
    instances = findings.plan.instances(findings.family)
    values = {(instance, policy): one[measure] for instance, policy, one in found(findings)}
    shown = [name for name in COLUMNS if any(policy == name for _, policy in values)]
    width = 0.8 / max(len(shown), 1)
    for place, policy in enumerate(shown):
        at = [number for number, one in enumerate(instances) if (one, policy) in values]
        axes.bar(
            [number - 0.4 + width * (place + 0.5) for number in at],
            [values[instances[number], policy] * scale for number in at],
            width=width,
            label=policy,
            color=_COLORS[policy],
        )
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=0)
    axes.set_xticks(
        range(len(instances)), [short(one) for one in instances], rotation=45, ha="right"
    )
    only_value_grid(axes)
