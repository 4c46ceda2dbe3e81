"""Contents of the plots and the table of runs."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from wattfold.coordinator.figures import power_timeline
from wattfold.coordinator.figures.comparison_table import comparison_table
from wattfold.coordinator.figures.job_colors import job_looks
from wattfold.coordinator.figures.power_timeline import draw_power_timeline, save_power_timeline
from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
    LimitCurves,
    LimitPoint,
    Observation,
    PolicyResult,
    PolicyRun,
    PowerPoint,
)


def span(job: str, cpu: int, start_s: float, end_s: float, node: str = "n1") -> CoreSpan:
    return CoreSpan(job=job, node=node, cpu=cpu, start_s=start_s, end_s=end_s)


def run(policy: str, scale: float) -> PolicyRun:
    return PolicyRun(
        policy=policy,
        budget=(BudgetPoint(time_s=0, budget_w=200), BudgetPoint(time_s=20, budget_w=150)),
        power=(
            PowerPoint(time_s=0, committed_w=180, measured_w=160),
            PowerPoint(time_s=20, committed_w=140, measured_w=120),
        ),
        spans=(
            span("a", 0, 0, 10 * scale),
            span("a", 0, 10 * scale, 30 * scale),
            span("a", 1, 0, 10 * scale),
            span("b", 1, 10 * scale, 25 * scale),
            span("b", 0, 5, 25 * scale, node="n2"),
        ),
        limits=LimitCurves(
            nodes=("n1", "n2"),
            points=(
                LimitPoint(time_s=0, node_w=(100, 80)),
                LimitPoint(time_s=20, node_w=(60, 70)),
            ),
        ),
    )


def test_one_column_a_policy_with_common_axes() -> None:
    figure = draw_power_timeline([run("fifo", 1.0), run("parm", 0.8)], "two policies")
    power, other_power, limits, other_limits, cores, other_cores = figure.axes
    assert [axes.get_title(loc="left") for axes in (power, other_power)] == ["fifo", "parm"]
    assert power.get_ylabel() == "power (W)"
    assert cores.get_xlabel() == other_cores.get_xlabel() == "time (s)"
    assert power.get_xlim() == other_cores.get_xlim() == (0, 30)
    assert [line.get_label() for line in power.lines] == [
        "measured power",
        "committed power",
        "power budget",
    ]
    assert list(power.lines[2].get_ydata()) == [200, 150, 150]
    assert power.get_title(loc="right") == "finished after 30 s"
    assert figure.get_suptitle() == "two policies"
    # One band a node, up to the end of the run; the upper edge is the sum of the limits.
    assert len(limits.collections) == len(other_limits.collections) == 2
    assert limits.collections[1].get_paths()[0].get_extents().extents.tolist() == [0, 60, 30, 180]
    assert limits.get_title(loc="left").endswith("allow (from bottom to top: n1 to n2)")
    assert other_limits.collections[1].get_paths()[0].get_extents().x1 == 24


def test_one_row_a_core_and_one_bar_a_stretch() -> None:
    cores = draw_power_timeline([run("fifo", 1.0)]).axes[2]
    # The two stretches of job a on core 0 follow each other: one bar. Its resize is seen on core 1.
    assert len(cores.collections) == 4
    assert [label.get_text() for label in cores.get_yticklabels()] == ["0", "1", "0"]
    texts = {text.get_text() for text in cores.texts}
    assert {"n1", "n2", "a", "b"} <= texts


def test_a_run_without_jobs_or_samples_is_drawn_too() -> None:
    nothing = LimitCurves(nodes=("n1",), points=())
    empty = PolicyRun(policy="idle", budget=(), power=(), spans=(), limits=nothing)
    assert len(draw_power_timeline([empty]).axes) == 3
    with pytest.raises(ValueError, match="at least one run"):
        draw_power_timeline([])


def test_the_file_is_1600_pixels_wide(tmp_path: Path) -> None:
    path = tmp_path / "timeline.png"
    save_power_timeline(path, [run("fifo", 1.0)])
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 1600


def test_jobs_look_different() -> None:
    looks = job_looks([f"j{i}" for i in range(42)] + ["j0"])
    assert len({(look.fill, look.hatch) for look in looks.values()}) == 42


def result(policy: str, makespan_s: float, peak_w: float) -> PolicyResult:
    return PolicyResult(
        policy=policy,
        jobs=12,
        mean_completion_s=50,
        makespan_s=makespan_s,
        energy_j=20_000,
        budget_w=200,
        committed_w_peak=peak_w,
        measured_w_peak=170,
        resizes=3,
        observed=Observation(foreign_share=0.123, samples=9, samples_above=0, limits_w_peak=peak_w),
    )


def test_comparison_table() -> None:
    stream = io.StringIO()
    table = comparison_table([result("fifo", 160, 199), result("parm", 120, 201)])
    Console(file=stream, width=80).print(table)
    rows = {line[:20].strip(): line[20:].split() for line in stream.getvalue().splitlines()}
    assert rows["makespan s"] == ["160.0", "120.0", "0.75x"]
    assert rows["energy kJ"] == ["20.00", "20.00", "1.00x"]
    assert rows["peak committed W"] == ["199.0", "201.0"]
    assert rows["foreign CPU time %"] == ["12.3", "12.3"]
    without = comparison_table([result("fifo", 160, 199), result("parm", 120, 201)], ratios=False)
    assert [column.header for column in without.columns] == ["", "fifo", "parm"]
    with pytest.raises(ValueError, match="at least one result"):
        comparison_table([])


def test_a_peak_above_the_budget_is_red() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="standard")
    console.print(comparison_table([result("fifo", 1, 201)]))
    assert "\x1b[1;31m201.0" in stream.getvalue()


def test_long_names_of_nodes_keep_their_ends_which_differ() -> None:
    assert power_timeline._shortened("n0", rows=2) == "n0"
    names = [power_timeline._shortened(f"compute-{number}", rows=2) for number in range(3)]
    assert len(set(names)) == 3
    assert all(len(name) <= 5 for name in names)
