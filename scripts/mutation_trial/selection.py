"""Which tests execute a line, found out once by running all of them under coverage."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData

RULES = """[run]
dynamic_context = test_function
data_file = {data}
include =
    */wattfold/coordinator/core/*
    */wattfold/coordinator/policies/*
"""
LINES_UP = 12
"""A statement of several lines may be noted at its first."""


@dataclass(slots=True)
class Tests:
    """Functions that test, their times in seconds, and the lines each executes."""

    seconds: dict[str, float]
    """By `path::function`, all parameters together, in the order in which they ran."""
    data: CoverageData
    folder: Path
    _by_context: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._by_context = defaultdict(list)
        for name in self.seconds:
            self._by_context[_context(name)].append(name)

    def of(self, file: str, line: int) -> list[str]:
        """The tests that execute a line, in order; empty if all may, as for one of a module."""
        by_line = self.data.contexts_by_lineno(str(self.folder / file))
        noted = next((n for n in range(line, max(line - LINES_UP, 0), -1) if n in by_line), None)
        contexts = set(by_line[noted]) if noted is not None else {""}
        if "" in contexts:
            return []
        chosen = {name for context in contexts for name in self._by_context.get(context, ())}
        return [name for name in self.seconds if name in chosen]


def tests_of(folder: Path, data: Path, report: Path) -> Tests:
    """Of a run of all tests in a folder: its coverage and its report in JUnit's form."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        path = case.attrib["classname"].replace(".", "/")
        path = path if path.startswith("tests/") else f"tests/{path}"
        name = f"{path}.py::{case.attrib['name'].partition('[')[0]}"
        seconds[name] += float(case.attrib["time"])
    found = CoverageData(basename=str(data))
    found.read()
    return Tests(dict(seconds), found, folder)


def _context(name: str) -> str:
    """How coverage calls a test: by the last part of its module's name."""
    path, _, function = name.partition("::")
    return f"{Path(path).stem}.{function}"
