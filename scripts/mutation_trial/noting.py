"""A plugin of pytest, of a run under coverage: which test executes what, and how long each takes.

Coverage tells tests apart by the names of functions alone, and not where a library calls them, as
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
    """A test with all its parameters together."""
    return nodeid.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from here on is of this test, its fixtures too."""
    running = coverage.Coverage.current()
    assert running is not None
    running.switch_context(name_of(item.nodeid))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Set-up, call and tear-down count."""
    _seconds[name_of(report.nodeid)] += report.duration


def pytest_sessionfinish() -> None:
    """Seconds by test, as JSON."""
    Path(os.environ[TIMES]).write_text(json.dumps(_seconds), encoding="utf-8")
