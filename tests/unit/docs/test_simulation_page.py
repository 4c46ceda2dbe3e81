"""The commands of docs/simulation.md and docs/predictions.md run on small logs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.workloads.swf_files import job, log

from wattfold.coordinator.cli.simulation.compare import compare
from wattfold.coordinator.cli.simulation.runs.simulate import simulate
from wattfold.coordinator.cli.workloads.workload_fetch import fetch
from wattfold.simulator.results.job_columns import Extra, csv_header, row_columns

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "simulation.md").read_text(encoding="utf-8")
PREDICTIONS = (DOCS / "predictions.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)[1:]
    for line in re.findall(r"^    (wattfold (?:simulate|compare) .*)$", PAGE + PREDICTIONS, re.M)
]
LOGS = sorted({words[words.index("--log") + 1] for words in COMMANDS if "--log" in words})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the commands name."""
    monkeypatch.chdir(tmp_path)
    rows = [job(number, number * 300, f4=200, f5=30) for number in range(1, 9)]
    for name in LOGS:
        log(tmp_path, *rows, name=name)
    starts = "".join(f"{number},{number * 300}\n" for number in range(1, 9))
    (tmp_path / "starts.csv.gz").write_text(f"job_id,start\n{starts}")
    tables = re.findall(r"^```csv\n(.*?)^```", PAGE, re.S | re.M)
    for table, name in zip(tables, ("jobs.csv", "times.csv", "budget.csv"), strict=True):
        (tmp_path / name).write_text(table)
    machine = re.findall(r"^```toml\n(.*?)^```", PAGE, re.S | re.M)
    assert len(machine) == 3
    (gpus,) = (text for text in machine if "gpu_model" in text)
    others = [text for text in machine if text != gpus]
    (tmp_path / "machine.toml").write_text("\n".join(others))
    (tmp_path / "gpus.toml").write_text(gpus)


def with_few_jobs(words: list[str]) -> list[str]:
    """The command with a fifth of its drawn jobs, and with a wider step between its budgets."""
    changed = list(words)
    for place, word in enumerate(words):
        if word == "--jobs":
            changed[place + 1] = str(int(words[place + 1]) // 5)
        elif word == "--budgets" and ".." in words[place + 1]:
            low, _, high = words[place + 1].partition("..")
            changed[place + 1] = f"{low},{high}"
    return changed


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_commands_of_the_pages_work(words: list[str]) -> None:
    if "--dask" in words:
        assert simulate.make_context("simulate", words[1:]).params["dask"]
        return
    result = Command("unix:/nonexistent/wattfold.sock")(*with_few_jobs(words), "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output


def test_the_pages_have_commands() -> None:
    assert len(COMMANDS) == 20


def test_the_page_names_every_column_and_option() -> None:
    extra = Extra(parts=True, attempts=True, training=True)
    columns = csv_header(row_columns((), extra)).decode().strip().split(",")
    columns += ["queued", "running", "nodes_busy", "committed_w", "drawn_w", "budget_w"]
    assert [name for name in columns if f"`{name}`" not in PAGE] == []
    params = [*simulate.params, *compare.params, *fetch.params]
    known = {o for p in params for o in (*p.opts, *p.secondary_opts)}
    mentioned = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert mentioned <= known
