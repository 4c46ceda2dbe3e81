"""Throttled log lines, so that callers cannot fill the log."""

from __future__ import annotations

import time
from collections.abc import Callable

from wattfold.contract.log_text import line
from wattfold.contract.repeats import Repeats

EVERY_S = 10.0


class LogThrottle:
    """Lines of one logger. Events with equal values share their lines."""

    def __init__(
        self, write: Callable[[str], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._now_s = now_s
        self._repeats = Repeats(EVERY_S)

    def tell(self, event: str, **values: object) -> None:
        """Write a line, or count it for a later line. ``times`` is the number of counted lines."""
        text = line(event, **values)
        if count := self._repeats.one_more(text, self._now_s()):
            self._write(text if count == 1 else f"{text} times={count}")
