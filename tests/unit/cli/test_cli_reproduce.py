"""`wattfold reproduce`: its output, files and failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.experiments.measured_sample import GOOD, SHARED

from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.simulator.papers.equipartition.measured import store

EQUIPARTITION = "wattfold.simulator.papers.equipartition"


@pytest.fixture
def wattfold(monkeypatch: pytest.MonkeyPatch) -> Command:
    """These commands never call the coordinator, so there is none at this address."""
    monkeypatch.delenv("WATTFOLD_WORKLOADS", raising=False)
    return Command("unix:/nonexistent/wattfold.sock")


def test_the_cluster_is_run_judged_and_resumed(wattfold: Command, tmp_path: Path) -> None:
    arguments = ["reproduce", "parm", "cluster", "--quick", "--seeds", "2", "--jobs", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert "1.7x for wSE over the baseline (minimum size), SetL" in result.output
    assert "QUICK" in result.output
    assert "parallelism A" in result.output
    assert "20 cases, 0 of them from earlier runs" in result.output
    assert (tmp_path / "out" / "report.md").is_file()
    document = wattfold.json(*arguments)
    assert document["cases_stored"] == 20
    assert [experiment["name"] for experiment in document["experiments"]] == ["cluster"]
    assert str(tmp_path / "out" / "verdicts.json") in document["files"]


def test_a_missing_log_says_how_to_get_one(wattfold: Command, tmp_path: Path) -> None:
    result = wattfold("reproduce", "parm", "large", "--out", str(tmp_path))
    assert result.exit_code == ExitCode.USAGE
    assert "WATTFOLD_WORKLOADS" in result.output
    assert "wattfold workload fetch" in result.output
    result = wattfold("reproduce", "parm", "large", "--log", str(tmp_path / "none.swf"))
    assert result.exit_code == ExitCode.NO_SUCH_JOB
    assert "none.swf" in result.output
    assert "wattfold workload fetch" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no experiment given"),
        (["other"], "cluster"),
        (["cluster", "--nodes", "5"], "at least the 40960 nodes"),
        (["cluster", "--cluster-sizes", "3-90"], "which the baseline can power"),
        (["cluster", "--seeds", "0"], "--seeds"),
    ],
)
def test_what_makes_no_sense_is_refused(wattfold: Command, arguments: list[str], says: str) -> None:
    result = wattfold("reproduce", "parm", *arguments)
    assert result.exit_code == ExitCode.USAGE
    assert says in result.output


def test_no_dask_scheduler_is_one_line(wattfold: Command, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    result = wattfold("reproduce", "parm", "cluster", "--dask", "bad://x", "--out", str(tmp_path))
    assert result.exit_code == ExitCode.REFUSED
    assert "no Dask scheduler at bad://x" in result.output


def test_equipartition_is_run_judged_and_resumed(
    wattfold: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("case", "evaluation"):
        monkeypatch.setattr(f"{EQUIPARTITION}.{module}.LOADS", (0.3, 0.8))
    monkeypatch.setattr("wattfold.simulator.papers.equipartition.figures.LOADS", (0.3, 0.8))
    arguments = ["reproduce", "equipartition", "--quick", "--seeds", "2", "--jobs", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert "mean response is shorter with adaptive jobs" in result.output
    assert "24 cases, 0 of them from earlier runs" in result.output
    document = wattfold.json(*arguments)
    assert document["cases_stored"] == 24
    pictures = [path for path in document["files"] if path.endswith(".png")]
    assert [Path(path).read_bytes()[1:4] for path in pictures] == [b"PNG", b"PNG"]
    # With earlier measurements of real programs, as one stored file.
    store(GOOD, tmp_path / "out" / "measured.json")
    document = wattfold.json(*arguments, "--all")
    names = [experiment["name"] for experiment in document["experiments"]]
    assert names == ["cluster", "simulation", "resize-time", "residual", f"sharing-{SHARED.pes}"]
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "Measured on A, 2 cores" in report
    assert "to shrink 128 -> 64 processors takes 86 ms" in report


def test_equipartition_of_an_impossible_program_is_refused(
    wattfold: Command, tmp_path: Path
) -> None:
    result = wattfold("reproduce", "equipartition", "--sigma", "2", "--out", str(tmp_path))
    assert result.exit_code == ExitCode.USAGE
    assert "sigma between 0 and 1" in result.output
