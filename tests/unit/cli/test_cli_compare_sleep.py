"""`wattfold compare --sleep`: the runs that it adds, their measures, and what it refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import Result
from unit.cli.command import Command

MODEL = ("--model", "lublin", "--jobs", "12", "--nodes", "8", "--workers", "1", "--seed", "1")


def compare(*words: str) -> Result:
    return Command("unix:/nonexistent/wattfold.sock")("compare", *MODEL, *words)


def test_policies_run_without_and_with_sleep_and_easy_with_a_timer() -> None:
    done = compare("--json", "--policies", "easy", "--budget", "700W", "--sleep", "3m:150W")
    runs = {run["policy"]: run for run in json.loads(done.stdout)["runs"]}
    assert list(runs) == ["easy", "easy+sleep", "easy+timer"]
    assert runs["easy"].get("boots") is None
    assert runs["easy+sleep"]["boots"] > 0
    assert 0 < runs["easy+sleep"]["nodes_awake"] < 1
    assert runs["easy+sleep"]["energy_j"] < runs["easy"]["energy_j"]
    assert runs["easy+sleep"]["failed_boots"] == 0


def test_boots_fail_at_the_given_share() -> None:
    words = (
        "--json",
        "--policies",
        "easy",
        "--budget",
        "700W",
        "--sleep",
        "3m:150W",
        "--boot-failures",
    )
    runs = json.loads(compare(*words, "0.5").stdout)["runs"]
    assert runs[1]["failed_boots"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sleep", "3m"), "expected for example 3m:150W"),
        (("--sleep", "3m:20W"), "none may be below the value before it"),
        (("--sleep", "3m:150W", "--budget", "500W"), "with which the simulation begins"),
        (("--sleep", "3m:150W", "--budgets", "700W,800W"), "--sleep is for one budget"),
        (("--boots-max", "3"), "--boots-max needs --sleep"),
        (
            ("--sleep", "3m:150W", "--policies", "slowdown-driven"),
            "the power of 8 idle nodes and a boot, with which the simulation begins",
        ),
    ],
)
def test_what_cannot_sleep_is_refused(words: tuple[str, ...], message: str) -> None:
    options = words if "--policies" in words else ("--policies", "easy", *words)
    budget = () if "--budget" in words or "--budgets" in words else ("--budget", "700W")
    done = compare(*options, *budget)
    assert done.exit_code
    assert message in done.stderr
