"""Small made-up traces of jobs of units, for tests."""

from __future__ import annotations

from pathlib import Path

UNIT = "5;2;0;0;1048576#"
"""A job of two cores and a GiB, on some node."""


def line(
    job: int | str,
    *,
    queue: str = "short",
    submit: str = "2020-05-04 10:00:00",
    units: str = UNIT,
    start: str = "2020-05-04 10:01:00",
    end: str = "2020-05-04 10:11:00",
    walltime: str = "00:30",
    status: str = "COMPLETED",
) -> str:
    head = f"{job};prog;someone;{queue};{submit}"
    return f"{head}__{units}__{start};{end};1;2;1;{walltime};NA;NA;{status};0"


def trace(folder: Path, *lines: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    return path
