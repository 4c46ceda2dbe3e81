"""Which tests execute a line, found out once by running all of them under coverage.

The shortest come first: most mutants are found within seconds. Several runs in different copies
are taken together: files are told relative to their copy.
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
"""
LINES_UP = 12
"""A statement of several lines may be noted at its first."""


@dataclass(frozen=True, slots=True)
class Tests:
    """Functions that test, their times in seconds, and the lines each executes."""

    seconds: dict[str, float]
    """By `path::function`, all parameters together."""
    data: CoverageData

    def of(self, file: str, line: int) -> list[str]:
        """The tests that execute a line, the shortest first; all of them for one of a module."""
        by_line = self.data.contexts_by_lineno(file)
        noted = next((n for n in range(line, max(line - LINES_UP, 0), -1) if n in by_line), None)
        contexts = {""} if noted is None else {*by_line[noted]}
        # Without a test: while modules are loaded.
        chosen = self.seconds.keys() if "" in contexts else contexts & self.seconds.keys()
        return sorted(chosen, key=lambda name: (self.seconds[name], name))


def tests_of(runs: Iterable[tuple[Path, Path]], together: Path) -> Tests:
    """Of runs of tests: the coverage and the times that each noted, put together in a file."""
    found, seconds = CoverageData(basename=str(together)), Counter[str]()
    for data, times in runs:
        one = CoverageData(basename=str(data))
        one.read()
        found.update(one)
        seconds.update(json.loads(times.read_text(encoding="utf-8")))
    return Tests(seconds, found)
