"""Contents of the plots of simulated runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.results.records import record, small

from wattfold.simulator.engine.record import RunRecord, Series
from wattfold.simulator.figures.comparison import (
    draw_sweep,
    save_sweep,
)
from wattfold.simulator.figures.heat_maps import (
    draw_category_ratios,
    draw_heat_maps,
    save_heat_maps,
)
from wattfold.simulator.figures.overview import draw_overview, save_overview
from wattfold.simulator.results.categories import categories
from wattfold.simulator.results.metrics import Metrics, metrics_of
from wattfold.simulator.workloads.errors import LogError


def seeds(*values: float) -> list[Metrics]:
    base = metrics_of(small())
    return [replace(base, seed=i, response_s_mean=value) for i, value in enumerate(values)]


def long_run(entries: int) -> RunRecord:
    run = small()
    rng = np.random.default_rng(1)
    count = rng.integers(0, 4, entries)
    return replace(
        run,
        series=Series(
            time_ns=np.linspace(100e9, 304e9, entries).astype(np.int64),
            queued=count,
            running=count,
            nodes_busy=count,
            committed_uw=count * 10**8,
            drawn_uw=count * 10**7,
            budget_uw=np.full(entries, 464_000_000),
        ),
    )


def test_three_panels_a_run_with_common_axes() -> None:
    figure = draw_overview([small(), small(policy="parm")], "KTH")
    assert figure.get_suptitle() == "KTH on 4 nodes under 400 to 464 W"
    assert [axes.get_ylabel() for axes in figure.axes[:3]] == [
        "jobs\nqueued",
        "power\nW",
        "nodes\nbusy",
    ]
    assert [axes.get_title(loc="left") for axes in figure.axes[::3]] == ["easy", "parm"]
    assert figure.axes[0].get_title(loc="right") == "mean completion 126 s, makespan 3.400 min"
    assert figure.axes[1].get_ylim() == figure.axes[4].get_ylim()
    assert figure.axes[5].get_xlabel() == "time since the first submission, min"
    # The time axis begins with the first submission.
    budget = next(line for line in figure.axes[1].lines if "budget" in str(line.get_label()))
    assert np.allclose(budget.get_xdata()[[0, 4, -1]], [0, 104 / 60, 204 / 60])
    assert list(budget.get_ydata())[:5] == [464, 464, 464, 464, 400]


def test_a_long_series_becomes_a_band_with_few_points() -> None:
    figure = draw_overview([long_run(50_000)])
    committed = next(line for line in figure.axes[1].lines if line.get_label() == "committed")
    assert len(committed.get_xdata()) < 1000
    top = max(
        path.vertices[:, 1].max() for c in figure.axes[1].collections for path in c.get_paths()
    )
    assert top == 300
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words[-1].startswith("minimum to maximum")
    short = draw_overview([small()]).legends[0]
    assert len(short.get_texts()) == 3


def test_an_overview_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        draw_overview([])
    figure = draw_overview([record([])])
    assert len(figure.axes) == 3
    assert figure.get_suptitle() == "4 nodes"
    assert figure.axes[0].get_ylim() == (0, 1)


def cells(panel: object) -> set[str]:
    return {text.get_text() for text in panel.texts}  # type: ignore[attr-defined]


def test_heat_maps_of_one_run() -> None:
    figure = draw_heat_maps(small(), "KTH")
    slowdown, wait, run_time = figure.axes[:3]
    assert figure.get_suptitle() == "easy: KTH on 4 nodes under 400 to 464 W"
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == [
        "mean slowdown",
        "mean wait, s",
        "run time / static",
    ]
    assert cells(slowdown) == {"1.0", "24", "1.8"}
    assert cells(wait) == {"0", "90", "84"}
    assert cells(run_time) == {"1.00"}
    assert [label.get_text() for label in slowdown.get_yticklabels()] == ["1", "2", "3-4"]


def test_ratios_are_centred_on_one_and_share_a_scale() -> None:
    worse = record([(100, 400, 500, 2), (110, 200, 204, 4), (120, 162, 262, 1)])
    figure = draw_category_ratios(categories(worse), categories(small()), "")
    assert cells(figure.axes[0]) == {"4.00", "1.00", "0.77"}
    # From no wait to 300 s: a wait below a second counts as one.
    assert cells(figure.axes[1]) == {"300", "1.00", "0.50"}
    limits = {axes.collections[0].get_clim() for axes in figure.axes[:3]}
    assert limits == {(1 / 16, 16)}
    mild = draw_category_ratios(categories(small()), categories(small()), "")
    assert mild.axes[0].collections[0].get_clim() == (0.5, 2)


def test_heat_maps_without_a_job() -> None:
    assert cells(draw_heat_maps(record([(0, -1, -1, 1)])).axes[0]) == set()
    assert cells(draw_heat_maps(record([])).axes[0]) == set()


def test_one_line_a_policy_with_a_band() -> None:
    sweep = {
        "easy": {0.8: seeds(3600, 3600), 0.2: seeds(36_000, 39_600)},
        "parm": {0.2: seeds(7200), 0.8: seeds(1800)},
    }
    figure = draw_sweep(sweep, "gamma", title="Mira")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "gamma"
    assert axes.get_ylabel() == "mean completion, h"
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.2, 0.8]] * 2
    assert [list(line.get_ydata()) for line in axes.lines] == [[10.5, 1], [2, 0.5]]
    assert len({line.get_marker() for line in axes.lines}) == 2
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.2", "0.8"]
    assert axes.get_ylim()[0] == 0
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() > 10.5
    with pytest.raises(ValueError, match="at every point"):
        draw_sweep({"easy": {0.2: []}}, "gamma")


@pytest.mark.parametrize("most", [4000.0, 1e6])
def test_a_logarithmic_axis_has_ticks_on_any_range(most: float) -> None:
    sweep = {"easy": {1.0: seeds(3000), 2.0: seeds(most)}}
    axes = draw_sweep(sweep, "alpha", "completion_s_max", logarithmic=True).axes[0]
    assert axes.get_yscale() == "log"
    axes = draw_sweep(sweep, "alpha", logarithmic=True).axes[0]
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.get_yticks()) >= 2


SAVES: list[Callable[[Path], None]] = [
    lambda path: save_overview(path, [small()], "KTH"),
    lambda path: save_heat_maps(path, small()),
    lambda path: save_sweep(path, {"easy": {1.0: seeds(1, 2)}}, "gamma"),
]


@pytest.mark.parametrize("save", SAVES)
def test_files_have_the_width_and_the_same_bytes_each_time(
    tmp_path: Path, save: Callable[[Path], None]
) -> None:
    save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    assert int.from_bytes(data[16:20], "big") == 1500
    for name in ("a.svg", "b.svg"):
        save(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_names_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        save_overview(tmp_path / "a.gif", [small()])
    with pytest.raises(LogError, match="cannot be written"):
        save_overview(tmp_path / "no" / "a.png", [small()])
    assert list(tmp_path.iterdir()) == []
