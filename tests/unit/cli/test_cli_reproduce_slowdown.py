"""`wattfold reproduce slowdown-driven`: its output, files and failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.command import Command

from wattfold.coordinator.cli.shared.exit_codes import ExitCode

REPRODUCE = ("reproduce", "slowdown-driven")


@pytest.fixture
def wattfold(monkeypatch: pytest.MonkeyPatch) -> Command:
    """These commands never call the coordinator, so there is none at this address."""
    monkeypatch.delenv("WATTFOLD_WORKLOADS", raising=False)
    return Command("unix:/nonexistent/wattfold.sock")


def test_a_drawn_workload_is_run_judged_and_resumed(wattfold: Command, tmp_path: Path) -> None:
    arguments = [*REPRODUCE, "c", "--workload", "cirne", "--quick", "--seeds", "2", "--jobs", "1"]
    arguments += ["--out", str(tmp_path / "out")]
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert "worst-case model, DynAVGSD, workload 1" in result.output
    assert "QUICK" in result.output
    assert "static backfill" in result.output
    assert "20 cases, 0 of them from earlier runs" in result.output
    assert (tmp_path / "out" / "c-after" / "figure-8-models.png").is_file()
    document = wattfold.json(*arguments)
    assert document["cases_stored"] == 20
    assert document["workloads"] == ["cirne"]
    assert [experiment["name"] for experiment in document["experiments"]] == [
        "c-before",
        "c-after",
    ]
    assert str(tmp_path / "out" / "report.md") in document["files"]


def test_a_log_that_was_asked_for_must_be_there(wattfold: Command, tmp_path: Path) -> None:
    result = wattfold(*REPRODUCE, "a", "--workload", "ricc", "--logs", str(tmp_path))
    assert result.exit_code == ExitCode.NO_SUCH_JOB
    assert "ricc_2010.swf.gz" in result.output
    result = wattfold(*REPRODUCE, "b", "--out", str(tmp_path))
    assert result.exit_code == ExitCode.USAGE
    assert "curie_2011_partition10.swf.gz" in result.output


def test_real_programs_need_what_was_built(
    wattfold: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATTFOLD_OMP_SHIM", str(tmp_path / "none.so"))
    result = wattfold(*REPRODUCE, "d", "--out", str(tmp_path / "out"))
    assert result.exit_code == ExitCode.NO_SUCH_JOB
    assert "scripts/build_shims" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no experiment given"),
        (["e"], "is not one of 'a', 'b', 'c', 'gain', 'd'"),
        (["c", "--workload", "cirne", "--every", "0"], "every day or more often"),
        (["c", "--workload", "cirne", "--sharing-factor", "2"], "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(wattfold: Command, arguments: list[str], says: str) -> None:
    result = wattfold(*REPRODUCE, *arguments)
    assert result.exit_code == ExitCode.USAGE
    assert says in result.output
