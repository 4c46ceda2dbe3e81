"""Plots of the small cluster of ANDREAS: jobs by node, predicted ends, and power of the nodes."""

from __future__ import annotations

from pathlib import Path

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.andreas.cluster import (
    NODES,
    ClusterRun,
    Predicted,
    cost_eur,
)

_COLORS = ("#0072B2", "#009E73", "#D55E00")


def draw_cluster(run: ClusterRun, predicted: Predicted, folder: Path) -> list[Path]:
    """Draw jobs over time, and power. Returns the file. Raises OSError and LogError."""
    path = folder / "cluster.png"
    title = (
        "The small cluster of ANDREAS, EMULATED nodes and GPUs\n"
        f"{predicted.cost_eur:.3f} EUR predicted, {cost_eur(run):.3f} EUR measured"
    )
    with figure_of(5.4, title) as figure:
        jobs, power = figure.subplots(2, 1, sharex=True)
        for place, one in enumerate(run.jobs):
            jobs.barh(place, one.ended_s - one.started_s, left=one.started_s, color="#56B4E9")
            jobs.plot(one.submitted_s, place, marker="|", color="black", markersize=9)
            jobs.plot(one.due_s, place, marker="x", color="#D55E00", markersize=6)
            jobs.plot(predicted.ended_s[one.name], place, marker="D", color="#0072B2", markersize=4)
        jobs.set_yticks(range(len(run.jobs)), [one.name for one in run.jobs])
        jobs.invert_yaxis()
        jobs.set_title(
            "bar: first start to end; | submitted, x due, diamond: predicted end", fontsize="small"
        )
        at_s = [at for at, _ in run.power]
        for place, (node, color) in enumerate(zip(NODES, _COLORS, strict=True)):
            watts = [row[place] for _, row in run.power]
            label = f"{node.name}, {node.gpus} x {node.gpu_model}"
            power.step(at_s, watts, where="post", label=label, color=color, linewidth=1.0)
        power.set_xlabel("s, in the time of the paper")
        power.set_ylabel("W with a job")
        power.legend(frameon=False, fontsize="x-small")
        only_value_grid(power)
        save_figure(figure, path)
    return [path]
