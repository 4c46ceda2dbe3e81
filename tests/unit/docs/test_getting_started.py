"""The commands of docs/getting-started.md run against a coordinator in memory.

Only commands of `wattfold` run: the services, systemd and the file system of a cluster are absent.
`test_commands.py` parses the others.
"""

from __future__ import annotations

import os
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator
from unit.docs.test_commands import commands

from wattfold.v1 import coordinator_pb2 as pb

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
LINES = [words[1:] for words in commands(PAGE) if words[0] == "wattfold"]
PROGRAMS = ("program", "hybrid", "rod.py", "lesson")
LAUNCHERS = ("mpirun", "mpiexec", "charmrun", "python")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the programs that the commands name."""
    monkeypatch.chdir(tmp_path)
    bins = tmp_path / "bin"
    bins.mkdir()
    for path in (*(tmp_path / name for name in PROGRAMS), *(bins / name for name in LAUNCHERS)):
        path.write_text("#!/bin/sh\n# follow_map\n", encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bins}:{os.environ['PATH']}")
    [calendar] = re.findall(r"```toml\n(default_budget.*?)```", PAGE, re.S)
    (tmp_path / "week.toml").write_text(calendar, encoding="utf-8")
    hours = [
        (datetime.now(UTC) + timedelta(hours=n)).isoformat(timespec="seconds") for n in range(1, 4)
    ]
    for name, column in (("contract.csv", "budget_kw"), ("prices.csv", "eur_per_mwh")):
        rows = [f"{hour},{60 + 30 * (n % 2)}" for n, hour in enumerate(hours)]
        (tmp_path / name).write_text("\n".join([f"time,{column}", *rows]), encoding="utf-8")
    return tmp_path


def test_the_commands_of_the_page_work_in_their_order(
    wattfold: Command, fake: FakeCoordinator, folder: Path
) -> None:
    for job_id in ("1", "17"):
        spec = pb.JobSpec(name="job", argv=["program"], size_min=1, size_max=4)
        output = pb.JobOutput(node_id="n1", stdout_path=str(folder / "program"))
        running = pb.JOB_STATE_RUNNING
        fake.add(pb.Job(job_id=job_id, spec=spec, state=running, size=1, outputs=[output]))
    (folder / "errors").touch()
    output.stderr_path = str(folder / "errors")
    ended = pb.JOB_STATE_COMPLETED
    fake.add(pb.Job(job_id="18", spec=spec, state=ended, size=1, outputs=[output]))
    wrong = []
    for words in LINES:
        fake.finish_at_once = words[0] == "run"
        result = wattfold(*words)
        if result.exit_code or result.stderr:
            wrong.append((" ".join(words), result.output))
    assert wrong == []


def test_the_files_and_extras_of_the_page_exist() -> None:
    files = re.findall(r"(?<![\w/])packaging/[\w./-]+\.[a-z]+", PAGE)
    assert len(files) >= 5
    assert [name for name in files if not (ROOT / name).is_file()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for found in re.findall(r"'\.\[([\w,]+)\]'", PAGE) for name in found.split(",")}
    assert {"coordinator", "agent"} <= extras <= set(project["optional-dependencies"])


def test_the_page_has_commands() -> None:
    assert len(LINES) > 25
