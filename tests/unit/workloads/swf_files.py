"""Small SWF logs for tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOOD = "7 0 5 100 4 -1 -1 4 200 -1 1 3 1 -1 0 1 -1 -1"


def job(number: int, submit: float = 0, **changed: float | str) -> str:
    """A valid row, with the fields named `f1` to `f18` replaced."""
    fields = GOOD.split()
    fields[0], fields[1] = str(number), str(submit)
    for name, value in changed.items():
        fields[int(name[1:]) - 1] = str(value)
    return " ".join(fields)


def log(folder: Path, *lines: str, name: str = "log.swf") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def real_log(name: str) -> Path:
    """A log of the archive. The test is skipped if the log is absent."""
    root = os.environ.get("WATTFOLD_WORKLOADS")
    if not root:
        pytest.skip("WATTFOLD_WORKLOADS names no folder of workload logs")
    for path in (Path(root) / "workloads" / name, Path(root) / name):
        if path.is_file():
            return path
    pytest.skip(f"{name} is not in {root}")
