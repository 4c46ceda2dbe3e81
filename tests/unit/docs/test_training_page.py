"""The page on training jobs: its session prints what it shows, and its script resumes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
TRAIN_ONE_EPOCH = """#!/bin/sh
cat "$2" > "$4" 2>/dev/null
echo epoch >> "$4"
[ "$WATTFOLD_ATTEMPT" != 1 ] || kill -TERM $PPID
"""


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.S | re.M)
    assert found
    return found[1]


def test_the_example_writes_the_lines_of_the_page(tmp_path: Path) -> None:
    first, second, *lines = block("console").splitlines()
    program, *options = shlex.split(first.removeprefix("$ python "))
    done = subprocess.run(
        [sys.executable, str(ROOT / program), *options],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert done.stdout == b""
    path = second.removeprefix("$ cat ")
    written = (tmp_path / path).read_text(encoding="utf-8").splitlines()
    shown = re.compile(r"seconds=\S+|(?<=loss=)(\d+\.\d\d)\d*")
    assert [shown.sub(r"\1", line) for line in written] == [
        shown.sub(r"\1", line) for line in lines
    ]


def test_the_script_resumes_after_a_signal(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "train-one-epoch"
    tool.parent.mkdir()
    tool.write_text(TRAIN_ONE_EPOCH, encoding="ascii")
    tool.chmod(0o755)
    folder = tmp_path / "snapshots"
    folder.mkdir()
    statuses = []
    for attempt in (1, 2):
        environment = {
            "PATH": f"{tool.parent}:{os.environ['PATH']}",
            "WATTFOLD_SNAPSHOT_DIR": str(folder),
            "WATTFOLD_EPOCHS": "3",
            "WATTFOLD_ATTEMPT": str(attempt),
        }
        done = subprocess.run(["sh", "-c", block("sh")], env=environment, check=False)
        statuses.append(done.returncode)
    assert statuses == [143, 0]
    assert (folder / "weights").read_text(encoding="ascii") == "epoch\n" * 3
    lines = (folder / "epochs").read_text(encoding="ascii").splitlines()
    assert [re.sub(r"seconds=\S* ", "", line) for line in lines] == [
        "epoch=1 attempt=1",
        "epoch=2 attempt=2",
        "epoch=3 attempt=2",
    ]
