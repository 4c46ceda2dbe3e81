"""Calendars that are set while processes run, through libfaketime; monotonic clocks stay true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIBRARY = next(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"), None)
WHY_NOT = "" if LIBRARY else "needs libfaketime (Debian: libfaketime)"
NOTICED_S = 2.0
"""A process sees a new calendar within a second, and a coordinator looks at it every second."""


class Calendar:
    """What processes that were started in `faked` take for the calendar: the true one at first."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.ahead_s = 0
        self.set_ahead(0)

    def set_ahead(self, seconds: int) -> None:
        """Set it to so much ahead of the true one (back: below 0)."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.rename(self._file)
        self.ahead_s = seconds

    @contextmanager
    def faked(self) -> Iterator[None]:
        """Processes that start here have this calendar, where there is libfaketime."""
        if LIBRARY is None:
            yield
            return
        values = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
