"""Common style, width and titles of plots of simulated runs, and reproducible files.

Plots are ten inches wide with text of at least eight points, so they are readable at 1000 pixels.
matplotlib is imported only when a plot is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattfold.contract.units import w_from_uw
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.results.scales import Quantity, scale_for
from wattfold.simulator.workloads.swf_writer import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES = 10.0
DPI = 150
INK = "#222222"
GRID = "#DDDDDD"
_NO_DATE: dict[str, dict[str, Any]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "svg.fonttype": "none",
    # IDs in the file are derived from this value and not random.
    "svg.hashsalt": "wattfold",
}


@contextmanager
def figure_of(height_inches: float, title: str = "") -> Iterator[Figure]:
    """Yield an empty figure of the common width, in the common style while it is drawn."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(title, fontsize=13, fontweight="bold", x=0.01, ha="left")
        yield figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of the path, without a date.

    The file appears complete or not at all. Raises ValueError for any other ending, and LogError if
    the file cannot be written.
    """
    import matplotlib as mpl

    if path.suffix not in _NO_DATE:
        raise ValueError(f"a plot must be a .png, .svg or .pdf file, got {str(path)!r}")
    with mpl.rc_context(_STYLE), whole_file(path) as stream:
        figure.savefig(stream, format=path.suffix[1:], dpi=DPI, metadata=_NO_DATE[path.suffix])


def machine_title(records: Sequence[RunRecord], workload: str = "") -> str:
    """Return a title: `KTH SP2 on 100 nodes under 11.6 kW`; a changing budget is a range."""
    nodes = sorted({record.machine.nodes for record in records})
    parts = [workload] if workload else []
    parts.append(f"{'on ' if workload else ''}{_range([f'{n:,}' for n in nodes])} nodes")
    budgets = [record.series.budget_uw for record in records if len(record.series.budget_uw)]
    if budgets:
        least, most = min(int(b.min()) for b in budgets), max(int(b.max()) for b in budgets)
        ends = sorted({w_from_uw(least), w_from_uw(most)})
        scale = scale_for(Quantity.POWER, ends)
        parts.append(f"under {_range([scale.text(end) for end in ends])} {scale.unit}")
    return " ".join(parts)


def shortened(text: str, most: int) -> str:
    """Return a text cut to this number of characters."""
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"


def only_value_grid(axes: Axes) -> None:
    """Draw faint lines for the values."""
    axes.grid(axis="y", color=GRID, linewidth=0.8)


def _range(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"
