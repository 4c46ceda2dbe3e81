"""`wattfold simulate --sleep`: nodes that sleep by count, by node and with messages."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from unit.cli.command import Command

MODEL = ("--model", "lublin", "--jobs", "12", "--seed", "1", "--budget", "700W")
NODES = ("--nodes", "8")
SLEEP = ("--sleep", "3m:150W")
MACHINE = """
[[class]]
name = "a"
nodes = 8
cores = 16
base_w = 40
dram_w = 16
cap_min_w = 25
cap_max_w = 60
"""
BOOT_J = 180 * 150


def simulate(*words: str) -> Result:
    return Command("unix:/nonexistent/wattfold.sock")("simulate", *MODEL, *words)


def metrics(*words: str) -> dict[str, Any]:
    (run,) = json.loads(simulate("--json", *words).stdout)["runs"]
    return dict(run)


@pytest.mark.parametrize("level", ["pool", "messages"])
def test_nodes_of_a_simulation_sleep(level: str, tmp_path: Path) -> None:
    run = metrics(*NODES, *SLEEP, "--level", level, "--out", str(tmp_path), "--no-figures")
    assert run["policy"] == "easy+sleep"
    assert run["boots"] > 0
    assert 0 < run["nodes_awake"] < 1
    assert run["boot_j"] == pytest.approx(run["boots"] * BOOT_J, rel=0.01)
    asleep_s = (1 - run["nodes_awake"]) * 8 * run["makespan_s"]
    assert run["asleep_j"] == pytest.approx(5 * asleep_s, rel=0.05)
    assert run["energy_j"] > run["asleep_j"] + run["boot_j"]
    folder = tmp_path / "easy+sleep-seed1"
    written = json.loads((folder / "metrics.json").read_text())["metrics"]
    assert (written["boots"], written["asleep_j"]) == (run["boots"], run["asleep_j"])
    with (folder / "series.csv").open() as file:
        awake = [int(row["nodes_awake"]) for row in csv.DictReader(file)]
    assert max(awake) == 8
    assert min(awake) < 8


def test_nodes_of_a_machine_file_sleep(tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    machine.write_text(MACHINE)
    run = metrics("--machine", str(machine), *SLEEP, "--budget", "900W")
    assert run["boot_j"] == pytest.approx(run["boots"] * BOOT_J, rel=0.01)
    assert 0 < run["nodes_awake"] < 1


def test_a_plain_timer_replaces_the_decision_of_plans() -> None:
    timer = metrics(*NODES, *SLEEP, "--sleep-timer", "10m")
    assert timer["policy"] == "easy+timer"
    longer = metrics(*NODES, *SLEEP, "--sleep-timer", "2h")
    assert timer["nodes_awake"] < longer["nodes_awake"]


def test_runs_without_sleep_say_nothing_of_boots(tmp_path: Path) -> None:
    run = metrics(*NODES, "--cut-sizes", "--out", str(tmp_path), "--no-figures")
    assert "boots" not in run
    assert "nodes_awake" not in (tmp_path / "easy-seed1" / "series.csv").read_text()


def test_boots_fail_at_the_given_share() -> None:
    whole = metrics(*NODES, *SLEEP, "--boot-failures", "0.3")
    assert whole["failed_boots"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sleep-timer", "1h"), "--sleep-timer needs --sleep"),
        (("--sleep", "3m:150W", "--rise-limit", "5W"), "counted nodes that do not sleep"),
        ((*SLEEP, "--sleep-timer", "1h", "--level", "messages"), "a plain idle timer is for"),
    ],
)
def test_what_cannot_sleep_is_refused(words: tuple[str, ...], message: str) -> None:
    done = simulate(*NODES, *words)
    assert done.exit_code
    assert message in done.stderr
