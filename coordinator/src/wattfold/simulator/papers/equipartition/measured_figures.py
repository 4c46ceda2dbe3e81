"""Plots of the measurements of resized real Charm++ jobs."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from wattfold.simulator.figures.style import figure_of, only_value_grid, save_figure
from wattfold.simulator.papers.equipartition.measured import EquipartitionMeasurements

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_NOTE = "QUICK: a preview, not the evaluation"


def draw_resizes(measured: EquipartitionMeasurements, folder: Path) -> list[Path]:
    """Draw time without work by processors and data, as Tables 1 to 4.

    Raises OSError and LogError.
    """
    path = folder / "resize-time.png"
    with figure_of(
        4.2, _title(measured, "Time without work while a job shrinks and expands")
    ) as figure:
        for axes, grows, name in zip(
            figure.subplots(1, 2), (False, True), ("shrink", "expand"), strict=True
        ):
            for color, amount in zip(
                _COLORS, sorted({o.pe_bytes for o in measured.resizes}), strict=False
            ):
                seen = [o for o in measured.resizes if o.pe_bytes == amount and o.grows is grows]
                axes.plot(
                    [max(one.pes_from, one.pes_to) for one in seen],
                    [one.stalled_s * 1e3 for one in seen],
                    "o",
                    color=color,
                    label=f"{amount / 1e6:g} MB a processor",
                    alpha=0.6,
                )
            axes.set_title(name)
            axes.set_xlabel("processors, between all and half of them")
            axes.set_ylabel("ms")
            axes.set_xticks(sorted({max(o.pes_from, o.pes_to) for o in measured.resizes}))
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False)
            only_value_grid(axes)
        save_figure(figure, path)
    return [path]


def draw_residual(measured: EquipartitionMeasurements, folder: Path) -> list[Path]:
    """Draw the load on a vacated processor, as Figure 3. Raises OSError and LogError."""
    path = folder / "residual-load.png"
    title = _title(measured, "Load of the residual process on a vacated processor (Figure 3)")
    with figure_of(3.8, title) as figure:
        axes = figure.subplots()
        for color, one in zip(_COLORS, measured.residual, strict=False):
            step = f", {one.step_s * 1e3:.0f} ms" if one.step_s else ""
            at_s = [one.window_s * (index + 0.5) for index in range(len(one.loads))]
            percent = [load * 100 for load in one.loads]
            axes.plot(at_s, percent, color=color, linewidth=1, label=f"{one.program}{step}")
        axes.set_xlabel("s")
        axes.set_ylabel("% of a core")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
        only_value_grid(axes)
        save_figure(figure, path)
    return [path]


def draw_sharing(measured: EquipartitionMeasurements, at: int, folder: Path) -> list[Path]:
    """Draw utilization and throughput over time, as Figures 4 and 5.

    Raises OSError and LogError.
    """
    path, sharing = folder / "sharing.png", measured.sharing[at]
    title = _title(measured, f"Two jobs share {sharing.pes} processors (Figures 4 and 5)")
    with figure_of(7.0, title) as figure:
        held, load, throughput = figure.subplots(3, 1, sharex=True)
        for color, job in zip(_COLORS, sharing.jobs, strict=False):
            held.step(*_axes_of(job.held), where="post", color=color, label=job.name)
            load.plot(*_axes_of(job.load, 100.0), color=color)
            throughput.plot(*_axes_of(job.throughput), color=color)
        held.legend(frameon=False)
        for axes, words in (
            (held, "processors held"),
            (load, "% of the shared one"),
            (throughput, "steps/s"),
        ):
            axes.set_ylabel(words)
            axes.set_ylim(bottom=0)
            only_value_grid(axes)
            _marked(axes, sharing.arrives_s, sharing.ended_s)
        throughput.set_xlabel("s")
        save_figure(figure, path)
    return [path]


def _axes_of(
    series: tuple[tuple[float, float], ...], scale: float = 1.0
) -> tuple[list[float], list[float]]:
    return [at_s for at_s, _ in series], [value * scale for _, value in series]


def _marked(axes: Axes, *times_s: float) -> None:
    """Mark the arrival and the end of the second job."""
    for at_s in times_s:
        axes.axvline(at_s, color="#888888", linewidth=0.8, linestyle=":")


def _title(measured: EquipartitionMeasurements, text: str) -> str:
    where = f"{measured.machine.processor}, {measured.machine.cores} cores, charm4py"
    return f"{text}\n{_NOTE if measured.quick else where}"
