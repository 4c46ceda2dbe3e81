"""The commands and the Python code of docs/workloads.md run on small logs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.workloads.swf_files import job, log

PAGE = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    wattfold (workload .*)$", PAGE, re.M)
[PROGRAM] = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
ELSEWHERE = {"fetch": "needs the archive", "collect": "needs a coordinator"}
"""Commands with tests of their own: `test_workload_download`, `test_cli_workload_collect`."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("kth.swf.gz", "curie.swf.gz"):
        log(tmp_path, *(job(n, n * 300, f4=200, f5=30, f16=10) for n in range(1, 9)), name=name)
    return tmp_path


@pytest.mark.parametrize("line", [c for c in COMMANDS if c.split()[1] not in ELSEWHERE])
def test_a_command_of_the_page_works(folder: Path, line: str) -> None:
    words = shlex.split(line)
    result = Command("unix:/nonexistent/wattfold.sock")(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    for name in words[2:]:
        if name.endswith((".gz", ".csv")):
            assert (folder / name).is_file()


def test_the_page_has_commands() -> None:
    assert [line.split()[1] for line in COMMANDS] == [
        "describe",
        "convert",
        "generate",
        "fetch",
        "collect",
    ]


def test_the_program_of_the_page_works(folder: Path) -> None:
    names: dict[str, object] = {}
    exec(compile(PROGRAM, str(folder / "program.py"), "exec"), names)
    assert {"read", "jobs", "profiles"} <= set(names)
