"""The table and the document of runs."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import pytest
from rich.console import Console
from unit.results.records import record, small

from wattfold.simulator.results.measures import MEASURES, measure
from wattfold.simulator.results.metrics import Metrics, metrics_of
from wattfold.simulator.results.scales import (
    Quantity,
    number,
    scale_for,
    short_number,
)
from wattfold.simulator.results.table import (
    metrics_document,
    metrics_table,
)


def run(policy: str, **changed: object) -> Metrics:
    return replace(metrics_of(small(policy=policy)), **changed)  # type: ignore[arg-type]


def printed(runs: list[Metrics], *, terminal: bool = False, **options: object) -> list[str]:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=80,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
    )
    console.print(metrics_table(runs, **options))  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_one_row_a_measure_in_one_unit() -> None:
    lines = printed([run("easy"), run("parm", wait_s_mean=36_000.0, energy_j=3.4e6)], title="KTH")
    assert lines[0].strip() == "KTH"
    rows = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in lines[2:]}
    assert rows["mean wait, h"] == ["0.016", "10"]
    assert rows["energy, MJ"] == ["0.051", "3.400"]
    assert rows["peak committed power, W"] == ["464", "464"]
    assert rows["utilisation, %"] == ["38.73", "38.73"]
    assert max(map(len, lines)) <= 80
    # No run used a solver, so these rows are absent.
    assert not any("solver" in line for line in lines)


def test_three_policies_of_any_name_fit_and_a_pipe_gets_no_colours() -> None:
    lines = printed([run("a-policy-of-a-rather-long-name") for _ in range(3)])
    assert max(map(len, lines)) <= 80
    assert lines[0].count("a-policy") == 3
    assert "\x1b" not in "".join(lines)


def test_more_policies_are_rows_of_blocks() -> None:
    lines = printed([run(f"policy-{i}", makespan_s=i * 86_400.0) for i in range(5)])
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("policy-4") for line in lines) >= 2
    joined = "\n".join(lines)
    for word in ("makespan", "wait", "energy", "resizes"):
        assert word in joined


def test_best_is_green_and_time_over_the_budget_red() -> None:
    runs = [
        run("easy", utilisation=0.5, wait_s_mean=75.0),
        run("parm", utilisation=0.75, wait_s_mean=50.0, over_budget_s=2.0),
    ]
    lines = printed(runs, terminal=True)
    assert "\x1b[32m50\x1b[0m" in next(line for line in lines if "mean wait" in line).replace(
        " ", ""
    )
    # Utilisation is not a goal, so its best value is not marked.
    assert "\x1b[32m" not in next(line for line in lines if "utilisation" in line)
    assert "\x1b[1;31m" in next(line for line in lines if "over budget" in line)
    # All are equal: no best value is marked.
    assert "\x1b[32m" not in next(line for line in lines if "makespan" in line)


def test_timings_can_be_left_out() -> None:
    timed = replace(run("easy"), solver_s_mean=0.25)
    assert any("mean solver time, ms" in line for line in printed([timed]))
    assert not any("solver" in line for line in printed([timed], timings=False))
    assert {"wall_s", "solver_s_max"} & metrics_document(timed, timings=False).keys() == set()
    assert metrics_document(timed)["wall_s"] == 0.5


def test_names_may_replace_policies() -> None:
    assert "gamma 0.2" in printed([run("easy")], names=["gamma 0.2"])[0]
    with pytest.raises(ValueError, match="1 runs need as many names, got 2"):
        metrics_table([run("easy")], names=["a", "b"])
    with pytest.raises(ValueError, match="at least one"):
        metrics_table([])


def test_the_document_is_json() -> None:
    metrics = metrics_of(record([(0, 0, 100, 1)]))
    document = json.loads(json.dumps(metrics_document(metrics), allow_nan=False))
    assert document["solver_s_mean"] is None
    assert document["completion_s_mean"] == document["response_s_mean"] == 100
    assert "wall_s" in document
    assert "wall_s" not in metrics_document(metrics, timings=False)


def test_every_measure_is_a_figure_of_merit() -> None:
    metrics = run("easy")
    assert all(isinstance(item.of(metrics), float) for item in MEASURES)
    assert measure("completion_s_max").key == "response_s_max"
    with pytest.raises(ValueError, match="unknown figure of merit 'speed'"):
        measure("speed")


@pytest.mark.parametrize(
    ("quantity", "values", "unit"),
    [
        (Quantity.TIME, [7200.0], "min"),
        (Quantity.TIME, [1.0, 20_000.0], "h"),
        (Quantity.TIME, [0.0], "s"),
        (Quantity.TIME, [math.nan], "s"),
        (Quantity.TIME, [0.002], "ms"),
        (Quantity.POWER, [4_751_360.0], "MW"),
        (Quantity.ENERGY, [5e12], "TJ"),
        (Quantity.SHARE, [0.0], "%"),
    ],
)
def test_units(quantity: Quantity, values: list[float], unit: str) -> None:
    assert scale_for(quantity, values).unit == unit


def test_numbers() -> None:
    wanted = {0.5: "0.500", 12.345: "12.35", 123.45: "123.5", 12345.6: "12,346", 3.0: "3"}
    assert {value: number(value) for value in wanted} == wanted
    assert (number(math.nan), number(math.inf), number(1e-5)) == ("-", "inf", "1.0e-05")
    short = {0.42: "0.42", 0.999: "1.0", 37.2: "37", 999.6: "1.0k", 12_345.0: "12k", 2e6: "2.0M"}
    assert {value: short_number(value) for value in short} == short
    assert short_number(math.nan) == ""
