"""The README of the agent shows the output of its command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wattfold.nodeagent import check

README = Path(__file__).parents[3] / "nodeagent" / "README.md"


def test_the_session_of_the_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"^```console\n\$ (.*)\n((?:.*\n)*?)\.\.\.\n```", README.read_text(), re.M)
    assert found
    program, command, *options = shlex.split(found[1])
    assert (program, command) == ("wattfold-agent", "check")
    folders = ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    check.main([*options, *folders])
    printed = capsys.readouterr().out.splitlines()
    assert found[2].splitlines() == [line for line in printed if line in found[2].splitlines()][:6]
