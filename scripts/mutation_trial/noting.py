"""Pytest plugin for coverage runs: records the test that executes each line, and test times.

Coverage itself distinguishes tests by function names only, and fails if a library calls them, as
for properties and state machines.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

TIMES = "WATTFOLD_TEST_TIMES"
"""The variable that names the file for the times."""

_seconds: dict[str, float] = defaultdict(float)


def name_of(nodeid: str) -> str:
    """The name of a test, common to all its parameters."""
    return nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Assign all code that runs from here on to this test, including its fixtures."""
    running = coverage.Coverage.current()
    assert running is not None
    running.switch_context(name_of(item.nodeid))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the times of set-up, call and tear-down."""
    _seconds[name_of(report.nodeid)] += report.duration


def pytest_sessionfinish() -> None:
    """Write the seconds of each test, as JSON."""
    Path(os.environ[TIMES]).write_text(json.dumps(_seconds), encoding="utf-8")
