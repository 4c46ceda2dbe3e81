"""`wattfold reproduce andreas`: its output, files and failures."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cli.command import Command

from wattfold.coordinator.cli.shared.exit_codes import ExitCode

REPRODUCE = ("reproduce", "andreas")


@pytest.fixture
def wattfold() -> Command:
    """These commands never call the coordinator, so there is none at this address."""
    return Command("unix:/nonexistent/wattfold.sock")


def test_small_problems_are_run_and_judged(wattfold: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [*REPRODUCE, "gap", "--quick", "--jobs=1", "--iterations=10", "--out", str(out)]
    result = wattfold(*arguments)
    assert result.exit_code == 0, result.output
    assert "QUICK" in result.output
    assert "10 cases, 0 of them from earlier runs" in result.output
    assert (out / "gap" / "gap.png").is_file()
    assert "within 3% of the best one" in (out / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no family given"),
        (["all"], "is not one of 'scenarios', 'prices', 'caps', 'gap', 'cluster'"),
        (["gap", "--workload=none"], "is not one of 'measured', 'composed'"),
        (["cluster", "--scale=0"], "not in the range"),
        (["gap", "--iterations=0"], "counted from 1"),
        (["caps", "--restart=-1"], "a restart must take 0 s to a day"),
        (["caps", "--host-idle=0"], "a host must draw 0 to 10,000 W"),
    ],
)
def test_what_makes_no_sense_is_refused(
    wattfold: Command, arguments: list[str], says: str, tmp_path: Path
) -> None:
    result = wattfold(*REPRODUCE, *arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == ExitCode.USAGE, result.output
    assert says in " ".join(result.output.split())
