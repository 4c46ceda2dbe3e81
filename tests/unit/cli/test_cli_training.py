"""`wattfold simulate --training` and `compare --training`: costs, price series, bad input."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.cli.command import Command

JOBS = "job_id,submit_s,app,epochs,due_s,weight\n1,0,net,60,600,3\n2,60,net,80,,\n"
TIMES = "app,gpu_model,gpus,epoch_s\nnet,V100,1,20\nnet,V100,2,10\n"
MACHINE = """
[[class]]
name = "v100"
nodes = 1
cores = 8
gpus = 2
gpu_model = "V100"
gpu_max_w = 250
gpu_idle_w = 50
base_w = 80
dram_w = 0
cap_min_w = 20
cap_max_w = 100
"""


@pytest.fixture
def wattfold() -> Command:
    return Command("unix:/nonexistent/wattfold.sock")


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    named = {"training": JOBS, "epoch-times": TIMES, "machine": MACHINE}
    arguments = []
    for name, text in named.items():
        path = tmp_path / f"{name}.file"
        path.write_text(text)
        arguments += [f"--{name}", str(path)]
    return arguments


def test_a_run_of_training_jobs_is_charged(wattfold: Command, files: Sequence[str]) -> None:
    """Both jobs run on both GPUs, one after the other: 600 s and 800 s at 680 W."""
    prices = ("--energy-price=3.6", "--pue=1.5", "--late-cost=7200")
    (run,) = wattfold.json("simulate", *files, *prices)["runs"]
    assert run["makespan_s"] == 1400
    assert run["energy_eur"] == pytest.approx(1.5 * 680 * 1400 / 1e6)
    # The first job ends exactly at its due date.
    assert (run.get("tardiness_eur"), run.get("jobs_overdue")) == (None, None)


def test_files_tell_of_due_dates_and_gpus(
    wattfold: Command, files: Sequence[str], tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    wattfold.json("simulate", *files, "--format=both", "--no-figures", "--out", str(out))
    with (out / "easy-seed0" / "jobs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    told = [first[name] for name in ("due_s", "weight", "tardiness_s", "gpu_s")]
    assert told == ["600", "3", "0", "1200"]
    assert [second["due_s"], second["tardiness_s"], second["weight"]] == ["", "", "1"]
    table = parquet.read_table(out / "easy-seed0" / "jobs.parquet")
    assert table["tardiness_s"].to_pylist() == [0, None]


def test_policies_are_compared_at_prices_that_change(
    wattfold: Command, files: Sequence[str], tmp_path: Path
) -> None:
    series = tmp_path / "prices.csv"
    series.write_text("1970-01-01T00:00Z,3600\n1970-01-01T00:15Z,-7200\n")
    document = wattfold.json("compare", *files, "--policies=fifo", "--energy-price", str(series))
    (run,) = document["runs"]
    assert run["energy_eur"] == pytest.approx(680 * (900 - 2 * 500) / 1e6)
    # The ratio to a cost below zero is undefined.
    assert run["relative"]["total_eur"] is None


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (("training", "60,600", "60,-1"), (), "due_s must be a number of at least 0"),
        (("training", "2,60,net,80,,", "2,60,net,80,59,"), (), "job 2 is due at 59 s, before"),
        (
            ("machine", "V100", "A100"),
            (),
            "'net' has epoch times on 1 x V100, 2 x V100; nodes have",
        ),
        (("training", "net", "other"), (), "no epoch time of 'other' is known"),
        ((), ("--energy-price=cheap",), "neither a price, a daily table nor a file"),
        ((), ("--count=1",), "--count cannot be combined with --training"),
        ((), ("--log=x.swf",), "give exactly one of --log, --model and --training"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    wattfold: Command, files: list[str], change: Sequence[str], more: Sequence[str], message: str
) -> None:
    if change:
        name, old, new = change
        path = Path(files[files.index(f"--{name}") + 1])
        path.write_text(path.read_text().replace(old, new))
    result = wattfold("simulate", *files, *more)
    assert result.exit_code != 0
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_its_other_files_nothing_runs(wattfold: Command, files: list[str]) -> None:
    assert "add --epoch-times" in wattfold("simulate", *files[:2], *files[4:]).stderr
    assert "--machine FILE" in wattfold("simulate", *files[:4]).stderr
    assert "--pue needs --training" in wattfold("simulate", "--log=x", "--pue=1.3").stderr
