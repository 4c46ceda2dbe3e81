"""`wattfold policies` and `wattfold compare` in process: output and refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command
from unit.workloads.swf_files import job, log
from unit.workloads.trace_files import line, trace

from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.policies import registry

MODEL = ("--model=poisson", "--jobs=40", "--nodes=16", "--budget=1.55kW", "--cut-sizes")
RANGES = ("--model=lublin", "--jobs=40", "--nodes=16", "--budget=1.55kW", "--cut-sizes")
"""Options for generated jobs with a minimum and a maximum size."""
PNG = b"\x89PNG\r\n\x1a\n"


def wattfold(*words: str) -> Any:
    return Command("unix:/nonexistent/wattfold.sock")(*words)


# ---- policies ----------------------------------------------------------------------------------


def test_all_policies_are_listed() -> None:
    shown = wattfold("policies")
    assert shown.exit_code == ExitCode.OK
    for entry in registry.entries():
        [line] = [row for row in shown.stdout.splitlines() if row.split()[0] == entry.variant.name]
        assert entry.variant.title in line
        assert all(name in line for name in entry.variant.names)
    listed = json.loads(wattfold("policies", "--json").stdout)["policies"]
    assert [one["name"] for one in listed] == [e.variant.name for e in registry.entries()]
    assert [one["name"] for one in listed if one["default"]] == ["parm-wse"]


@pytest.mark.parametrize("entry", list(registry.entries()), ids=lambda e: e.variant.name)
def test_one_is_shown_by_any_name_with_settings_and_source(
    entry: registry.RegisteredPolicy,
) -> None:
    for name in (*entry.variant.names, entry.family.name):
        text = wattfold("policies", name).stdout
        assert entry.family.citation in text
        for setting in entry.family.settings:
            assert f"{entry.family.name}.{setting.key}" in text
            assert setting.range_text in text
    document = json.loads(wattfold("policies", entry.variant.name, "--json").stdout)
    assert [one["key"] for one in document["settings"]] == [s.key for s in entry.family.settings]
    assert document["citation"] == entry.family.citation


def test_a_policy_that_is_none_is_refused_with_the_nearest() -> None:
    result = wattfold("policies", "fcsf")
    assert result.exit_code == ExitCode.USAGE
    assert result.stderr == "wattfold: no such policy: 'fcsf'; did you mean fcfs?\n"


# ---- compare -----------------------------------------------------------------------------------


def test_limits_are_read_from_a_file(tmp_path: Path) -> None:
    # Two jobs of one node for 100 s, the second a second later.
    swf = log(tmp_path, *(job(number, number, f5=1, f8=1, f12=7) for number in (1, 2)))
    limits = tmp_path / "limits.toml"
    words = ("compare", "--log", str(swf), "--nodes=2", "--policies=easy,fcfs", "--json")
    limits.write_text('[power]\nbudget_w = 1.0\n[[user]]\nname = "7"\njobs_max = 1\n')

    def waits(*more: str) -> list[float]:
        done = wattfold(*words, *more)
        assert done.exit_code == ExitCode.OK, done.stderr
        return [run["wait_s_mean"] for run in json.loads(done.stdout)["runs"]]

    assert waits() == [0, 0]
    assert waits("--limits", str(limits)) == [49.5, 49.5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[power]\n", "has no limits; add [[account]] or [[user]] tables"),
        ('[[user]]\nname = "7"\njobs_max = -1\n', "line 3"),
        ('[[user]]\nname = "7"\ncores_max = 2\nwatts = 3\n', "watts"),
        ("[[user]\n", "--limits: "),
        ('[[user]]\nname = "*"\ncores_max = 3\n', "the service would refuse it"),
        ("[[user]]\nname = '\x00'\n", "--limits: "),
    ],
)
def test_limits_that_cannot_apply_are_refused(tmp_path: Path, text: str, said: str) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text(text)
    done = wattfold("compare", *MODEL, "--procs-per-node=4", "--limits", str(limits))
    assert (done.exit_code, said in done.stderr) == (ExitCode.USAGE, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_policies_are_compared_with_the_first(tmp_path: Path) -> None:
    picture = tmp_path / "policies.png"
    names = "easy,fifo,easy-uniform"
    words = ("compare", *MODEL, "--policies", names, "--json", "--plot", str(picture))
    first, second = wattfold(*words), wattfold(*words)
    assert (first.exit_code, first.stderr) == (ExitCode.OK, "")
    assert first.stdout == second.stdout, "it is not deterministic"
    document = json.loads(first.stdout)
    runs = document["runs"]
    assert [run["policy"] for run in runs] == ["easy", "fcfs", "easy-uniform"]
    assert set(runs[0]["relative"].values()) == {1.0}
    for run in runs:
        for key, by in run["relative"].items():
            assert math.isclose(by, run[key] / runs[0][key])
        assert math.isclose(run["throughput_per_h"], run["jobs"] / (run["makespan_s"] / 3600))
        assert 0 < run["utilisation"] <= 1
        assert 0 < run["budget_utilisation"] <= 1
    assert runs[2]["utilisation"] > runs[0]["utilisation"], "it feeds all nodes"
    assert picture.read_bytes().startswith(PNG)


def test_the_table_has_a_line_a_figure_and_the_ratios() -> None:
    text = wattfold("compare", *MODEL, "--policies=easy,easy-uniform").stdout
    assert text.startswith("40 jobs of poisson model on 16 nodes under 1,550 W\n")
    lines = {line.split("  ")[0].split(",")[0]: line for line in text.splitlines() if line}
    titles = ["makespan", "mean completion", "mean wait", "mean bounded slowdown", "energy"]
    for title in (*titles, "nodes used", "budget committed", "jobs an hour"):
        assert lines[title].endswith("x"), title


def test_a_setting_makes_the_difference_for_its_policy_alone() -> None:
    words = ("compare", *RANGES, "--policies=easy,easy-uniform", "--json")
    plain = json.loads(wattfold(*words).stdout)["runs"]
    least = json.loads(wattfold(*words, "--set", "easy-uniform.size=min").stdout)["runs"]
    assert plain[0] == least[0]
    assert plain[1]["completion_s_mean"] != least[1]["completion_s_mean"]


def test_simulate_takes_settings_too() -> None:
    words = (
        "simulate",
        *RANGES,
        "--no-figures",
        "--policy=fifo-easy",
        "--run-times=pass",
        "--json",
    )
    by_set, by_option, plain = (
        json.loads(wattfold(*words, *more).stdout)["runs"][0]
        for more in (("--set", "fifo.size=min"), ("--size", "min"), ())
    )
    assert by_set["policy"] == "easy"
    assert (
        by_set["completion_s_mean"] == by_option["completion_s_mean"] != plain["completion_s_mean"]
    )


@pytest.mark.parametrize(("header", "nodes"), [(["; MaxProcs: 64"], 64), ([], 8)])
def test_the_machine_is_the_one_of_the_log(tmp_path: Path, header: list[str], nodes: int) -> None:
    rows = [job(number, number * 10, f5=8, f8=8) for number in range(1, 6)]
    path = log(tmp_path, *header, *rows)
    words = ("compare", "--log", str(path), "--policies=easy,easy-uniform", "--json")
    result = wattfold(*words)
    assert json.loads(result.stdout)["nodes"] == nodes, result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "give exactly one of --log, --model and --training"),
        ("--model lublin", "--model needs the size of the machine; add --nodes"),
        ("--model lublin --nodes 8 --policies easy,esay", "no such policy: 'esay'; did you mean"),
        ("--model lublin --nodes 8 --policies easy,fifo-easy", "easy is given twice"),
        ("--model lublin --nodes 8 --set alpha=1", "not a setting: 'alpha=1'"),
        ("--model lublin --nodes 8 --set parm.alpha=11", "parm.alpha = 11 is outside 0..10"),
        ("--model lublin --nodes 8 --set parm.alpha=nan", "parm.alpha = nan is outside 0..10"),
        ("--model lublin --nodes 8 --set parm.sizes=2.5", "'2.5' is not a whole number"),
        ("--model lublin --nodes 8 --set parm.alhpa=1", "did you mean alpha?"),
        ("--model lublin --nodes 8 --set parms.alpha=1", "no such policy: 'parms'"),
        (
            "--model lublin --nodes 8 --policies easy --set parm.alpha=1",
            "--set parm.alpha does not apply to easy",
        ),
        ("--model lublin --nodes 8 --plot a.gif", "the name must end in .png, .svg, .pdf"),
        ("--model lublin --nodes 8 --plot /nowhere/a.png", "no such folder: /nowhere"),
        ("--model lublin --nodes 8 --budget 100W", "leaves no power for jobs"),
        ("--log /nowhere/a.swf", "/nowhere/a.swf: cannot be read"),
        ("--model lublin --nodes 8 --price-hold 6h", "--price-hold needs prices that change"),
        (
            "--model lublin --nodes 8 --price-hold 6h --energy-price 0.2",
            "--price-hold needs prices that change",
        ),
        ("--model lublin --nodes 8 --energy-price 0.2", "needs --training FILE or --price-hold"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: str, message: str) -> None:
    result = wattfold("compare", *words.split())
    assert result.exit_code in (ExitCode.USAGE, ExitCode.REFUSED)
    assert message in result.stderr
    assert result.stderr.startswith("wattfold: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_each_policy_runs_without_and_with_holds() -> None:
    words = "--model lublin --jobs 20 --nodes 64 --idle 5 --policies easy,fcfs --price-hold 6h"
    prices = "0:00 0.30, 3:00 0.10, 18:00 0.30"
    result = wattfold("--json", "compare", *words.split(), "--energy-price", prices)
    answer = json.loads(result.stdout)
    names = [run["policy"] for run in answer["runs"]]
    assert names == ["easy", "easy+held", "fcfs", "fcfs+held"], result.stderr
    paid = {run["policy"]: run["paid_eur"] for run in answer["runs"]}
    assert 0 < paid["easy+held"] < paid["easy"]
    waits = {run["policy"]: run["wait_s_mean"] for run in answer["runs"]}
    assert waits["easy"] < waits["easy+held"] < waits["easy"] + 6 * 3600


# ---- machines of several classes ---------------------------------------------------------------


def test_policies_are_compared_on_jobs_of_units_and_unlike_nodes(tmp_path: Path) -> None:
    nodes = trace(tmp_path, "0 16 0 2 33554432 0", "1 16 2 0 33554432 0", name="nodes")
    jobs = [
        line(n, units="1;8;0;0;1048576#" if n % 2 else "1;4;1;0;1048576#2;4;1;0;1048576#")
        for n in range(1, 7)
    ]
    given = ("--log", str(trace(tmp_path, *jobs)), "--machine", str(nodes))
    result = wattfold(
        "compare",
        *given,
        "--policies=constraint,easy",
        "--set=constraint.repair=never",
        "--workers=1",
        "--json",
    )
    assert result.exit_code == ExitCode.OK, result.output
    document = json.loads(result.stdout)
    assert (document["nodes"], [run["jobs"] for run in document["runs"]]) == (2, [6, 6])
    refused = wattfold("compare", *given, "--nodes", "4")
    assert refused.exit_code == ExitCode.USAGE
    assert "with --machine FILE, set it in each class" in refused.output
