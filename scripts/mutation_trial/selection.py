"""Tests that execute a given line, determined by one run of all tests under coverage.

The shortest tests come first, so most mutants are found within seconds. Several runs in different
copies are merged, because file names are relative to the copy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

RULES = """[run]
data_file = {data}
relative_files = true
include =
    */wattfold/coordinator/core/*
    */wattfold/coordinator/policies/*
    */wattfold/coordinator/adapters/*
    */wattfold/simulator/results/*
    */wattfold/nodeagent/*
"""
LINES_UP = 12
"""A statement of several lines may be recorded at its first line."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Test functions, their times in seconds, and the lines that each executes."""

    seconds: dict[str, float]
    """Seconds by `path::function`, all parameters together."""
    data: CoverageData

    def of(self, file: str, line: int) -> list[str]:
        """Return the tests that execute a line, shortest first, or all tests for a line at module
        level.
        """
        by_line = self.data.contexts_by_lineno(file)
        noted = next((n for n in range(line, max(line - LINES_UP, 0), -1) if n in by_line), None)
        contexts = {""} if noted is None else {*by_line[noted]}
        # An empty name means a line executed while modules are loaded.
        chosen = self.seconds.keys() if "" in contexts else contexts & self.seconds.keys()
        return sorted(chosen, key=lambda name: (self.seconds[name], name))


def tests_of(runs: Iterable[tuple[Path, Path]], together: Path) -> Tests:
    """Merge the coverage and the times of several runs into one file."""
    found, seconds = CoverageData(basename=str(together)), Counter[str]()
    for data, times in runs:
        one = CoverageData(basename=str(data))
        one.read()
        found.update(one)
        seconds.update(json.loads(times.read_text(encoding="utf-8")))
    return Tests(seconds, found)
