"""`submit`: directives of other schedulers, commands in the current directory, options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from unit.adapters.test_submissions import complaint
from unit.cli.command import Command
from unit.cli.conftest import address, fake, short_folder, wattfold
from unit.cli.fake_coordinator import FakeCoordinator

__all__ = ["address", "fake", "short_folder", "wattfold"]

SCRIPT = """#!/bin/bash
#SBATCH --nodes=2

# a comment
#SBATCH --time=1:00:00
hostname
#SBATCH --after=the-first-command
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("command", [["./job.sh"], ["bash", "job.sh"]])
def test_directives_are_read_or_named(
    wattfold: Command, fake: FakeCoordinator, script: Path, command: list[str]
) -> None:
    result = wattfold("submit", "--", *command)
    assert (result.exit_code, len(fake.submissions)) == (0, 1), result.output
    spec = fake.submissions[-1].spec
    assert (spec.size_max, spec.limit_ns) == (2, 3600 * 10**9)
    assert "#SBATCH after the first command has no effect (line 7)" in result.stderr


def test_a_script_without_directives_is_submitted_in_silence(
    wattfold: Command, script: Path
) -> None:
    script.write_text("#!/bin/sh\nhostname\n")
    assert wattfold("submit", "--", "./job.sh").stderr == ""


def test_a_program_in_the_current_directory_is_suggested(wattfold: Command, script: Path) -> None:
    script.with_name("program").write_bytes(b"\x7fELF")
    result = wattfold("submit", "--", "program")
    assert result.exit_code == 2
    assert f"'program'; did you mean ./program, the file in {script.parent}?" in result.stderr
    assert wattfold("submit", "--", "job.sh").exit_code == 0


def test_only_similar_options_are_suggested(wattfold: Command) -> None:
    result = wattfold("submit", "--dependency", "3", "true")
    assert (result.exit_code, "ean" in result.stderr) == (2, False), result.stderr
    assert "'--cores'" in wattfold("submit", "--core", "3", "true").stderr


def test_a_priority_has_one_limit(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("submit", "--priority", "1001", "true").exit_code == 0
    refusal = complaint(priority=fake.submissions[-1].spec.priority)
    assert refusal == "priority 1001.0 is outside 0..1000"
    assert "at most 1000" in wattfold("submit", "--help").stdout


def test_a_pipe_is_not_read(wattfold: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert wattfold("submit", "--", "cat", str(tmp_path / "pipe")).exit_code == 0
