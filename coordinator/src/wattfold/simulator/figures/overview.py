"""Plot of simulated runs over time: queue, power with the budget, and busy nodes.

Runs are stacked with the same axes, so that they compare. A series with more entries than the plot
has columns is drawn as a band from its minimum to its maximum, with its mean as a line. So no peak
is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattfold.contract.units import NS_PER_S, UW_PER_W
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.figures.style import (
    figure_of,
    machine_title,
    only_value_grid,
    save_figure,
    shortened,
)
from wattfold.simulator.results.envelope import envelope
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.results.scales import Quantity, Scale, scale_for
from wattfold.simulator.workloads.workload import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STRETCHES = 600
"""More columns are not visible in a plot 1000 pixels wide, and they enlarge vector files."""
_HEIGHTS = (0.85, 1.35, 0.85)
_MARGIN_INCHES = 1.3
_RUN_MARGIN_INCHES = 0.55
_QUEUE = "#CC79A7"
_COMMITTED = "#0072B2"
_DRAWN = "#E69F00"
_NODES = "#009E73"
_BUDGET = "#222222"
_DASHES: Any = (0, (4, 2))
_LIMIT = "budget, nodes of the machine"


def draw_overview(records: Sequence[RunRecord], workload: str = "") -> Figure:
    """Return the figure of the runs, three panels each. Raises ValueError without a run."""
    if not records:
        raise ValueError("an overview needs at least one run")
    height = len(records) * (sum(_HEIGHTS) + _RUN_MARGIN_INCHES) + _MARGIN_INCHES
    start_ns = min(_first_ns(record) for record in records)
    span_s = max((_last_ns(record) - start_ns) / NS_PER_S for record in records) or 1.0
    time = scale_for(Quantity.TIME, [span_s])
    power = scale_for(
        Quantity.POWER,
        [_most(getattr(r.series, n)) / UW_PER_W for r in records for n in _POWERS],
    )
    with figure_of(height, machine_title(records, workload)) as figure:
        panels = figure.subplots(
            3 * len(records),
            1,
            sharex=True,
            squeeze=False,
            height_ratios=_HEIGHTS * len(records),
        )[:, 0].tolist()
        for place, record in enumerate(records):
            run = panels[3 * place : 3 * place + 3]
            _draw_run(run, _Times(record, start_ns, time, span_s), record, power)
        for kind in range(3):
            _same_height(panels[kind::3])
        panels[0].set_xlim(0, span_s / time.size)
        for panel in panels[:-1]:
            panel.tick_params(axis="x", length=0)
        panels[-1].set_xlabel(time.label("time since the first submission"))
        figure.align_ylabels(panels)
        _legend(figure, panels[1], banded=any(map(_banded, records)))
    return figure


def save_overview(path: Path, records: Sequence[RunRecord], workload: str = "") -> None:
    """Write the figure as PNG, SVG or PDF, by the ending of the path."""
    save_figure(draw_overview(records, workload), path)


_POWERS = ("committed_uw", "drawn_uw", "budget_uw")


class _Times:
    """Time axis of one run, in the unit of the plot."""

    def __init__(self, record: RunRecord, start_ns: int, scale: Scale, span_s: float) -> None:
        self.times: Floats = (record.series.time_ns - start_ns) / NS_PER_S / scale.size
        self.end = (_last_ns(record) - start_ns) / NS_PER_S / scale.size
        self.whole = span_s / scale.size


def _draw_run(panels: Sequence[Axes], times: _Times, record: RunRecord, power: Scale) -> None:
    from matplotlib.ticker import MaxNLocator

    queue, watts, nodes = panels
    run = metrics_of(record)
    queue.set_title(shortened(record.policy, 60), loc="left")
    queue.set_title(
        f"mean completion {_in_own_unit(run.response_s_mean)}, "
        f"makespan {_in_own_unit(run.makespan_s)}",
        loc="right",
        fontsize=9.5,
        fontweight="normal",
    )
    series = record.series
    _steps(queue, times, series.queued, color=_QUEUE, filled=True)
    queue.set_ylabel("jobs\nqueued")
    per = power.size * UW_PER_W
    _steps(watts, times, series.drawn_uw / per, color=_DRAWN, label="drawn", filled=True)
    _steps(watts, times, series.committed_uw / per, color=_COMMITTED, label="committed")
    _steps(watts, times, series.budget_uw / per, color=_BUDGET, label=_LIMIT, dashes=_DASHES)
    watts.set_ylabel(f"power\n{power.unit}")
    _steps(nodes, times, series.nodes_busy, color=_NODES, filled=True)
    nodes.axhline(record.machine.nodes, color=_BUDGET, linewidth=1.0, linestyle=_DASHES)
    nodes.set_ylabel("nodes\nbusy")
    for panel in panels:
        only_value_grid(panel)
        panel.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=panel is not watts))
        if times.end < times.whole * 0.999:
            panel.axvline(times.end, color="#888888", linewidth=0.8, linestyle=":")


def _in_own_unit(time_s: float) -> str:
    """A time in the unit that suits it: a short mean is nothing in the unit of a long makespan."""
    scale = scale_for(Quantity.TIME, [time_s])
    return f"{scale.text(time_s)} {scale.unit}"


def _steps(
    axes: Axes,
    times: _Times,
    values: Ints | Floats,
    *,
    color: str,
    label: str = "",
    filled: bool = False,
    dashes: Any = "-",
) -> None:
    curve = envelope(times.times, values.astype(float), times.end, _STRETCHES)
    if not len(curve.mean):
        return
    ends = curve.times
    mean, low, high = ([*part.tolist(), part[-1]] for part in (curve.mean, curve.low, curve.high))
    if curve.exact and filled:
        axes.fill_between(ends, mean, step="post", color=color, alpha=0.22, linewidth=0)
    elif (curve.low < curve.high).any():
        axes.fill_between(ends, low, high, step="post", color=color, alpha=0.4, linewidth=0)
    axes.step(
        ends,
        mean,
        where="post",
        color=color,
        linewidth=1.2 if curve.exact else 0.9,
        linestyle=dashes,
        label=label or "_",
    )


def _same_height(panels: Sequence[Axes]) -> None:
    """Set common axes from 0 to at least 1, so that an empty queue has an axis too."""
    top = max(1.0, *(panel.get_ylim()[1] for panel in panels))
    for panel in panels:
        panel.set_ylim(0, top)


def _legend(figure: Figure, watts: Axes, *, banded: bool) -> None:
    from matplotlib.patches import Patch

    handles, labels = watts.get_legend_handles_labels()
    handles, labels = handles[::-1], labels[::-1]
    if banded:
        handles.append(Patch(facecolor="#888888", alpha=0.4))
        labels.append("minimum to maximum (line: mean)")
    if handles:
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=len(handles),
            frameon=False,
            fontsize=9.5,
        )


def _banded(record: RunRecord) -> bool:
    return len(record.series.time_ns) > _STRETCHES


def _first_ns(record: RunRecord) -> int:
    return int(record.jobs.submit_ns.min()) if len(record.jobs) else 0


def _last_ns(record: RunRecord) -> int:
    """Return the last end of a job; if some have not ended, the last entry of the series."""
    ends = record.columns.end_ns
    last = int(ends.max()) if len(ends) else 0
    if (ends < 0).any() and len(record.series.time_ns):
        last = max(last, int(record.series.time_ns[-1]))
    return max(last, _first_ns(record))


def _most(values: Ints) -> float:
    return float(values.max()) if len(values) else 0.0
