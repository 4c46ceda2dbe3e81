"""`wattfold compare` under several budgets and seeds: its runs, output and plots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.cli.simulation.compare import _cases, compare
from wattfold.coordinator.cli.simulation.compare_budgets import parse_budgets, under_budgets
from wattfold.simulator.results.budget_sweep import SweepPoint
from wattfold.simulator.results.comparison import COMPARED, Compared, ratio_to
from wattfold.simulator.results.measures import measure

PNG = b"\x89PNG\r\n\x1a\n"
JOBS = ("--model", "poisson", "--jobs", "25", "--nodes", "8", "--idle", "20")


def wattfold(*words: str) -> Any:
    return Command("unix:/nonexistent/wattfold.sock")(*words)


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("8kW..12kW", (8000, 9000, 10_000, 11_000, 12_000)),
        ("8kW..12kW:3", (8000, 10_000, 12_000)),
        ("8kW..9.2kW/500W", (8000, 8500, 9000)),
        ("9kW,8000,8kW", (8000, 9000)),
    ],
)
def test_budgets_are_a_range_or_a_list(text: str, watts: tuple[int, ...]) -> None:
    assert parse_budgets(text) == tuple(uw_from_w(one) for one in watts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9kW..8kW", "not an ascending range"),
        ("8kW..9kW:1", "is 1 budgets; a range has 2 to 100"),
        ("8kW..9kW:x", "is 0 budgets"),
        ("8kW..9kW/1W", "is 1001 budgets"),
        ("8kW..much", "not a power: 'much'"),
    ],
)
def test_budgets_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_budgets(text)
    assert message in wattfold("compare", *JOBS, "--budgets", text).stderr


def test_all_budgets_and_policies_get_the_same_jobs() -> None:
    words = [*JOBS, "--cut-sizes", "--budgets", "400W..700W:3", "--seeds", "2"]
    options = compare.make_context("compare", [*words, "--policies", "easy,fifo"]).params
    cases = under_budgets(_cases(options), options["budgets"])
    assert [(c.budget.least_uw // 10**6, c.seed, c.name) for c in cases] == [
        (watts, seed, name)
        for watts in (400, 550, 700)
        for seed in (0, 1)
        for name in ("easy", "fcfs")
    ]
    # 400 W feed two nodes at 96 W above idle, in addition to eight idle nodes.
    assert {c.source.size_most for c in cases} == {2}
    one = compare.make_context("compare", [*JOBS, "--budget", "400W", "--cut-sizes"]).params
    assert _cases(one)[0].nodes_at_full_power == 2


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, str, Path]:
    """JSON, text and plot of a sweep that includes an infeasible budget."""
    picture = tmp_path_factory.mktemp("sweep") / "sweep.png"
    words = ("compare", *JOBS, "--cut-sizes", "--budgets", "100W,500W,700W", "--seeds", "2")
    words = (*words, "--policies", "easy,easy-uniform", "--workers", "1")
    result = wattfold(*words, "--json", "--plot", str(picture))
    assert (result.exit_code, result.stderr) == (0, "")
    shown = wattfold(*words)
    assert (shown.exit_code, shown.stderr) == (0, "")
    return json.loads(result.stdout), shown.stdout, picture


def test_a_sweep_has_a_line_a_budget(swept: tuple[Any, str, Path]) -> None:
    document, text, picture = swept
    none, low, high = document["budgets"]
    assert [one["budget_w"] for one in (none, low, high)] == [100, 500, 700]
    assert none["runs"] == []
    assert set(none["refused"]) == {"easy", "easy-uniform"}
    for one in (low, high):
        assert [run["policy"] for run in one["runs"]] == ["easy", "easy-uniform"]
        for run in one["runs"]:
            least, most = run["relative_95"]["completion_s_mean"]
            assert least <= run["relative"]["completion_s_mean"] <= most
    assert high["runs"][0]["completion_s_mean"] < low["runs"][0]["completion_s_mean"]
    assert picture.read_bytes().startswith(PNG)
    assert (
        "easy, easy-uniform cannot run under 100 W: the budget of 100 W leaves no power for jobs"
        in text
    )
    assert "the 95 % confidence interval of a ratio (Student's t, paired by seed)" in text
    assert "Profiles: drawn from seeds 0 to 1, not measured." in text
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["100 W"][2:] == ["-", "-", "-"]
    assert "±" in text


def test_a_sweep_that_no_budget_allows_says_why() -> None:
    result = wattfold("compare", *JOBS, "--budgets", "50W,100W", "--workers", "1")
    assert result.exit_code == 2
    assert result.stderr.startswith("wattfold: the budget of 100 W leaves no power for jobs")


def test_one_of_budget_and_budgets_is_given() -> None:
    result = wattfold("compare", *JOBS, "--budgets", "500W,600W", "--budget", "500W")
    assert "--budgets replaces --budget" in result.stderr


def test_nodes_in_use_and_committed_power_are_no_goals() -> None:
    lines = {line.key: line.better for line in COMPARED}
    assert lines["utilisation"] == lines["budget_utilisation"] == 0
    assert lines["makespan_s"] == -1
    assert measure("utilisation").better == 0


def test_a_ratio_is_that_of_the_means_with_the_interval_of_the_pairs() -> None:
    """Student's t with one degree of freedom: 12.706; differences -0.5 and 0.5 by a mean of 3."""
    [line] = [line for line in COMPARED if line.key == "makespan_s"]
    base, runs = ([_run(one) for one in values] for values in ((2.0, 4.0), (1.5, 1.5)))
    by = ratio_to(runs, base, line)
    assert by.mean == 0.5
    assert by.half_width == pytest.approx(12.7062 * 0.5 / 3, rel=1e-4)
    assert SweepPoint(budget_w=1.0, runs={"a": base}, refused={}).runs["a"] == base


def _run(makespan_s: float) -> Compared:
    return Compared(
        policy="a",
        jobs=1,
        makespan_s=makespan_s,
        completion_s_mean=1.0,
        wait_s_mean=1.0,
        wait_s_median=1.0,
        wait_s_p99=1.0,
        bounded_slowdown_mean=1.0,
        bounded_slowdown_median=1.0,
        energy_j=1.0,
        utilisation=0.5,
        budget_utilisation=0.5,
        throughput_per_h=1.0,
    )
