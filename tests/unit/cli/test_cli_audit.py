"""Times on the command line of `wattfold audit`."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from wattfold.coordinator.cli.shared.parsing import parse_moment_s


def test_a_duration_is_so_long_ago() -> None:
    before_s = time.time() - 7200
    assert before_s <= parse_moment_s("2h") <= time.time() - 7200


@pytest.mark.parametrize("text", ["2026-11-22", "2026-11-22T03:00", "2026-11-22 03:00:07"])
def test_a_date_is_of_here(text: str) -> None:
    assert parse_moment_s(text) == datetime.fromisoformat(text).astimezone().timestamp()


def test_a_date_may_name_its_zone() -> None:
    assert parse_moment_s("1970-01-01T00:01:00+00:00") == 60


@pytest.mark.parametrize("text", ["", "yesterday", "-2h", "2026-13-01", "12"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        parse_moment_s(text)
