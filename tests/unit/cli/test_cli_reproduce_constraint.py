"""`wattfold reproduce constraint`: its output, files and failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.experiments.eurora_folder import JOBS, published

from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.simulator.papers.constraint.settings import TEST_1

REPRODUCE = ("reproduce", "constraint")


@pytest.fixture
def wattfold(monkeypatch: pytest.MonkeyPatch) -> Command:
    """These commands never call the coordinator, so there is none at this address."""
    monkeypatch.delenv("WATTFOLD_WORKLOADS", raising=False)
    return Command("unix:/nonexistent/wattfold.sock")


def test_a_window_is_run_judged_and_resumed(wattfold: Command, tmp_path: Path) -> None:
    folder = published(tmp_path / "eurora", jobs=TEST_1.first + JOBS)
    arguments = [*REPRODUCE, "pressed", "budget", "--quick", "--jobs", "1"]
    arguments += ["--traces", str(folder), "--out", str(tmp_path / "out")]
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert "2441.3" in result.output
    assert "QUICK" in result.output
    assert "9 cases, 0 of them with a stored result" in result.output
    assert (tmp_path / "out" / "pressed" / "waits.png").is_file()
    document = wattfold.json(*arguments)
    assert document["cases_stored"] == 9
    assert [family["name"] for family in document["experiments"]] == ["pressed", "budget"]
    found = document["experiments"][0]["instances"]
    assert {one["jobs"] for one in found} == {JOBS}
    assert len({one["wqt"] for one in found}) > 1
    assert str(tmp_path / "out" / "report.md") in document["files"]
    limited = document["experiments"][1]["instances"]
    assert [one["policy"] for one in limited][-1] == "constraint predicted"
    modelled = wattfold.json(*(one for one in arguments if one != "budget"), "--cp")
    assert modelled["cases_stored"] == 4
    policies = [one["policy"] for one in modelled["experiments"][0]["instances"]]
    assert policies[-1] == "constraint-cp"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], ExitCode.USAGE, "no family given"),
        (["all"], ExitCode.USAGE, "is not one of 'raw', 'pressed', 'budget', 'weeks', 'weights'"),
        (["raw"], ExitCode.NO_SUCH_JOB, "give their folder with --traces DIR"),
        (["raw", "--traces", "/nonexistent"], ExitCode.NO_SUCH_JOB, "expected a folder with"),
        (["raw", "--budget-share", "2"], ExitCode.USAGE, "above 0 and at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    wattfold: Command, arguments: list[str], code: ExitCode, says: str
) -> None:
    result = wattfold(*REPRODUCE, *arguments)
    assert result.exit_code == code, result.output
    assert says in " ".join(result.output.split())
