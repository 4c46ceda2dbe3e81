"""Errors in workloads, each with a one-line text for people.

WorkloadError
├── LogError        a log or sidecar cannot be read: file, line, error
└── FetchError      a log cannot be downloaded
"""

from __future__ import annotations

from pathlib import Path

from wattfold.simulator.workloads.header import printable


class WorkloadError(Exception):
    """An expected failure; its text is one line."""


class LogError(WorkloadError):
    """A file that cannot be used. ``line`` is 0 if the fault has no line."""

    def __init__(self, path: Path | str, line: int, problem: str) -> None:
        self.path = Path(path)
        self.line = line
        name = printable(str(path))
        where = f"{name}:{line}" if line else name
        super().__init__(f"{where}: {problem}")


class FetchError(WorkloadError):
    """A failed download."""
